"""Decisions on topics: create, delete, grow."""
