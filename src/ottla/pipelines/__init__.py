"""Managed Spark applications that `ottla pipeline` runs, watches, stops and reprocesses."""

from ottla.pipelines.context import Context

__all__ = ["Context"]
