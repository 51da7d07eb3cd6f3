"""The producer: serializes, partitions, accumulates, compresses and sends records."""
