"""Opens fetched batches, and delivers them as records or columns."""
