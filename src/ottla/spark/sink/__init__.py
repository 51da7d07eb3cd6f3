"""Rows of Spark into topics, exactly once: `docs/decisions/0009-exactly-once-sink.md` says how."""
