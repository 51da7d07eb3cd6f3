"""The values (and type) of control records inside batches."""
