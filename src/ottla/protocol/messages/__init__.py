"""The messages of every API, one module an API, imported when needed."""
