"""Reads topics in Spark, batch and streaming, as Spark's own Kafka source does.

options ──> offset_finder (asks the cluster) ──> planning (pure: limits, ranges) ──> ranges
                                                                                       │ tasks
Arrow batches <── columns <── range_reader <── source_client (fetches) <───────────────┘
"""
