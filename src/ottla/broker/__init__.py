"""What makes a node a broker of a cluster: its registration and heartbeats, and its way to the
active controller, wherever that is."""
