from ottla.records.pure.writer import PayloadWriter as PayloadWriter
from ottla.records.pure.writer import record_size_max as record_size_max
