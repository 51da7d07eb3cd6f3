"""Produce: check the batches, append their bytes as they are, answer when `acks` is satisfied."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.buffers import Buffer
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
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
    needs_rewrite,
    rewrite,
    stamp_log_append_time,
    validate_produced,
)
from ottla.server.purgatory import DelayedProduce

if TYPE_CHECKING:
    from ottla.replication.partition import Partition
    from ottla.replication.topic import HostedTopic
    from ottla.server.context import RequestContext

ACKS_ALL: Final = -1
TOPIC_IDS_FROM: Final = 13


def handle(
    context: RequestContext, request: ProduceRequest
) -> ProduceResponse | DelayedProduce | Coroutine[Any, Any, Any] | None:
    production = Production(context, request)
    if production.check():
        return production.append()
    production.keep_batches()
    return production.open_and_append()


class _Item:
    """One partition of the request: what came, what it became, and the answer it gets."""

    __slots__ = ("answer", "error", "header", "partition", "records", "rules")

    def __init__(self, answer: PartitionProduceResponse) -> None:
        self.answer = answer
        self.error: KafkaError | None = None
        self.partition: Partition
        self.rules: ProduceRules
        self.records: Buffer
        self.header: BatchHeader


class Production:
    """One produce request on its way into the logs: all batches are checked, then all appended."""

    __slots__ = ("_context", "_items", "_now_ms", "_request", "_response", "_unsettled")

    def __init__(self, context: RequestContext, request: ProduceRequest) -> None:
        self._context = context
        self._request = request
        self._now_ms = context.node.runtime.clock.wall_ms()
        self._response = ProduceResponse()
        self._items: list[_Item] = []
        self._unsettled: dict[Partition, tuple[int, PartitionProduceResponse]] | None = None

    # --- checking -------------------------------------------------------------------------------

    def check(self) -> bool:
        """Check every batch by its header and checksum; False if one of them must be opened."""
        unopened = True
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
                    if must_open(item.header, item.rules, self._now_ms):
                        unopened = False
                except KafkaError as error:
                    item.error = error
            if self._context.api_version >= TOPIC_IDS_FROM:
                group = TopicProduceResponse(topic_id=topic.topic_id, partition_responses=answers)
            else:
                group = TopicProduceResponse(name=topic.name, partition_responses=answers)
            self._response.responses.append(group)
        return unopened

    def _host(self, topic: TopicProduceData) -> HostedTopic | None:
        replicas = self._context.node.replicas
        if self._context.api_version >= TOPIC_IDS_FROM:
            return replicas.topics_by_id.get(topic.topic_id)
        return replicas.topics.get(topic.name)

    def _check(self, item: _Item, hosted: HostedTopic | None, wanted: PartitionProduceData) -> None:
        if hosted is None or (partition := hosted.partitions.get(wanted.index)) is None:
            raise self._unknown(hosted)
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
        if header.attributes & TRANSACTIONAL_BIT:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE, "this broker coordinates no transactions yet"
            )
        size = header.size
        item.records = records if len(records) == size else records[:size]
        item.header = header
        item.partition = partition
        item.rules = hosted.rules

    def _unknown(self, hosted: HostedTopic | None) -> KafkaError:
        if hosted is None and self._context.api_version >= TOPIC_IDS_FROM:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    # --- opening --------------------------------------------------------------------------------

    def keep_batches(self) -> None:
        """Copy the batches: the receive buffer is used again before a coroutine takes its first
        step."""
        for item in self._items:
            if item.error is None:
                item.records = memoryview(bytearray(item.records))

    async def open_and_append(self) -> ProduceResponse | DelayedProduce | None:
        """Look into batches, recompress them if asked for, beside the loop; then append. The
        connection waits, so that the order of its batches is kept; other connections do not."""
        items = [item for item in self._items if item.error is None]
        await self._context.node.runtime.in_thread(self._open, items)
        return self.append()

    def _open(self, items: Sequence[_Item]) -> None:
        for item in items:
            try:
                assert isinstance(item.records, memoryview)
                version = self._context.api_version
                header = validate_produced(item.records, item.rules, self._now_ms, version)
                if needs_rewrite(header, item.rules):
                    item.records = rewrite(item.records, header, item.rules, self._now_ms)
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
        if self._request.acks == 0:
            self._close_if_refused()
            return None
        if self._unsettled is None:
            return self._response
        return DelayedProduce(
            self._context.node.runtime,
            {partition: needed for partition, (needed, _) in self._unsettled.items()},
            self._request.timeout_ms,
            self._finish,
        )

    def _append(self, item: _Item) -> None:
        records, header, answer = item.records, item.header, item.answer
        if item.rules.log_append_time:
            if not header.is_log_append_time:
                records = stamp_log_append_time(records, self._now_ms)
                header = read_header(records)
            answer.log_append_time_ms = header.max_timestamp
        partition = item.partition
        appended = partition.append(records, header, self._now_ms)
        answer.base_offset = appended.base_offset
        answer.log_start_offset = appended.log_start_offset
        if partition.high_watermark <= appended.last_offset:
            if self._unsettled is None:
                self._unsettled = {}
            self._unsettled[partition] = (appended.last_offset + 1, answer)

    # --- the answer -----------------------------------------------------------------------------

    def _finish(self, missed: dict[Partition, int]) -> ProduceResponse:
        assert self._unsettled is not None
        for partition in missed:
            answer = self._unsettled[partition][1]
            answer.error_code = int(partition.error or ErrorCode.REQUEST_TIMED_OUT)
            answer.base_offset = -1
        return self._response

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
