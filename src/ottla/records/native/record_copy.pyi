from ottla.records.pure.record_copy import copy_records as copy_records
from ottla.records.pure.record_copy import renumber_records as renumber_records
