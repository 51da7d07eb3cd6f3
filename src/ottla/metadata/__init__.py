"""The metadata of the cluster: its records, the image they add up to, who is told of a change."""
