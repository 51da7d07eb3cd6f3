"""The consumer: assignment, positions, fetches, groups and commits."""
