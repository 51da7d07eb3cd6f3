"""Joins a classic group: JoinGroup, assignment if leading, SyncGroup; repeated until it succeeds.

It runs in the background, while the application may poll with a short timeout. Its result is
applied only while the application waits for records.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.client.consumer.assignors.assignor import Assignment, Assignor, RebalanceProtocol
from ottla.client.consumer.assignors.consumer_protocol import read_assignment
from ottla.client.consumer.groups.classic.leader import Leader
from ottla.client.consumer.groups.classic.requests import join_request, sync_request
from ottla.client.consumer.groups.classic.state import ClassicState, Next, Phase
from ottla.client.consumer.groups.commit_requests import MemberIdentity
from ottla.client.consumer.groups.errors import explained
from ottla.client.consumer.groups.metrics import MembershipMetrics
from ottla.client.errors import ClientError
from ottla.client.network.backoff import may_pass
from ottla.client.network.cluster import Cluster
from ottla.client.network.finding import CoordinatorType
from ottla.client.settings.consumer import ConsumerSettings
from ottla.network.connection import Connection
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE
from ottla.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger("ottla.client.group")

JOIN_LAPSE_MS = 5_000
"""How much longer than its own limit a coordinator may take to answer JoinGroup."""
INT32_MAX = (1 << 31) - 1


@dataclass(slots=True)
class Joined:
    """The result of a round: the identity and the assignment of this member."""

    member: MemberIdentity
    assignment: Assignment


class JoinRound:
    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        state: ClassicState,
        leader: Leader,
        assignors: Mapping[str, Assignor],
        protocol: RebalanceProtocol,
        metrics: MembershipMetrics,
        *,
        refresh: Callable[[], Awaitable[None]],
        subscription: Callable[[], dict[str, bytes]],
    ) -> None:
        """`refresh` updates the metadata of subscribed topics; `subscription` encodes this member's
        subscription for each assignor."""
        assert settings.group_id is not None
        self._cluster = cluster
        self._settings = settings
        self._group_id = settings.group_id
        self._state = state
        self._leader = leader
        self._assignors = assignors
        self._protocol = protocol
        self._metrics = metrics
        self._refresh = refresh
        self._subscription = subscription

    async def run(self) -> Joined | None:
        """Return None if partitions were lost: they must be given up before the next attempt."""
        pauses = self._cluster.pauses()
        self._metrics.rebalance_began()
        while True:
            result = await self._attempt()
            if isinstance(result, Joined):
                self._metrics.rebalance_ended()
                return result
            self._metrics.failed_rebalances.add()
            if result is Next.PREPARE:
                return None
            if result is Next.ELSEWHERE:
                self._cluster.forget_coordinator(CoordinatorType.GROUP, self._group_id)
            if result is not Next.AGAIN:
                await asyncio.sleep(pauses.next_s(self._cluster.runtime.random))

    async def _attempt(self) -> Joined | Next:
        try:
            await self._refresh()
            connection = await self._coordinator()
            joined = await self._join(connection)
            return joined if isinstance(joined, Next) else await self._sync(connection, joined)
        except (ClientError, KafkaError) as error:
            if not may_pass(error):
                raise
            log.info("group %s: %s", self._group_id, error)
            return Next.ELSEWHERE

    async def _coordinator(self) -> Connection:
        try:
            return await self._cluster.coordinator(CoordinatorType.GROUP, self._group_id)
        except KafkaError as error:
            raise explained(error.code, self._settings) from error

    async def _join(self, connection: Connection) -> Any:
        """Return the response, or what to do next instead."""
        from ottla.protocol.messages.join_group import JoinGroupRequest

        version = connection.version_of(JoinGroupRequest)
        state, settings = self._state, self._settings
        sent = state.identity
        reason = state.rejoin_reason or ""
        request = join_request(settings, sent.member_id, self._subscription(), reason, version)
        limit_ms = max(settings.request_timeout_ms, settings.max_poll_interval_ms + JOIN_LAPSE_MS)
        state.join_sent()
        log.info("group %s: joining%s", self._group_id, f": {reason}" if reason else "")
        with self._metrics.timed("join-time", total="join-total"):
            answer = await _ask(connection, request, version, min(limit_ms, INT32_MAX))
        if answer.error_code:
            return state.join_refused(ErrorCode.of(answer.error_code), sent, answer.member_id)
        if state.phase is not Phase.JOINING:
            return Next.PREPARE  # left the group meanwhile: max_poll_interval_ms has passed
        state.joined(
            answer.generation_id, answer.member_id, answer.protocol_name or None, answer.leader
        )
        return answer

    async def _sync(self, connection: Connection, joined: Any) -> Joined | Next:
        from ottla.protocol.messages.sync_group import SyncGroupRequest

        state = self._state
        assignments = await self._assignments(joined)
        version = connection.version_of(SyncGroupRequest)
        sent = state.identity
        request = sync_request(self._group_id, sent, state.protocol_name, assignments, version)
        with self._metrics.timed("sync-time", total="sync-total"):
            answer = await _ask(connection, request, version, None)
        if answer.error_code:
            return state.sync_refused(ErrorCode.of(answer.error_code), sent)
        if state.phase is not Phase.SYNCING or state.identity != sent:
            return Next.PREPARE  # a heartbeat has reported meanwhile that the generation is over
        state.synced()
        log.info(
            "group %s: joined generation %d as %s%s",
            self._group_id,
            sent.generation,
            sent.member_id,
            ", leading" if state.is_leader else "",
        )
        return Joined(sent, read_assignment(bytes(answer.assignment)))

    async def _assignments(self, joined: Any) -> dict[str, bytes]:
        """Compute the assignments of all members if this one is the leader; empty otherwise."""
        assignor = self._assignors.get(joined.protocol_name)
        if assignor is None or joined.protocol_type not in (None, PROTOCOL_TYPE):
            raise explained(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, self._settings)
        if not self._state.is_leader:
            self._leader.resign()
            return {}
        packed = {
            one.member_id: (bytes(one.metadata), one.group_instance_id) for one in joined.members
        }
        return await self._leader.assign(
            assignor, self._protocol, packed, skip=joined.skip_assignment
        )


async def _ask(connection: Connection, request: Any, version: int, timeout_ms: int | None) -> Any:
    try:
        return await connection.request(request, version=version, timeout_ms=timeout_ms)
    except asyncio.CancelledError:
        # Nobody waits for the response any more. It may take minutes, and until then the
        # coordinator reads nothing else from this connection, not even this member's LeaveGroup.
        connection.close()
        raise
