"""Pipelines declared in YAML: read and checked without Spark, then put to work on it."""
