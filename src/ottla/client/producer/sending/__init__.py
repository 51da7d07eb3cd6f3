"""Sends batches, and settles their outcome."""
