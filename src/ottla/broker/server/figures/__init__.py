"""Figures of the requests that a node serves, kept only if somebody asks for them (`--metrics`).

latencies   how long something took: its number, its sum, and quantiles of the last minute or two
requests    the phases of requests, by API, version and error
topics      records, bytes and requests, by topic
"""
