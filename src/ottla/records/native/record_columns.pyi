from ottla.records.pure.record_columns import RecordColumns as RecordColumns
