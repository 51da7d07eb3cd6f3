"""Log dirs: what is on disk beside the batches, and where the logs are."""
