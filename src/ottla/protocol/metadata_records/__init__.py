"""The records of the metadata log, one module a record."""
