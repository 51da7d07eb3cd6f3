from ottla.records.pure.record_search import find_faults as find_faults
from ottla.records.pure.record_search import find_timestamp as find_timestamp
