"""Only for the other compiled modules."""
