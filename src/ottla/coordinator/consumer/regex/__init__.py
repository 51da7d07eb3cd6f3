"""Expressions that name topics, in RE2's syntax and with its promise: time linear in the input.

They come from clients, so no expression may hold up the broker. Python's own `re` backtracks, and a
few characters are enough to keep it busy for hours; this is a small automaton instead. Topic names
have 65 characters to choose from, and a match is of the whole name; that makes it simple.
"""

from __future__ import annotations

from ottla.coordinator.consumer.regex.matcher import TopicRegex
from ottla.coordinator.consumer.regex.syntax import InvalidRegex

__all__ = ["InvalidRegex", "TopicRegex"]
