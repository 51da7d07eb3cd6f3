"""Fetches records from brokers into the buffer."""
