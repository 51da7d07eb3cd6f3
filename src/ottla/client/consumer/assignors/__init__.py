"""How the partitions of topics are shared out among the members of a classic group."""
