"""The network layer of the clients: connections, metadata, coordinators and retries."""
