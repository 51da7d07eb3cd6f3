"""Files beside the log that have a declared format."""
