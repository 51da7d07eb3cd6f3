"""The quorum's requests to other nodes, and what their answers tell about these nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from ottla.broker.peers.peers import PeerError, Peers
from ottla.broker.raft.effects import Request
from ottla.broker.raft.events import Event, RequestFailed, ResponseReceived
from ottla.broker.raft.ids import Node
from ottla.broker.raft.settings import RaftSettings
from ottla.logs import get_logger
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.fetch_snapshot import FetchSnapshotRequest

log = get_logger("ottla.quorum")

LANE_OF_FETCHES: Final = "raft"
LANE_OF_VOTES: Final = "raft-votes"
"""Votes must not wait behind a fetch that waits at a leader that may be gone."""


class Requests:
    def __init__(
        self, peers: Peers | None, settings: RaftSettings, tell: Callable[[Event], None]
    ) -> None:
        """`tell` passes the outcome of each request to the core. Without `peers` all fail."""
        self.unreachable: set[int] = set()
        """Nodes that a request did not reach. A leader that resigns does not wait until these nodes
        know: all nodes may be stopping."""
        self._peers = peers
        self._settings = settings
        self._tell = tell
        self._foreign: set[tuple[str, int]] = set()
        """Controllers that were logged as belonging to another cluster, so that each is logged
        once."""

    def send(self, request: Request, heard: Callable[[Any], None]) -> None:
        """Send a request; `heard` gets its response after the core."""
        correlation_id, node, message = request
        if self._peers is None:
            self._tell(RequestFailed(correlation_id))
            return
        is_fetch = isinstance(message, FetchRequest | FetchSnapshotRequest)
        reply = self._peers.post(
            node.host,
            node.port,
            message,
            timeout_ms=self._settings.request_timeout_ms,
            lane=LANE_OF_FETCHES if is_fetch else LANE_OF_VOTES,
        )
        reply.add_done_callback(partial(self._answered, correlation_id, node, heard))

    def _answered(
        self,
        correlation_id: int,
        node: Node,
        heard: Callable[[Any], None],
        reply: asyncio.Future[Any],
    ) -> None:
        if reply.cancelled() or reply.exception() is not None:
            self.unreachable.add(node.id)
        if reply.cancelled():
            self._tell(RequestFailed(correlation_id))
        elif (error := reply.exception()) is not None:
            if not isinstance(error, PeerError):
                error = PeerError(ErrorCode.NETWORK_EXCEPTION, str(error))
            self._tell(RequestFailed(correlation_id, error.code, error.refused))
        else:
            response = reply.result()
            if response.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID:
                self._log_foreign(node)
            self._tell(ResponseReceived(correlation_id, response))
            heard(response)

    def _log_foreign(self, node: Node) -> None:
        if (node.host, node.port) not in self._foreign:
            self._foreign.add((node.host, node.port))
            log.error(
                "the controller at %s:%d belongs to another cluster than this node, whose cluster "
                "id is %s: format this node with the id that `ottla storage info` shows there, or "
                "correct controller.quorum.voters or controller.quorum.bootstrap.servers",
                node.host,
                node.port,
                self._settings.cluster_id,
            )
