"""Kafka's protocol: declared messages, codecs compiled from them on first use, frames."""
