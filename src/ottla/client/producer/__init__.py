"""Sending records: serialize, partition, accumulate, compress, send."""
