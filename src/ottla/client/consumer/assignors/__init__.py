"""Assignors: they distribute partitions among the members of a classic group."""
