"""The pages of a node: `/metrics`, `/health` and `/ready`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final

from ottla import __version__
from ottla.broker.server.figures.requests import RequestFigures
from ottla.broker.server.figures.topics import TopicFigures
from ottla.metrics.changes import MetadataChanges
from ottla.metrics.exposition import OPEN_METRICS_TYPE, TEXT_TYPE, Family, written
from ottla.metrics.families.controller import controller_families, metadata_families
from ottla.metrics.families.exporter import exporter_families
from ottla.metrics.families.groups import group_families
from ottla.metrics.families.process import (
    connection_families,
    idle_families,
    info_families,
    process_families,
)
from ottla.metrics.families.quorum import quorum_families
from ottla.metrics.families.quotas import quota_families
from ottla.metrics.families.replicas import replica_families
from ottla.metrics.families.requests import request_families
from ottla.metrics.families.topics import topic_families
from ottla.metrics.http import Asked, HttpServer, Page, plain
from ottla.metrics.idle import IdleShare
from ottla.metrics.lag import GroupState, LagReader, Position
from ottla.runtime.pace import in_slices
from ottla.runtime.process import thread_cpu_s, usage

if TYPE_CHECKING:
    from ottla.node import Node

OPEN_METRICS: Final = "application/openmetrics-text"
SAMPLES_BETWEEN_CLOCK_LOOKS: Final = 32


class MetricsEndpoint:
    """Create it before the node starts: requests are counted from the first one on."""

    def __init__(self, node: Node, host: str, port: int) -> None:
        self.requests = RequestFigures()
        self.topics = TopicFigures()
        self._node = node
        self.host, self._port = host, port
        self._changes = MetadataChanges(node.node_id)
        self._lag = LagReader(node)
        self._idle = IdleShare(node.runtime.clock.now, thread_cpu_s)
        self._http: HttpServer | None = None

    def open(self) -> tuple[str, int]:
        """Listen; return the address. Raises `OSError` if that is impossible."""
        self._http = HttpServer(self._node.runtime, self.host, self._port, self._answer)
        return self.host, self._http.address[1]

    def close(self) -> None:
        if self._http is not None:
            self._http.close()

    def follow(self) -> None:
        """Count what metadata changes mean, from now on."""
        self._node.metadata.subscribe(self._changes.metadata_changed)

    async def _answer(self, asked: Asked) -> Page:
        if asked.path == "/metrics":
            return await self._metrics(asked)
        if asked.path == "/health":
            return self._health()
        if asked.path == "/ready":
            return self._ready()
        return plain(404, "there are /metrics, /health and /ready")

    async def _metrics(self, asked: Asked) -> Page:
        is_open = asked.accepts("accept", OPEN_METRICS)
        groups: list[GroupState] = []
        positions: list[Position] = []
        if self._node.has_broker:
            groups = list(self._lag.groups())
            positions = await self._lag.positions()
        families = chain(self._families(), group_families(groups, positions))
        steps = written(families, open_metrics=is_open)
        body = await in_slices(self._node.runtime, steps, SAMPLES_BETWEEN_CLOCK_LOOKS)
        return Page(200, OPEN_METRICS_TYPE if is_open else TEXT_TYPE, body)

    def _health(self) -> Page:
        """Tell whether the process works: one that does not should be restarted."""
        if self._node.failure.done():
            return plain(503, f"the node has to stop: {self._node.failure.result()}")
        return plain(200, "ok")

    def _ready(self) -> Page:
        """Tell whether the node serves. It should not be restarted because it does not: it may wait
        for the other nodes."""
        if self._node.failure.done():
            return self._health()
        waits_for = self._node.waits_for
        return plain(200, "ready") if waits_for is None else plain(503, waits_for)

    def _families(self) -> Iterator[Family | None]:
        node = self._node
        config = node.config
        now_s = node.runtime.clock.now()
        yield from info_families(
            __version__, node.node_id, node.cluster_id, ",".join(config["process.roles"])
        )
        yield from process_families(usage())
        yield from idle_families(self._idle.read())
        yield from connection_families(node.server.connections_by_listener())
        yield from request_families(self.requests, now_s)
        yield from quota_families(node.quota_metrics())
        if not node.has_metadata:
            return
        metadata = node.metadata
        yield from quorum_families(metadata.quorum)
        yield from metadata_families(metadata.image)
        if config.is_controller:
            yield from controller_families(metadata, self._changes)
        if node.has_broker:
            yield from replica_families(node.replicas, self._changes)
            yield from exporter_families(node.replicas)
            yield from topic_families(self.topics, metadata.image)
