"""Reading records: assignment, positions, fetches, groups, commits."""
