"""The `Admin` client, one module per family of calls."""
