"""A node of a cluster: broker, controller, or both."""
