"""Ways to a cluster: connections, metadata, coordinators, and when to try again."""
