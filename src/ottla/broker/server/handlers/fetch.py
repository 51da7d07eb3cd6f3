"""Fetch: find the reader's position and pass the bytes of the segment file to the socket."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable
from typing import TYPE_CHECKING, Final

from ottla.broker.metadata.security_image import QuotaKey
from ottla.broker.replication.replica_selector import NO_PREFERENCE, preferred_replica
from ottla.broker.server.contract import Handler
from ottla.broker.server.fetch_sessions import FetchPartition, FetchSession
from ottla.broker.server.handlers import _replica_fetch, fetch_metadata
from ottla.broker.server.handlers._leaders import WRONG_LEADER, addresses, placed
from ottla.broker.server.pending import ClientTask, Pending, resolved
from ottla.broker.server.purgatory import DelayedFetch
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.fetch_sessions import FULL_EPOCHS, INITIAL_EPOCH, NO_SESSION
from ottla.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from ottla.runtime.pace import in_slices
from ottla.security.rights import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.quotas.budget import Budget
    from ottla.broker.replication.partition import Partition
    from ottla.broker.server.authorizer import Authorizer
    from ottla.broker.server.context import BrokerContext
    from ottla.broker.server.figures.topics import TopicFigures
    from ottla.broker.storage.segments.transaction_index import (
        AbortedTransaction as IndexedTransaction,
    )
    from ottla.runtime.disk import FileSlice

READ_COMMITTED: Final = 1
AT_ONCE_PARTITIONS_MAX: Final = 250
"""The most partitions that are read in one turn; more are read in slices."""
READS_BETWEEN_CLOCK_LOOKS: Final = 16
RESPONSE_BYTES: Final = 20
PARTITION_BYTES: Final = 50
"""Quotas count so much for a response and for each of its partitions, beside the records: about the
size that they have when they are encoded, which happens later."""
_FOLLOWERS_FROM: Final = 11
"""The first version whose consumers may read from followers."""
_LEADERS_TOLD_FROM: Final = 16
_READ: Final = Operation.READ
_TOPIC: Final = ResourceType.TOPIC


def handle(context: BrokerContext, request: FetchRequest) -> FetchResponse | Pending:
    follower_id, broker_epoch = _replica_fetch.replica_of(request, context.api_version)
    if follower_id >= 0:
        return _replica_fetch.handle(context, request, follower_id, broker_epoch)
    by_id = context.api_version >= _replica_fetch.TOPIC_IDS_FROM
    sessions = context.services.fetch_sessions
    now_s = context.services.runtime.clock.now()
    epoch = request.session_epoch
    if epoch not in FULL_EPOCHS:
        found = sessions.resume(request.session_id, epoch, by_id, now_s)
        if isinstance(found, ErrorCode):
            return FetchResponse(error_code=int(found))
        sessions.update(found, request.topics, request.forgotten_topics_data)
        if sessions.is_too_large(found):
            sessions.close(found.id)
            return FetchResponse(error_code=int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
        return FetchRun(context, request, found, found.partitions.values(), full=False).start()
    if request.session_id != NO_SESSION:
        sessions.close(request.session_id)
    session = None
    if epoch == INITIAL_EPOCH:
        wanted_count = sum(len(topic.partitions) for topic in request.topics)
        session = sessions.create(by_id, wanted_count, now_s, context.caller.connection_id)
    if session is None:
        session = FetchSession(NO_SESSION, by_id, now_s)  # a session for this request only
        session.update(request.topics, ())
    else:
        sessions.update(session, request.topics, ())
    return FetchRun(context, request, session, session.partitions.values(), full=True).start()


class FetchRun:
    """A fetch request. It reads at once and, if that is not enough, once more later."""

    __slots__ = (
        "_answers",
        "_budget",
        "_committed",
        "_context",
        "_epoch",
        "_full",
        "_hurry",
        "_left",
        "_min_bytes",
        "_request",
        "_session",
        "_size",
        "_unreadable",
        "_wanted",
    )

    def __init__(
        self,
        context: BrokerContext,
        request: FetchRequest,
        session: FetchSession,
        wanted: Iterable[FetchPartition],
        *,
        full: bool,
    ) -> None:
        self._context = context
        self._request = request
        self._session = session
        self._wanted = list(wanted)
        authorizer = context.services.authorizer
        self._unreadable = () if authorizer is None else self._find_unreadable(authorizer)
        self._full = full
        self._epoch = session.epoch
        self._committed = request.isolation_level == READ_COMMITTED
        self._min_bytes = request.min_bytes
        self._budget = _budget_of(context)
        if self._budget is not None:
            # To wait for more than may be sent would be to wait until the time is up.
            self._min_bytes = min(self._min_bytes, self._budget.at_once_max)
        self._answers: list[tuple[FetchPartition, PartitionData]] = []
        self._hurry = False
        """True if an answer, such as an error, must be sent without waiting."""
        self._size = self._left = 0
        """Bytes that were read, and that may still be read."""

    def _find_unreadable(self, authorizer: Authorizer) -> Collection[str | bytes]:
        """Return the topics, as the client names them, that it may not read."""
        context = self._context
        found: set[str | bytes] | None = None
        previous: str | bytes | None = None
        for wanted in self._wanted:
            topic = wanted.topic
            if topic == previous:
                continue
            previous = topic
            if isinstance(topic, str):
                name = topic
            else:
                known = context.services.metadata.image.topics_by_id.get(topic)
                if known is None:
                    continue  # there is no such topic, as the client is told
                name = known.name
            if not authorizer.allows(context, _READ, _TOPIC, name):
                found = found or set()
                found.add(topic)
        return found or ()

    def start(self) -> FetchResponse | Pending:
        if len(self._wanted) > AT_ONCE_PARTITIONS_MAX:
            return ClientTask(self._run_in_slices())
        self._read_all()
        if self._is_enough:
            return self._respond()
        return self._delayed(self._read_again)

    async def _run_in_slices(self) -> FetchResponse:
        runtime = self._context.services.runtime
        await in_slices(runtime, self._read_in_steps(), READS_BETWEEN_CLOCK_LOOKS)
        if not self._is_enough:
            if not self._has_moved_since():
                await resolved(self._delayed(lambda: None))
                if self._is_overtaken:
                    return self._overtaken()
            await in_slices(runtime, self._read_in_steps(), READS_BETWEEN_CLOCK_LOOKS)
        return self._respond()

    def _has_moved_since(self) -> bool:
        """True if a partition changed after its slice was read. A fetch that begins to wait only
        now would miss that change."""
        for wanted, answer in self._answers:
            partition = self._find(wanted)
            if isinstance(partition, ErrorCode):
                return True
            now, then = partition.high_watermark, answer.high_watermark
            if self._committed:
                now, then = partition.last_stable_offset, answer.last_stable_offset
            if now != then:
                return True
        return False

    @property
    def _is_enough(self) -> bool:
        request = self._request
        return (
            self._hurry
            or request.max_wait_ms <= 0
            or self._size >= self._min_bytes
            or not self._wanted
        )

    def _delayed(self, answer: Callable[[], FetchResponse | None]) -> DelayedFetch:
        request = self._request
        return DelayedFetch(
            self._context.services.runtime,
            self._waits_for(),
            self._min_bytes - self._size,
            request.max_wait_ms,
            answer,
            committed=self._committed,
        )

    def _waits_for(self) -> Iterable[Partition]:
        for wanted in self._wanted:
            partition = self._find(wanted)
            if isinstance(partition, ErrorCode):
                continue
            yield partition

    def _read_again(self) -> FetchResponse:
        if self._is_overtaken:
            return self._overtaken()
        self._read_all()
        return self._respond()

    @property
    def _is_overtaken(self) -> bool:
        """True if the reader has begun another fetch in the same session."""
        return self._session.id != NO_SESSION and self._session.epoch != self._epoch

    def _overtaken(self) -> FetchResponse:
        return FetchResponse(
            error_code=int(ErrorCode.INVALID_FETCH_SESSION_EPOCH), session_id=self._session.id
        )

    # --- reading --------------------------------------------------------------------------------

    def _read_all(self) -> None:
        """Read every partition."""
        self._begin()
        for wanted in self._wanted:
            self._read_next(wanted)

    def _read_in_steps(self) -> Generator[None, None, None]:
        """Read every partition, and pause after each."""
        self._begin()
        for wanted in self._wanted:
            self._read_next(wanted)
            yield

    def _begin(self) -> None:
        bytes_max = self._context.services.live_config.fetch_bytes_max
        self._left = min(self._request.max_bytes, bytes_max)
        if self._budget is not None:
            self._left = min(self._left, self._budget.at_once_max)
        self._size = 0
        self._answers = []
        self._hurry = False

    def _read_next(self, wanted: FetchPartition) -> None:
        answer = self._read(wanted)
        if answer.error_code or answer.preferred_read_replica >= 0:
            self._hurry = True
        elif answer.records:
            size = len(answer.records)
            self._size += size
            self._left -= size
        self._answers.append((wanted, answer))

    def _find(self, wanted: FetchPartition) -> Partition | ErrorCode:
        if self._unreadable and wanted.topic in self._unreadable:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        replicas = self._context.services.replicas
        if self._session.by_topic_id:
            hosted = replicas.topics_by_id.get(wanted.topic)  # type: ignore[arg-type]
            if hosted is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
        else:
            hosted = replicas.topics.get(wanted.topic)  # type: ignore[arg-type]
            if hosted is None:
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partition = hosted.partitions.get(wanted.index)
        return replicas.not_here(hosted.id, wanted.index).code if partition is None else partition

    def _read(self, wanted: FetchPartition) -> PartitionData:
        partition = self._find(wanted)
        if isinstance(partition, ErrorCode):
            return _replica_fetch.refusal(wanted.index, partition)
        try:
            if wanted.leader_epoch >= 0:
                partition.check_leader_epoch(wanted.leader_epoch)
            if not partition.is_leader and self._context.api_version < _FOLLOWERS_FROM:
                raise partition.not_leader()
            if self._context.services.replicas.selects_by_rack and self._request.rack_id:
                elsewhere = self._redirected(partition, wanted)
                if elsewhere is not None:
                    return elsewhere
            high_watermark = partition.high_watermark
            stable_offset = partition.last_stable_offset
            # A response may hold one whole batch even if it exceeds the limit: a reader must always
            # make progress.
            bytes_max, min_one = min(wanted.bytes_max, max(self._left, 0)), not self._size
            records: FileSlice | None = None
            aborted: list[AbortedTransaction] | None = None
            if self._committed:
                aborted = []
                if wanted.offset != stable_offset:
                    records, found = partition.read_committed(
                        wanted.offset, bytes_max, min_one=min_one
                    )
                    aborted = [_aborted(transaction) for transaction in found]
            elif wanted.offset != high_watermark:
                records = partition.read(wanted.offset, bytes_max, min_one=min_one)
            return PartitionData(
                partition_index=wanted.index,
                high_watermark=high_watermark,
                last_stable_offset=stable_offset,
                log_start_offset=partition.log_start_offset,
                aborted_transactions=aborted,
                records=b"" if records is None else records,
            )
        except KafkaError as error:
            return _replica_fetch.refusal(
                wanted.index, self._context.services.replicas.fail_dir_if_needed(error).code
            )

    def _redirected(self, partition: Partition, wanted: FetchPartition) -> PartitionData | None:
        """Return an answer without records that sends the reader to a replica in its rack, or
        None."""
        if not partition.is_leader:
            return None
        view = self._context.services.replicas.view
        replica = preferred_replica(partition, view, self._request.rack_id, wanted.offset)
        if replica == NO_PREFERENCE:
            return None
        return PartitionData(
            partition_index=wanted.index,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=partition.log_start_offset,
            aborted_transactions=None,
            preferred_read_replica=replica,
            records=b"",
        )

    # --- the answer -----------------------------------------------------------------------------

    def _respond(self) -> FetchResponse:
        if self._budget is not None:
            throttle_ms = self._charge(self._budget)
            if throttle_ms:
                return self._throttled(throttle_ms)
        if self._context.services.topic_figures is not None:
            self._count(self._context.services.topic_figures)
        session = self._session
        by_topic: dict[str | bytes, FetchableTopicResponse] = {}
        leaders: list[int] | None = None
        for wanted, answer in self._answers:
            if answer.error_code in WRONG_LEADER:
                leaders = leaders or []
                self._tell_leader(wanted, answer, leaders)
            if session.id != NO_SESSION:
                news = wanted.has_news(answer)
                if not (news or self._full):
                    continue
                if answer.records:
                    session.move_to_end(wanted)
            topic = by_topic.get(wanted.topic)
            if topic is None:
                if isinstance(wanted.topic, bytes):
                    topic = FetchableTopicResponse(topic_id=wanted.topic)
                else:
                    topic = FetchableTopicResponse(topic=wanted.topic)
                by_topic[wanted.topic] = topic
            topic.partitions.append(answer)
        response = FetchResponse(session_id=session.id, responses=list(by_topic.values()))
        if leaders:
            response.node_endpoints = [
                NodeEndpoint(node_id=leader_id, host=endpoint.host, port=endpoint.port, rack=rack)
                for leader_id, endpoint, rack in addresses(self._context, leaders)
            ]
        return response

    def _count(self, figures: TopicFigures) -> None:
        replicas = self._context.services.replicas
        for wanted, answer in self._answers:
            if isinstance(wanted.topic, bytes):
                hosted = replicas.topics_by_id.get(wanted.topic)
            else:
                hosted = replicas.topics.get(wanted.topic)
            if hosted is not None:
                figures.read(hosted.name, len(answer.records or b""), answer.error_code)

    def _charge(self, budget: Budget) -> int:
        """Charge the response; return for how long to send none."""
        now_s = self._context.services.runtime.clock.now()
        size = RESPONSE_BYTES + PARTITION_BYTES * len(self._answers) + self._size
        throttle_ms = budget.charge(size, now_s)
        if throttle_ms:
            budget.note(-size, now_s)  # it is not sent
            quotas = self._context.services.quotas
            quotas.throttled(QuotaKey.CONSUMER_BYTE_RATE, budget, throttle_ms, now_s)
        return throttle_ms

    def _throttled(self, throttle_ms: int) -> FetchResponse:
        """Return an empty response. A session goes on; a new one does not begin."""
        session_id = self._session.id
        if self._full and session_id != NO_SESSION:
            self._context.services.fetch_sessions.close(session_id)
            session_id = NO_SESSION
        return FetchResponse(throttle_time_ms=throttle_ms, session_id=session_id)

    def _tell_leader(
        self, wanted: FetchPartition, answer: PartitionData, leaders: list[int]
    ) -> None:
        partition = placed(self._context, wanted.topic, wanted.index)
        if partition is not None and self._context.api_version >= _LEADERS_TOLD_FROM:
            answer.current_leader = LeaderIdAndEpoch(
                leader_id=partition.leader, leader_epoch=partition.leader_epoch
            )
            leaders.append(partition.leader)


def _budget_of(context: BrokerContext) -> Budget | None:
    quotas = context.services.quotas
    if not quotas.is_active:
        return None
    allowance = quotas.allowance(context.caller.principal.name, context.client_id or "")
    return None if allowance is None else allowance.fetched


def _aborted(transaction: IndexedTransaction) -> AbortedTransaction:
    return AbortedTransaction(
        producer_id=transaction.producer_id, first_offset=transaction.first_offset
    )


def _is_of_replica(context: BrokerContext, request: FetchRequest) -> bool:
    return _replica_fetch.replica_of(request, context.api_version)[0] >= 0


HANDLER = Handler(on_broker=handle, on_controller=fetch_metadata.handle, is_exempt=_is_of_replica)
