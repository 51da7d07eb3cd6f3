"""What must never happen, and stops the node when it does."""

from __future__ import annotations


class RaftFault(Exception):
    """A promise of the protocol is broken: going on could lose committed records.

    Bad requests do not raise this, they are refused. The driver stops the node.
    """
