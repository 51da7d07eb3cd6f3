"""The metadata of the cluster: its records, the image they add up to, and its subscribers."""
