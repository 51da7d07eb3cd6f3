"""Faults that must never happen, and that stop the node."""

from __future__ import annotations


class RaftFault(Exception):
    """The protocol was violated: to continue could lose committed records.

    Bad requests do not raise this, they are refused. The driver stops the node.
    """
