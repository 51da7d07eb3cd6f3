"""Managed Spark applications: what `ottla pipeline` runs, watches, stops and reprocesses."""

from ottla.pipelines.context import Context

__all__ = ["Context"]
