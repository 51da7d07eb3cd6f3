from ottla.records.pure.record_copy import copy_records as copy_records
