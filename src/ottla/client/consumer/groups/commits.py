"""Commits offsets in order, and fetches committed offsets.

All commits of a consumer pass through one queue, so that a retried commit never overtakes a later
one. `commit` retries until it succeeds or times out; `commit_soon` tries once in the background,
because a newer commit will follow.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from ottla.client.consumer.groups.commit_requests import (
    IDS_FROM,
    MemberIdentity,
    Offsets,
    PartitionErrors,
    TopicNames,
    commit_errors,
    commit_request,
    fetch_request,
    fetched_offsets,
)
from ottla.client.consumer.groups.membership import CommitCallback
from ottla.client.consumer.groups.metrics import MembershipMetrics
from ottla.client.errors import ClientError
from ottla.client.network.backoff import may_pass
from ottla.client.network.cluster import Cluster
from ottla.client.network.finding import CoordinatorType
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.network.connection import Connection
from ottla.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger("ottla.client.group")

ELSEWHERE = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT,
}
"""After these errors the coordinator is looked up again."""


AS_ANOTHER = {ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID}
"""After these errors a member retries, once its heartbeats have updated its identity."""


MISSING = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}


class Refusal(NamedTuple):
    """The meaning of an error code that a commit was refused with."""

    error: Exception
    retry: bool
    """True if the same commit may succeed later."""

    @property
    def is_missing(self) -> bool:
        return isinstance(self.error, KafkaError) and self.error.code in MISSING


class Member(Protocol):
    """The group member on whose behalf offsets are committed."""

    def identity_for_commit(self) -> MemberIdentity:
        """Raise `CommitFailed` if the member should be in its group but is not."""
        ...

    def identity_for_fetch(self) -> MemberIdentity | None: ...

    def commit_refused(self, code: ErrorCode, sent: MemberIdentity) -> Refusal | None:
        """Return the meaning of codes that concern the member; None for other codes."""
        ...


class _Commit:
    """A queued commit."""

    def __init__(
        self, offsets: Offsets, callback: CommitCallback | None, *, patient: bool, last: bool
    ) -> None:
        self.offsets = dict(offsets)
        self.patient = patient
        """Whether it is retried."""
        self.last = last
        """Whether the partitions will be given up: then it does not wait for a missing topic."""
        self.callback = callback
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def settle(self, error: Exception | None) -> None:
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)
            self.done.exception()  # marks it as retrieved: the callback or the log reports it


class Commits:
    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        member: Member,
        metrics: MembershipMetrics,
        attention: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._member = member
        self._metrics = metrics
        self._attention = attention
        self.on_commit: Callable[[Offsets], None] = _nothing
        self._queue: deque[_Commit] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._finished: deque[tuple[CommitCallback, Offsets, Exception | None]] = deque()

    # Commits

    async def commit(self, offsets: Offsets) -> None:
        """Commit and wait. Without offsets, wait for the commits before."""
        await self.begin(offsets)
        await self.run_callbacks()

    def begin(self, offsets: Offsets) -> asyncio.Future[None]:
        """Queue a commit that is retried until it succeeds or times out."""
        return self._enqueue(_Commit(offsets, None, patient=True, last=False))

    def begin_last(self, offsets: Offsets) -> asyncio.Future[None]:
        """Queue a commit for partitions that are revoked. It is retried until it succeeds or times
        out, but not if the topic is missing."""
        return self._enqueue(_Commit(offsets, None, patient=True, last=True))

    def commit_soon(
        self, offsets: Offsets, callback: CommitCallback | None
    ) -> asyncio.Future[None]:
        told = callback or _log_failure
        return self._enqueue(_Commit(offsets, told, patient=False, last=False))

    async def run_callbacks(self) -> None:
        """Run the callbacks of finished commits, in the application's task."""
        while self._finished:
            callback, offsets, error = self._finished.popleft()
            told = callback(offsets, error)
            if inspect.isawaitable(told):
                await told

    async def drain(self, timeout_s: float) -> None:
        """Wait for the queued commits, then stop."""
        worker = self._worker
        if worker is not None and not worker.done():
            await asyncio.wait({worker}, timeout=max(timeout_s, 0))
            worker.cancel()
        for one in self._queue:
            one.settle(ClientError("the consumer was closed before these offsets were committed"))
        self._queue.clear()
        await self.run_callbacks()

    def _enqueue(self, one: _Commit) -> asyncio.Future[None]:
        self._queue.append(one)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work(), name="commits")
        return one.done

    async def _work(self) -> None:
        while self._queue:
            one = self._queue[0]
            error = await self._outcome(one)
            self._queue.popleft()
            if error is None and one.offsets:
                self._tell_interceptors(one.offsets)
            one.settle(error)
            if one.callback is not None:
                self._finished.append((one.callback, one.offsets, error))
                self._attention()

    def _tell_interceptors(self, offsets: Offsets) -> None:
        try:
            self.on_commit(offsets)
        except Exception:
            log.exception("an on_commit callback raised an exception")

    async def _outcome(self, one: _Commit) -> Exception | None:
        backoff = self._cluster.backoff()
        while one.offsets and not one.done.cancelled():
            refusal = await self._attempt(one.offsets)
            if refusal is None:
                break
            may_retry = one.patient and refusal.retry and not (one.last and refusal.is_missing)
            if not may_retry or not await backoff.pause():
                return refusal.error
        return None

    async def _attempt(self, offsets: Offsets) -> Refusal | None:
        try:
            sent = self._member.identity_for_commit()
            errors = await self._send(offsets, sent)
        except Exception as error:
            self._lost_touch(error)
            return Refusal(error, may_pass(error))
        return self._refusal(errors, sent)

    async def _send(self, offsets: Offsets, sent: MemberIdentity) -> PartitionErrors:
        from ottla.protocol.messages.offset_commit import OffsetCommitRequest

        connection = await self._coordinator()
        version, names = self._version(
            connection, OffsetCommitRequest, {one.topic for one in offsets}
        )
        request = commit_request(self._group_id, sent, offsets, version, names)
        with self._metrics.timed("commit-latency", total="commit-total"):
            response = await connection.request(request, version=version)
        return commit_errors(response, names)

    def _refusal(self, errors: PartitionErrors, sent: MemberIdentity) -> Refusal | None:
        if not errors:
            return None
        partition, code = next(iter(errors.items()))
        if code in ELSEWHERE:
            self._forget_coordinator()
        if code is ErrorCode.UNKNOWN_TOPIC_ID:
            self._cluster.metadata.request_refresh()
        if (refusal := self._member.commit_refused(code, sent)) is not None:
            return refusal
        return Refusal(KafkaError(code, self._explained(code, partition, errors)), code.retriable)

    def _explained(self, code: ErrorCode, where: TopicPartition, errors: PartitionErrors) -> str:
        if code is ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return f"this client may not use group {self._group_id!r}: it needs READ on the group"
        if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            topics = sorted({one.topic for one, error in errors.items() if error is code})
            return f"this client may not read the topics {topics}: it needs READ on them"
        return f"the offset of {where} was not committed: {code.message}"

    # Committed offsets

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        wanted = list(dict.fromkeys(TopicPartition(*one) for one in partitions))
        if not wanted:
            return {}
        backoff = self._cluster.backoff()
        while True:
            try:
                return await self._fetch(wanted)
            except Exception as error:
                self._lost_touch(error)
                if not self._may_fetch_again(error) or not await backoff.pause():
                    raise

    def _may_fetch_again(self, error: Exception) -> bool:
        if isinstance(error, KafkaError) and error.code in AS_ANOTHER:
            return True
        missing = isinstance(error, KafkaError) and (
            error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        return may_pass(error) and not missing

    async def _fetch(
        self, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        from ottla.protocol.messages.offset_fetch import OffsetFetchRequest

        connection = await self._coordinator()
        version, names = self._version(
            connection, OffsetFetchRequest, {one.topic for one in partitions}
        )
        member = self._member.identity_for_fetch()
        request = fetch_request(self._group_id, member, partitions, version, names)
        answer = fetched_offsets(await connection.request(request, version=version), version, names)
        if answer.group_error:
            raise self._fetch_error(answer.group_error, None)
        for partition, code in answer.errors.items():
            raise self._fetch_error(code, partition)
        return {one: answer.offsets.get(one) for one in partitions}

    def _fetch_error(self, code: ErrorCode, partition: TopicPartition | None) -> KafkaError:
        if code in ELSEWHERE:
            self._forget_coordinator()
        if code is ErrorCode.UNKNOWN_TOPIC_ID:
            self._cluster.metadata.request_refresh()
        what = f"group {self._group_id!r}" if partition is None else str(partition)
        return KafkaError(code, f"committed offsets of {what}: {code.message}")

    # The coordinator

    async def _coordinator(self) -> Connection:
        return await self._cluster.coordinator(CoordinatorType.GROUP, self._group_id)

    def _forget_coordinator(self) -> None:
        self._cluster.forget_coordinator(CoordinatorType.GROUP, self._group_id)

    def _lost_touch(self, error: Exception) -> None:
        if isinstance(error, ClientError) and may_pass(error):
            self._forget_coordinator()

    def _version(
        self, connection: Connection, request: type, topics: set[str]
    ) -> tuple[int, TopicNames | None]:
        """Return the newest version and topic ids if all ids are known, else the newest version
        that uses names."""
        version = connection.version_of(request)
        names = TopicNames.of(topics, self._cluster.view) if version >= IDS_FROM else None
        return (version if names is not None else min(version, IDS_FROM - 1)), names


def _log_failure(offsets: Offsets, error: Exception | None) -> None:
    if error is not None:
        log.error("offsets %s were not committed: %s", dict(offsets), error)


def _nothing(offsets: Offsets) -> None:
    pass
