"""Collects records in batches, one queue per partition."""
