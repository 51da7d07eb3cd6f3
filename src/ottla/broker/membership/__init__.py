"""A broker's part in the cluster: its registration and heartbeats, and its requests to the active
controller."""
