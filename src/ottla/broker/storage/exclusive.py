"""Mutual exclusion of threads, for work on files that must not overlap itself."""

from __future__ import annotations

from queue import SimpleQueue


class Exclusive:
    """A lock, used as `with exclusive:`. It is a queue with one token: storage owns no threads."""

    __slots__ = ("_token",)

    def __init__(self) -> None:
        self._token: SimpleQueue[None] = SimpleQueue()
        self._token.put(None)

    def __enter__(self) -> None:
        self._token.get()

    def __exit__(self, *_: object) -> None:
        self._token.put(None)
