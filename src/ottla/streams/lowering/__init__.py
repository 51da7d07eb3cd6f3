"""Lowers the queries of a plan to Spark's frames."""
