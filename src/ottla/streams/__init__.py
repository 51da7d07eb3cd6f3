"""Streams and tables over topics: Kafka Streams' way of thinking, in Python, run by Spark."""
