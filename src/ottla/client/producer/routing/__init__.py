"""Chooses partitions, and knows their leaders."""
