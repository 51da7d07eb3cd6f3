"""Partitions as their clients see them: who leads, what is visible, what `acks` means."""
