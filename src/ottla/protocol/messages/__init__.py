"""The messages of every API, one module per API, imported when needed."""
