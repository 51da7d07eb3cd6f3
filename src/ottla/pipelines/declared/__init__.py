"""Pipelines declared in YAML: read and checked without Spark, then run on it."""
