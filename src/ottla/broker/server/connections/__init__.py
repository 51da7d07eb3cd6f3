"""Connections of clients and nodes: TLS handshakes, frames in, answers out, and their limits."""
