"""Envelopes: requests of clients that other brokers send to the active controller."""
