"""Managed Spark applications: what `ottla pipeline` runs, watches, stops and reprocesses."""
