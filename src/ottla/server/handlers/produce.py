"""Produce: check the batches, append their bytes as they are, answer when `acks` is satisfied.

A batch goes through in one call. Two things take longer, and hold up the connection so that the
order of its batches is kept: opening a batch, which is done in a thread, and the first batch of a
transaction to a partition, if its coordinator does not answer at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.buffers import Buffer
from ottla.coordinator.transactions.transaction import Identity
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.records.errors import InvalidBatch
from ottla.records.header import TRANSACTIONAL_BIT, BatchHeader, read_header
from ottla.records.rules import ProduceRules
from ottla.records.validation import (
    check_produced,
    must_open,
    open_produced,
    stamp_log_append_time,
)
from ottla.server.handlers._leaders import WRONG_LEADER, addresses, placed
from ottla.server.handlers._verification import PROTOCOL_2_FROM, Inquiry
from ottla.server.purgatory import DelayedProduce

if TYPE_CHECKING:
    from ottla.replication.partition import Partition
    from ottla.replication.topic import HostedTopic
    from ottla.server.context import RequestContext
    from ottla.storage.verification import Verification

ACKS_ALL: Final = -1
TOPIC_IDS_FROM: Final = 13
LEADERS_TOLD_FROM: Final = 10


def handle(
    context: RequestContext, request: ProduceRequest
) -> ProduceResponse | DelayedProduce | Coroutine[Any, Any, Any] | None:
    production = Production(context, request)
    if production.check():
        return production.append()
    production.keep_batches()
    return production.append_later()


class _Item:
    """One partition of the request: what came, what it became, and the answer it gets."""

    __slots__ = (
        "answer",
        "error",
        "header",
        "must_open",
        "partition",
        "records",
        "rules",
        "verification",
    )

    def __init__(self, answer: PartitionProduceResponse) -> None:
        self.answer = answer
        self.error: KafkaError | None = None
        self.must_open = False
        self.verification: Verification | None = None
        self.partition: Partition
        self.rules: ProduceRules
        self.records: Buffer
        self.header: BatchHeader


class Production:
    """One produce request on its way into the logs: all batches are checked, then all appended."""

    __slots__ = (
        "_context",
        "_inquiry",
        "_items",
        "_misled",
        "_now_ms",
        "_request",
        "_response",
        "_transactional",
        "_unsettled",
    )

    def __init__(self, context: RequestContext, request: ProduceRequest) -> None:
        self._context = context
        self._request = request
        self._now_ms = context.node.runtime.clock.wall_ms()
        self._response = ProduceResponse()
        self._items: list[_Item] = []
        self._transactional: list[_Item] | None = None
        self._inquiry: Inquiry | None = None
        self._unsettled: dict[Partition, tuple[int, PartitionProduceResponse]] | None = None
        self._misled = False
        """Something was sent to a broker that does not lead it."""

    # --- checking -------------------------------------------------------------------------------

    def check(self) -> bool:
        """Check every batch by its header and checksum; False if the request has to wait, since a
        batch must be opened or a coordinator is still to answer."""
        at_once = True
        for topic in self._request.topic_data:
            hosted = self._host(topic)
            answers = []
            for wanted in topic.partition_data:
                answer = PartitionProduceResponse(index=wanted.index)
                answers.append(answer)
                item = _Item(answer)
                self._items.append(item)
                try:
                    self._check(item, hosted, wanted)
                    if must_open(item.header, item.records, item.rules, self._now_ms):
                        item.must_open = True
                        at_once = False
                except KafkaError as error:
                    item.error = error
            if self._context.api_version >= TOPIC_IDS_FROM:
                group = TopicProduceResponse(topic_id=topic.topic_id, partition_responses=answers)
            else:
                group = TopicProduceResponse(name=topic.name, partition_responses=answers)
            self._response.responses.append(group)
        if self._transactional is not None and not self._verify(self._transactional):
            at_once = False
        return at_once

    def _host(self, topic: TopicProduceData) -> HostedTopic | None:
        replicas = self._context.node.replicas
        if self._context.api_version >= TOPIC_IDS_FROM:
            return replicas.topics_by_id.get(topic.topic_id)
        return replicas.topics.get(topic.name)

    def _check(self, item: _Item, hosted: HostedTopic | None, wanted: PartitionProduceData) -> None:
        if hosted is None or (partition := hosted.partitions.get(wanted.index)) is None:
            raise self._unknown(hosted, wanted.index)
        if not partition.is_leader:
            raise partition.not_leader()
        acks = self._request.acks
        if acks == ACKS_ALL:
            if partition.lacks_replicas:
                raise KafkaError(
                    ErrorCode.NOT_ENOUGH_REPLICAS,
                    f"{partition} has {len(partition.isr)} in-sync replicas of the "
                    f"{partition.min_insync_replicas} that min.insync.replicas asks for",
                )
        elif acks not in (0, 1):
            raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks}; 0, 1 or -1 (all)")
        records = wanted.records
        if not isinstance(records, memoryview):
            raise InvalidBatch(ErrorCode.INVALID_RECORD, "the request carries no batch")
        header = check_produced(records, hosted.rules, self._context.api_version)
        if header[5] & TRANSACTIONAL_BIT:
            if self._transactional is None:
                self._transactional = []
            self._transactional.append(item)
        size = header.size
        item.records = records if len(records) == size else records[:size]
        item.header = header
        item.partition = partition
        item.rules = hosted.rules

    def _unknown(self, hosted: HostedTopic | None, index: int) -> KafkaError:
        if hosted is None and self._context.api_version >= TOPIC_IDS_FROM:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        return self._context.node.replicas.not_here(None if hosted is None else hosted.id, index)

    # --- verifying ------------------------------------------------------------------------------

    def _verify(self, items: Sequence[_Item]) -> bool:
        """Ask about the transaction where it is not open yet; True if all is known now."""
        producers = {item.header[9:11] for item in items}
        refusal: ErrorCode | None = None
        if self._request.transactional_id is None:
            refusal = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        elif len(producers) > 1:
            refusal = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if refusal is not None:
            for item in self._items:
                item.error = KafkaError(refusal)
            return True
        if not self._must_verify:
            return True
        self._inquiry = None
        for item in items:
            if item.error is None:
                try:
                    self._begin_verification(item)
                except KafkaError as error:
                    item.error = error
        if self._inquiry is None:
            return True
        if not self._inquiry.ask():
            return False
        self._take_verdicts()
        return True

    @property
    def _must_verify(self) -> bool:
        return (
            self._context.api_version >= PROTOCOL_2_FROM
            or self._context.node.config["transaction.partition.verification.enable"]
        )

    def _begin_verification(self, item: _Item) -> None:
        version = self._context.api_version
        partition, header = item.partition, item.header
        item.verification = partition.begin_verification(
            header, self._now_ms, epochs_grow=version >= PROTOCOL_2_FROM
        )
        if item.verification is None:
            return
        if self._inquiry is None:
            transactional_id = self._request.transactional_id
            assert transactional_id is not None
            client = Identity(header[9], header[10])
            self._inquiry = Inquiry(self._context.node, version, transactional_id, client)
        self._inquiry.add((partition.topic, partition.index))

    def _take_verdicts(self) -> None:
        assert self._inquiry is not None
        for item in self._transactional or ():
            if item.verification is not None and item.error is None:
                partition = item.partition
                item.error = self._inquiry.error_of((partition.topic, partition.index))

    # --- waiting --------------------------------------------------------------------------------

    def keep_batches(self) -> None:
        """Copy the batches: the receive buffer is used again before a coroutine takes its first
        step."""
        for item in self._items:
            if item.error is None:
                item.records = memoryview(bytearray(item.records))

    async def append_later(self) -> ProduceResponse | DelayedProduce | None:
        """Look into batches, recompress them if asked for, beside the loop; wait for coordinators;
        then append. The connection waits, so that the order of its batches is kept; other
        connections do not."""
        unopened = [item for item in self._items if item.error is None and item.must_open]
        if unopened:
            await self._context.node.runtime.in_thread(self._open, unopened)
        if self._inquiry is not None:
            await self._await_verdicts()
        return self.append()

    async def _await_verdicts(self) -> None:
        """Each attempt is a question of its own: the marker that the coordinator was waiting for
        makes the one before void."""
        clock, config = self._context.node.runtime.clock, self._context.node.config
        give_up = clock.now() + config["add.partitions.to.txn.retry.backoff.max.ms"] / 1000
        while self._inquiry is not None:
            await self._inquiry.answered()
            if not self._inquiry.is_worth_another or clock.now() >= give_up:
                self._take_verdicts()
                return
            await asyncio.sleep(config["add.partitions.to.txn.retry.backoff.ms"] / 1000)
            if self._verify(self._transactional or ()):
                return

    def _open(self, items: Sequence[_Item]) -> None:
        for item in items:
            try:
                item.records = open_produced(item.records, item.header, item.rules, self._now_ms)
                item.header = read_header(item.records)
            except KafkaError as error:
                item.error = error

    # --- appending ------------------------------------------------------------------------------

    def append(self) -> ProduceResponse | DelayedProduce | None:
        for item in self._items:
            try:
                if item.error is not None:
                    raise item.error
                self._append(item)
            except KafkaError as error:
                _refuse(item.answer, self._context.node.replicas.noted(error))
                self._misled = self._misled or item.answer.error_code in WRONG_LEADER
        if self._request.acks == 0:
            self._close_if_refused()
            return None
        if self._unsettled is None:
            return self._told_leaders() if self._misled else self._response
        return DelayedProduce(
            self._context.node.runtime,
            {partition: needed for partition, (needed, _) in self._unsettled.items()},
            self._request.timeout_ms,
            self._finish,
            committed=self._request.acks == ACKS_ALL,
        )

    def _append(self, item: _Item) -> None:
        records, header, answer = item.records, item.header, item.answer
        if item.rules.log_append_time:
            if not header.is_log_append_time:
                records = stamp_log_append_time(records, self._now_ms)
                header = read_header(records)
            answer.log_append_time_ms = header.max_timestamp
        partition = item.partition
        if header[9] < 0:
            appended = partition.append(records, header, self._now_ms)
        else:
            appended, known_since = partition.append_produced(
                records,
                header,
                self._now_ms,
                item.verification,
                must_verify=self._transactional is not None and self._must_verify,
            )
            if known_since is not None and item.rules.log_append_time:
                answer.log_append_time_ms = known_since
        answer.base_offset = appended.base_offset
        answer.log_start_offset = appended.log_start_offset
        acks_all = self._request.acks == ACKS_ALL
        reached = partition.high_watermark if acks_all else partition.settled_offset
        if reached <= appended.last_offset:
            if self._unsettled is None:
                self._unsettled = {}
            self._unsettled[partition] = (appended.last_offset + 1, answer)

    # --- the answer -----------------------------------------------------------------------------

    def _finish(self, missed: dict[Partition, ErrorCode]) -> ProduceResponse:
        assert self._unsettled is not None
        for partition, error in missed.items():
            answer = self._unsettled[partition][1]
            answer.error_code = int(error)
            answer.base_offset = -1
            self._misled = self._misled or error in WRONG_LEADER
        return self._told_leaders() if self._misled else self._response

    def _told_leaders(self) -> ProduceResponse:
        """The answer, with the leaders of what was sent to the wrong broker."""
        leaders: list[int] = []
        for item, topic in zip(self._items, self._topics(), strict=True):
            answer = item.answer
            if answer.error_code in WRONG_LEADER:
                partition = placed(self._context, topic, answer.index)
                if partition is not None and self._context.api_version >= LEADERS_TOLD_FROM:
                    answer.current_leader = LeaderIdAndEpoch(
                        leader_id=partition.leader, leader_epoch=partition.leader_epoch
                    )
                    leaders.append(partition.leader)
        if leaders:
            self._response.node_endpoints = [
                NodeEndpoint(node_id=leader_id, host=endpoint.host, port=endpoint.port, rack=rack)
                for leader_id, endpoint, rack in addresses(self._context, leaders)
            ]
        return self._response

    def _topics(self) -> Iterator[str | bytes]:
        """The topic of each item."""
        by_id = self._context.api_version >= TOPIC_IDS_FROM
        for topic in self._request.topic_data:
            for _ in topic.partition_data:
                yield topic.topic_id if by_id else topic.name

    def _close_if_refused(self) -> None:
        """With acks=0 there is no answer to carry an error: closing the connection is the sign."""
        for item in self._items:
            if item.answer.error_code:
                name = ErrorCode.of(item.answer.error_code).name
                self._context.connection.close(f"acks=0 and {name}: {item.answer.error_message}")
                return


def _refuse(answer: PartitionProduceResponse, error: KafkaError) -> None:
    answer.error_code = int(error.code)
    answer.error_message = error.message
    answer.base_offset = -1
    if isinstance(error, InvalidBatch):
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=why)
            for at, why in error.record_errors
        ]
