"""Regular expressions for topic names: RE2's syntax, and like RE2 in linear time.

They come from clients, so no expression may block the broker. Python's `re` backtracks, and a few
characters are enough to keep it busy for hours; this is a small automaton instead. It stays simple
because topic names use only 65 characters and an expression must match the whole name.
"""

from __future__ import annotations

from ottla.broker.coordinator.consumer.regex.matcher import TopicRegex
from ottla.broker.coordinator.consumer.regex.syntax import InvalidRegex

__all__ = ["InvalidRegex", "TopicRegex"]
