"""The client: connections, cluster metadata, and the producer, reader and admin built on them."""
