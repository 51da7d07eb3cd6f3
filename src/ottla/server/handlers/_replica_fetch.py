"""Fetch, as followers use it: up to the end of the log, and every fetch tells how far they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from ottla.replication.follower_fetch import FollowerFetch
from ottla.replication.partition import Partition
from ottla.server.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION
from ottla.server.handlers._leaders import WRONG_LEADER
from ottla.server.pending import Pending
from ottla.server.replica_sessions import FollowedPartition, ReplicaSession

if TYPE_CHECKING:
    from ottla.node import Node
    from ottla.runtime.disk import FileSlice
    from ottla.runtime.runtime import Timer
    from ottla.server.context import RequestContext

TOPIC_IDS_FROM: Final = 13
REPLICA_STATE_FROM: Final = 15
NO_OFFSET: Final = -1


def replica_of(request: FetchRequest, version: int) -> tuple[int, int]:
    """(broker, its epoch) that fetches; a negative broker is a consumer."""
    if version >= REPLICA_STATE_FROM:
        return request.replica_state.replica_id, request.replica_state.replica_epoch
    return request.replica_id, -1


def handle(
    context: RequestContext, request: FetchRequest, follower_id: int, broker_epoch: int
) -> FetchResponse | Pending:
    if context.api_version < TOPIC_IDS_FROM:
        return FetchResponse(error_code=int(ErrorCode.UNSUPPORTED_VERSION))
    node = context.node
    sessions = node.replica_sessions
    epoch = request.session_epoch
    full = epoch in (INITIAL_EPOCH, FINAL_EPOCH)
    if full:
        if request.session_id != NO_SESSION:
            sessions.close(request.session_id)
        if epoch == INITIAL_EPOCH:
            session = sessions.create(follower_id, broker_epoch)
        else:
            session = ReplicaSession(NO_SESSION, follower_id, broker_epoch)  # of this request
        session.eager = node.replicas.selects_by_rack
    else:
        found = sessions.resume(request.session_id, epoch, follower_id)
        if isinstance(found, ErrorCode):
            return FetchResponse(error_code=int(found))
        session = found
        session.take_epoch(broker_epoch)
    session.fetched_ms = node.replicas.view.now_ms()
    session.update(request.topics)
    for gone in session.forget(request.forgotten_topics_data):
        _forget(node, gone)
    return ReplicaFetch(node, request, session, full=full).start()


def _forget(node: Node, gone: FollowedPartition) -> None:
    partition = _find(node, gone)
    if isinstance(partition, Partition):
        readers = partition.readers
        if readers.get(gone.session.follower_id) is gone:
            del readers[gone.session.follower_id]


def _find(node: Node, followed: FollowedPartition) -> Partition | ErrorCode:
    topic_id, index = followed.key
    hosted = node.replicas.topics_by_id.get(topic_id)
    if hosted is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = hosted.partitions.get(index)
    return node.replicas.not_here(topic_id, index).code if partition is None else partition


class ReplicaFetch(Pending):
    """One fetch of a follower: answered at once if there is something, else when there is."""

    __slots__ = (
        "_full",
        "_left_bytes",
        "_node",
        "_request",
        "_session",
        "_size",
        "_timer",
        "_woken",
    )

    def __init__(
        self, node: Node, request: FetchRequest, session: ReplicaSession, *, full: bool
    ) -> None:
        super().__init__()
        self._node = node
        self._request = request
        self._session = session
        self._full = full
        self._size = 0
        self._left_bytes = 0
        self._timer: Timer | None = None
        self._woken = False

    def start(self) -> FetchResponse | Pending:
        answers, hurry = self._read()
        haste = self._node.replicas.haste
        wait_ms = haste.wait_ms(self._session.follower_id, self._request.max_wait_ms)
        if hurry or wait_ms <= 0 or self._size >= self._request.min_bytes:
            return self._respond(answers)
        self._timer = self._node.runtime.call_later(wait_ms / 1000, self._finish)
        self._session.waiting = self
        haste.waits(self._session.follower_id, self)
        return self

    # --- waiting --------------------------------------------------------------------------------

    def wake(self) -> None:
        """After what brought the news: what else comes in this turn of the loop comes along."""
        if not self._woken:
            self._woken = True
            self._node.runtime.call_soon(self._look_again)

    def hurry(self) -> None:
        self._node.runtime.call_soon(self._finish)

    def overtaken(self) -> None:
        """The follower has begun another fetch in the same session: it has given up this one."""
        self._let_go()
        self.resolve(FetchResponse(error_code=int(ErrorCode.INVALID_FETCH_SESSION_EPOCH)))

    def abandon(self) -> None:
        super().abandon()
        self._let_go()

    def _let_go(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._session.waiting is self:
            self._session.waiting = None
        self._node.replicas.haste.waits_no_more(self._session.follower_id, self)

    def _look_again(self) -> None:
        if self.resolved:
            return
        self._woken = False
        answers, hurry = self._read()
        if hurry or self._session.eager or self._size >= self._request.min_bytes:
            self._let_go()
            self.resolve(self._respond(answers))

    def _finish(self) -> None:
        if not self.resolved:
            self._let_go()
            self.resolve(self._respond(self._read()[0]))

    # --- reading --------------------------------------------------------------------------------

    def _read(self) -> tuple[list[tuple[FollowedPartition, PartitionData]], bool]:
        """Read what has news; whether something must be told without waiting."""
        self._left_bytes = self._request.max_bytes
        self._size = 0
        answers = []
        hurry = False
        for followed in list(self._session.news):
            answer = self._read_one(followed)
            if answer.error_code or answer.diverging_epoch.end_offset >= 0:
                hurry = True
            elif answer.records:
                self._size += len(answer.records)
                self._left_bytes -= len(answer.records)
            answers.append((followed, answer))
        return answers, hurry

    def _read_one(self, followed: FollowedPartition) -> PartitionData:
        partition = _find(self._node, followed)
        if isinstance(partition, ErrorCode):
            return refusal(followed.key[1], partition)
        followed.behind = False
        try:
            parting = self._take_position(partition, followed)
            if parting is not None:
                return PartitionData(
                    partition_index=partition.index,
                    high_watermark=partition.high_watermark,
                    last_stable_offset=NO_OFFSET,
                    log_start_offset=partition.log_start_offset,
                    diverging_epoch=EpochEndOffset(epoch=parting[0], end_offset=parting[1]),
                    aborted_transactions=None,
                    records=b"",
                )
            return self._data(partition, followed)
        except KafkaError as error:
            code = self._node.replicas.noted(error).code
            answer = refusal(partition.index, code)
            if code in WRONG_LEADER:
                answer.current_leader = LeaderIdAndEpoch(
                    leader_id=partition.leader_id, leader_epoch=partition.leader_epoch
                )
            return answer

    def _take_position(
        self, partition: Partition, followed: FollowedPartition
    ) -> tuple[int, int] | None:
        """Tell the partition how far its follower is, unless it knows."""
        session = self._session
        readers = partition.readers
        known = readers.get(session.follower_id)
        if not followed.moved and known is followed:
            return None
        parting = partition.take_fetch(
            FollowerFetch(
                session.follower_id,
                session.broker_epoch,
                followed.leader_epoch,
                followed.offset,
                followed.last_epoch,
                followed.log_start_offset,
            ),
            session.fetched_ms,
        )
        if parting is None:
            followed.moved = False
            if session.id != NO_SESSION:
                readers[session.follower_id] = followed
                if known is not None and known is not followed:
                    known.replaced()
        return parting

    def _data(self, partition: Partition, followed: FollowedPartition) -> PartitionData:
        log = partition.usable_log()
        records: FileSlice | None = None
        followed.behind = followed.offset < log.end_offset
        if followed.behind and not self._is_throttled(partition, followed):
            bytes_max = min(followed.bytes_max, max(self._left_bytes, 0))
            # Room for one whole batch even if it is larger than allowed: a follower must get on.
            records = log.read(followed.offset, bytes_max, log.end_offset, min_one=not self._size)
            followed.behind = records is None
        return PartitionData(
            partition_index=partition.index,
            high_watermark=partition.high_watermark,
            last_stable_offset=NO_OFFSET,
            log_start_offset=log.log_start_offset,
            aborted_transactions=None,
            records=b"" if records is None else records,
        )

    def _is_throttled(self, partition: Partition, followed: FollowedPartition) -> bool:
        throttle = self._node.replicas.leader_throttle
        followed.throttled = throttle.covers(partition.topic, partition.index)
        return (
            followed.throttled
            and throttle.pause_s() > 0
            and not partition.waits_for(self._session.follower_id)
        )

    # --- the answer -----------------------------------------------------------------------------

    def _respond(self, answers: list[tuple[FollowedPartition, PartitionData]]) -> FetchResponse:
        by_topic: dict[bytes, FetchableTopicResponse] = {}
        for followed, answer in answers:
            if not followed.behind:
                self._session.settled(followed)
            if not (self._full or followed.has_news(answer)):
                continue
            topic_id = followed.key[0]
            topic = by_topic.get(topic_id)
            if topic is None:
                topic = by_topic[topic_id] = FetchableTopicResponse(topic_id=topic_id)
            topic.partitions.append(answer)
            followed.told(answer)
            if followed.throttled and answer.records:
                self._node.replicas.leader_throttle.record(len(answer.records))
        return FetchResponse(session_id=self._session.id, responses=list(by_topic.values()))


def refusal(index: int, code: ErrorCode) -> PartitionData:
    """What followers and consumers get of a partition that they cannot be served from."""
    return PartitionData(
        partition_index=index,
        error_code=int(code),
        high_watermark=NO_OFFSET,
        last_stable_offset=NO_OFFSET,
        log_start_offset=NO_OFFSET,
        aborted_transactions=None,
        records=b"",
    )
