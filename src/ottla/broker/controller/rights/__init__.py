"""Decisions on who may do what."""
