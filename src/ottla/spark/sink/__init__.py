"""Writes rows of Spark to topics, exactly once: see `docs/decisions/0009-exactly-once-sink.md`."""
