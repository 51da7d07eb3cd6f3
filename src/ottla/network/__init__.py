"""Connections to nodes that speak Kafka's protocol: frames, versions, TLS, SASL. The clients use
them, and so do nodes that send requests to each other (`broker/peers`)."""
