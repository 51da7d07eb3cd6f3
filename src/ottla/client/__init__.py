"""The clients: producer, consumer and admin, and the network layer they are built on."""
