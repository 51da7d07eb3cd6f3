"""The phases of requests, by API; their number, by version; their errors.

The phases are Kafka's. A request waits in the queue from its arrival until it is handled; `local`
is the work of its handler; `remote` the wait for others, such as followers or new records; then the
answer waits for those to earlier requests of the same connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ottla.broker.server.figures.latencies import Latencies
from ottla.protocol.errors import ErrorCode

NO_ERROR: Final = int(ErrorCode.NONE)
VERSIONS_MAX: Final = 64
OTHER_VERSIONS: Final = -1
FETCH: Final = "Fetch"
OF_CONSUMERS: Final = "FetchConsumer"
OF_FOLLOWERS: Final = "FetchFollower"
"""Kafka's names for the two kinds of Fetch."""


class ApiFigures:
    """The figures of one API on one kind of listener."""

    __slots__ = (
        "errors",
        "local",
        "name",
        "of_nodes",
        "queue",
        "remote",
        "requests",
        "response_queue",
        "total",
    )

    def __init__(self, name: str, of_nodes: ApiFigures | None = None) -> None:
        """`of_nodes`: the figures of the requests that other nodes send, if those are kept
        apart."""
        self.name = name
        self.of_nodes = of_nodes
        self.requests: dict[int, int] = {}
        """Their number, by version."""
        self.errors: dict[int, int] = {}
        """The number of responses, by their error code."""
        self.queue = Latencies()
        self.local = Latencies()
        self.remote = Latencies()
        self.response_queue = Latencies()
        self.total = Latencies()

    def begun(self, version: int, waited_s: float) -> None:
        number = self.requests.get(version)
        if number is None:
            # A client may ask for any version of ApiVersions: not all of 65,536 are remembered.
            number, version = (0, version) if len(self.requests) < VERSIONS_MAX else self._others()
        self.requests[version] = number + 1
        self.queue.record(waited_s)

    def _others(self) -> tuple[int, int]:
        return self.requests.get(OTHER_VERSIONS, 0), OTHER_VERSIONS

    def answered(self, response: Any) -> None:
        """Count a response by its error, if this API has one for the whole response."""
        code = getattr(response, "error_code", NO_ERROR)
        self.errors[code] = self.errors.get(code, 0) + 1

    def sent_at_once(self, arrived_s: float, began_s: float, now_s: float) -> None:
        self.local.record(now_s - began_s)
        self.remote.record(0.0)
        self.response_queue.record(0.0)
        self.total.record(now_s - arrived_s)


class Watch:
    """The phases of a request that is answered later."""

    __slots__ = ("_arrived_s", "_began_s", "_figures", "_handled_s", "_now", "_resolved_s")

    def __init__(
        self, figures: ApiFigures, now: Callable[[], float], arrived_s: float, began_s: float
    ) -> None:
        self._figures = figures
        self._now = now
        self._arrived_s = arrived_s
        self._began_s = began_s
        self._handled_s = self._resolved_s = now()

    def resolved(self, response: Any) -> None:
        """Note that the response is known."""
        self._resolved_s = self._now()
        self._figures.answered(response)

    def sent(self) -> None:
        figures, now_s = self._figures, self._now()
        figures.local.record(self._handled_s - self._began_s)
        figures.remote.record(self._resolved_s - self._handled_s)
        figures.response_queue.record(now_s - self._resolved_s)
        figures.total.record(now_s - self._arrived_s)


class RequestFigures:
    """The figures of all APIs that have been asked for."""

    def __init__(self) -> None:
        self.by_api: dict[str, ApiFigures] = {}

    def of(self, name: str) -> ApiFigures:
        if name == FETCH:
            return self._get(OF_CONSUMERS, self._get(OF_FOLLOWERS))
        return self._get(name)

    def _get(self, name: str, of_nodes: ApiFigures | None = None) -> ApiFigures:
        figures = self.by_api.get(name)
        if figures is None:
            figures = self.by_api[name] = ApiFigures(name, of_nodes)
        return figures
