"""The records of the metadata log, one module per record."""
