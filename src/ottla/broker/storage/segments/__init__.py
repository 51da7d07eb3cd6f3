"""A segment: the file of batches, its indexes, and the list of segments of a log."""
