"""Fetch, as followers use it: they read to the log end, and each fetch reports their position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.replication.follower_fetch import FollowerFetch, take_fetch, waits_for
from ottla.broker.replication.partition import Partition
from ottla.broker.server.handlers._leaders import WRONG_LEADER
from ottla.broker.server.pending import Pending
from ottla.broker.server.replica_sessions import FollowedPartition, ReplicaSession
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.fetch_sessions import FULL_EPOCHS, INITIAL_EPOCH, NO_SESSION
from ottla.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from ottla.security.rights import Operation

if TYPE_CHECKING:
    from ottla.broker.replication.replica_manager import ReplicaManager
    from ottla.broker.server.context import BrokerContext
    from ottla.broker.server.services import BrokerServices
    from ottla.runtime.disk import FileSlice
    from ottla.runtime.runtime import Timer

TOPIC_IDS_FROM: Final = 13
REPLICA_STATE_FROM: Final = 15
NO_OFFSET: Final = -1


def replica_of(request: FetchRequest, version: int) -> tuple[int, int]:
    """Return (broker id, broker epoch) of the fetching replica; a negative id means a consumer."""
    if version >= REPLICA_STATE_FROM:
        return request.replica_state.replica_id, request.replica_state.replica_epoch
    return request.replica_id, -1


def handle(
    context: BrokerContext, request: FetchRequest, follower_id: int, broker_epoch: int
) -> FetchResponse | Pending:
    if not context.may_on_cluster(Operation.CLUSTER_ACTION):
        return _not_authorized(request)
    if context.api_version < TOPIC_IDS_FROM:
        return FetchResponse(error_code=int(ErrorCode.UNSUPPORTED_VERSION))
    services = context.services
    replicas, sessions = services.replicas, services.replica_sessions
    epoch = request.session_epoch
    full = epoch in FULL_EPOCHS
    if full:
        if request.session_id != NO_SESSION:
            sessions.close(request.session_id)
        if epoch == INITIAL_EPOCH:
            session = sessions.create(follower_id, broker_epoch)
        else:
            # a session for this request only
            session = ReplicaSession(NO_SESSION, follower_id, broker_epoch)
        session.eager = replicas.selects_by_rack
    else:
        found = sessions.resume(request.session_id, epoch, follower_id)
        if isinstance(found, ErrorCode):
            return FetchResponse(error_code=int(found))
        session = found
        session.take_epoch(broker_epoch)
    session.fetched_ms = replicas.view.now_ms()
    session.update(request.topics)
    for gone in session.forget(request.forgotten_topics_data):
        _forget(replicas, gone)
    return ReplicaFetch(services, request, session, full=full).start()


def _not_authorized(request: FetchRequest) -> FetchResponse:
    """Refuse a client that is no node. Sessions of followers are not touched."""
    if request.session_epoch not in FULL_EPOCHS:
        return FetchResponse(error_code=int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[refusal(wanted.partition, code) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _forget(replicas: ReplicaManager, gone: FollowedPartition) -> None:
    partition = _find(replicas, gone)
    if isinstance(partition, Partition):
        readers = partition.readers
        if readers.get(gone.session.follower_id) is gone:
            del readers[gone.session.follower_id]


def _find(replicas: ReplicaManager, followed: FollowedPartition) -> Partition | ErrorCode:
    topic_id, index = followed.key
    hosted = replicas.topics_by_id.get(topic_id)
    if hosted is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = hosted.partitions.get(index)
    return replicas.not_here(topic_id, index).code if partition is None else partition


class ReplicaFetch(Pending):
    """A fetch of a follower: answered at once if there is data, else when some arrives."""

    __slots__ = (
        "_figures",
        "_full",
        "_left_bytes",
        "_replicas",
        "_request",
        "_runtime",
        "_session",
        "_size",
        "_timer",
        "_woken",
    )

    def __init__(
        self,
        services: BrokerServices,
        request: FetchRequest,
        session: ReplicaSession,
        *,
        full: bool,
    ) -> None:
        super().__init__()
        self._runtime = services.runtime
        self._replicas = services.replicas
        self._figures = services.topic_figures
        self._request = request
        self._session = session
        self._full = full
        self._size = 0
        self._left_bytes = 0
        self._timer: Timer | None = None
        self._woken = False

    def start(self) -> FetchResponse | Pending:
        answers, hurry = self._read()
        nudge = self._replicas.election_nudge
        wait_ms = nudge.wait_ms(self._session.follower_id, self._request.max_wait_ms)
        if hurry or wait_ms <= 0 or self._size >= self._request.min_bytes:
            return self._respond(answers)
        self._timer = self._runtime.call_later(wait_ms / 1000, self._finish)
        self._session.waiting = self
        nudge.register_waiting(self._session.follower_id, self)
        if self._session.has_unread:
            self.wake()
        return self

    # --- waiting --------------------------------------------------------------------------------

    def wake(self) -> None:
        """Look again, but after the current event: further appends in this turn of the loop are
        then included."""
        if not self._woken:
            self._woken = True
            self._runtime.call_soon(self._look_again)

    def hurry(self) -> None:
        self._runtime.call_soon(self._finish)

    def overtaken(self) -> None:
        """The follower has started another fetch in the same session, so it has given up this
        one."""
        self._stop_waiting()
        self.resolve(FetchResponse(error_code=int(ErrorCode.INVALID_FETCH_SESSION_EPOCH)))

    def abandon(self) -> None:
        super().abandon()
        self._stop_waiting()

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._session.waiting is self:
            self._session.waiting = None
        self._replicas.election_nudge.unregister_waiting(self._session.follower_id, self)

    def _look_again(self) -> None:
        if self.resolved:
            return
        self._woken = False
        answers, hurry = self._read()
        if hurry or self._session.eager or self._size >= self._request.min_bytes:
            self._stop_waiting()
            self.resolve(self._respond(answers))

    def _finish(self) -> None:
        if not self.resolved:
            self._stop_waiting()
            self.resolve(self._respond(self._read()[0]))

    # --- reading --------------------------------------------------------------------------------

    def _read(self) -> tuple[list[tuple[FollowedPartition, PartitionData]], bool]:
        """Read the partitions with news. Returns the answers, and whether to respond without
        waiting."""
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
        followed.is_unread = False
        partition = _find(self._replicas, followed)
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
            code = self._replicas.fail_dir_if_needed(error).code
            answer = refusal(partition.index, code)
            if code in WRONG_LEADER:
                answer.current_leader = LeaderIdAndEpoch(
                    leader_id=partition.leader_id, leader_epoch=partition.leader_epoch
                )
            return answer

    def _take_position(
        self, partition: Partition, followed: FollowedPartition
    ) -> tuple[int, int] | None:
        """Report the follower's position to the partition unless the partition knows it. Returns
        (epoch, end offset) where the two logs diverge, if they do."""
        session = self._session
        readers = partition.readers
        known = readers.get(session.follower_id)
        if not followed.moved and known is followed:
            return None
        parting = take_fetch(
            partition,
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
        followed.is_unread = False  # what the new position has caused is read here
        followed.behind = followed.offset < log.end_offset
        if followed.behind and not self._is_throttled(partition, followed):
            bytes_max = min(followed.bytes_max, max(self._left_bytes, 0))
            # Read one whole batch even if it exceeds the limit: a follower must always make
            # progress.
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
        throttle = self._replicas.leader_throttle
        followed.throttled = throttle.covers(partition.topic, partition.index)
        return (
            followed.throttled
            and throttle.pause_s() > 0
            and not waits_for(partition, self._session.follower_id)
        )

    # --- the answer -----------------------------------------------------------------------------

    def _respond(self, answers: list[tuple[FollowedPartition, PartitionData]]) -> FetchResponse:
        by_topic: dict[bytes, FetchableTopicResponse] = {}
        if self._figures is not None:
            for followed, answer in answers:
                hosted = self._replicas.topics_by_id.get(followed.key[0])
                if hosted is not None:
                    self._figures.replicated(hosted.name, len(answer.records or b""))
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
                self._replicas.leader_throttle.record(len(answer.records))
        return FetchResponse(session_id=self._session.id, responses=list(by_topic.values()))


def refusal(index: int, code: ErrorCode) -> PartitionData:
    """Return the response for a partition that cannot be read here."""
    return PartitionData(
        partition_index=index,
        error_code=int(code),
        high_watermark=NO_OFFSET,
        last_stable_offset=NO_OFFSET,
        log_start_offset=NO_OFFSET,
        aborted_transactions=None,
        records=b"",
    )
