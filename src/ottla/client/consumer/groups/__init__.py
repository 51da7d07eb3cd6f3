"""The consumer as a member of a group."""
