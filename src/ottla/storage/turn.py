"""One thread at a time, the others wait: for work on files that must not overlap itself."""

from __future__ import annotations

from queue import SimpleQueue


class Turn:
    """Used as `with turn:`. A queue with one token, since storage owns no threads and no locks."""

    __slots__ = ("_token",)

    def __init__(self) -> None:
        self._token: SimpleQueue[None] = SimpleQueue()
        self._token.put(None)

    def __enter__(self) -> None:
        self._token.get()

    def __exit__(self, *_: object) -> None:
        self._token.put(None)
