"""Partitions as clients see them: leadership, visible records, and the meaning of `acks`."""
