"""Queries on the state of a running application."""

from ottla.streams.stores.entry import Entry, Span
from ottla.streams.stores.store import Store

__all__ = ["Entry", "Span", "Store"]
