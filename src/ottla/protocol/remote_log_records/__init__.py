"""The records that track segments in remote storage."""
