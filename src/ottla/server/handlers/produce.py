"""Produce: check the batch, append its bytes as they are, answer when `acks` is satisfied."""

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

Prepared = tuple[Buffer, BatchHeader]


def handle(
    context: RequestContext, request: ProduceRequest
) -> ProduceResponse | DelayedProduce | Coroutine[Any, Any, Any] | None:
    production = Production(context, request)
    if context.node.replicas.recompresses and production.must_recompress():
        return production.run_recompressing()
    return production.run()


class Production:
    """One produce request on its way into the logs."""

    __slots__ = ("_context", "_now_ms", "_prepared", "_request", "_response", "_unsettled")

    def __init__(self, context: RequestContext, request: ProduceRequest) -> None:
        self._context = context
        self._request = request
        self._now_ms = context.node.runtime.clock.wall_ms()
        self._response = ProduceResponse()
        self._unsettled: dict[Partition, tuple[int, PartitionProduceResponse]] | None = None
        self._prepared: dict[int, Prepared | KafkaError] | None = None

    def run(self) -> ProduceResponse | DelayedProduce | None:
        by_id = self._context.api_version >= TOPIC_IDS_FROM
        topics = []
        for topic in self._request.topic_data:
            hosted = self._host(topic)
            if by_id:
                answer = TopicProduceResponse(topic_id=topic.topic_id)
            else:
                answer = TopicProduceResponse(name=topic.name)
            answer.partition_responses = [
                self._produce(hosted, wanted) for wanted in topic.partition_data
            ]
            topics.append(answer)
        self._response.responses = topics
        return self._outcome()

    def _host(self, topic: TopicProduceData) -> HostedTopic | None:
        replicas = self._context.node.replicas
        if self._context.api_version >= TOPIC_IDS_FROM:
            return replicas.topics_by_id.get(topic.topic_id)
        return replicas.topics.get(topic.name)

    def _produce(
        self, hosted: HostedTopic | None, wanted: PartitionProduceData
    ) -> PartitionProduceResponse:
        index = wanted.index
        try:
            if hosted is None or (partition := hosted.partitions.get(index)) is None:
                raise self._unknown(hosted)
            self._check_acks(partition)
            if self._prepared is None:
                records, header = self._prepare(wanted.records, hosted.rules)
            else:
                prepared = self._prepared[id(wanted)]
                if isinstance(prepared, KafkaError):
                    raise prepared
                records, header = prepared
            return self._append(hosted.rules, partition, records, header)
        except InvalidBatch as error:
            return _refusal(index, error, error.record_errors)
        except KafkaError as error:
            return _refusal(index, self._context.node.replicas.noted(error))

    def _prepare(self, records: Buffer | None, rules: ProduceRules) -> Prepared:
        """The batch as it will lie in the log, but for its offset."""
        if records is None:
            raise InvalidBatch(ErrorCode.INVALID_RECORD, "the request carries no batch")
        view = records if type(records) is memoryview else memoryview(records)
        header = validate_produced(view, rules, self._now_ms, self._context.api_version)
        if header.attributes & TRANSACTIONAL_BIT:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE, "this broker coordinates no transactions yet"
            )
        if header.size != len(view):
            view = view[: header.size]
        if needs_rewrite(header, rules):
            rewritten = rewrite(view, header, rules, self._now_ms)
            return rewritten, read_header(rewritten)
        if rules.log_append_time:
            stamped = stamp_log_append_time(view, self._now_ms)
            return stamped, read_header(stamped)
        return view, header

    def _append(
        self, rules: ProduceRules, partition: Partition, records: Buffer, header: BatchHeader
    ) -> PartitionProduceResponse:
        appended = partition.append(records, header, self._now_ms)
        answer = PartitionProduceResponse(
            index=partition.index,
            base_offset=appended.base_offset,
            log_start_offset=appended.log_start_offset,
        )
        if rules.log_append_time:
            answer.log_append_time_ms = self._now_ms
        if partition.high_watermark <= appended.last_offset:
            if self._unsettled is None:
                self._unsettled = {}
            self._unsettled[partition] = (appended.last_offset + 1, answer)
        return answer

    def _check_acks(self, partition: Partition) -> None:
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

    def _unknown(self, hosted: HostedTopic | None) -> KafkaError:
        if hosted is None and self._context.api_version >= TOPIC_IDS_FROM:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    # --- recompression --------------------------------------------------------------------------

    def must_recompress(self) -> bool:
        """Whether a batch goes to a topic whose `compression.type` may want it otherwise."""
        return any(
            (hosted := self._host(topic)) is not None and hosted.rules.compression is not None
            for topic in self._request.topic_data
        )

    async def run_recompressing(self) -> ProduceResponse | DelayedProduce | None:
        """Validate and recompress beside the loop, then append. The connection waits, so that the
        order of its batches is kept; other connections do not."""
        work = []
        for topic in self._request.topic_data:
            hosted = self._host(topic)
            rules = ProduceRules() if hosted is None else hosted.rules
            for wanted in topic.partition_data:
                # Copied: the receive buffer is used again while we wait.
                copied = None if wanted.records is None else bytearray(wanted.records)
                work.append((id(wanted), copied, rules))
        self._prepared = await self._context.node.runtime.in_thread(self._prepare_all, work)
        return self.run()

    def _prepare_all(
        self, work: Sequence[tuple[int, Buffer | None, ProduceRules]]
    ) -> dict[int, Prepared | KafkaError]:
        prepared: dict[int, Prepared | KafkaError] = {}
        for key, records, rules in work:
            try:
                prepared[key] = self._prepare(records, rules)
            except KafkaError as error:
                prepared[key] = error
        return prepared

    # --- the answer -----------------------------------------------------------------------------

    def _outcome(self) -> ProduceResponse | DelayedProduce | None:
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

    def _finish(self, missed: dict[Partition, int]) -> ProduceResponse:
        assert self._unsettled is not None
        for partition in missed:
            answer = self._unsettled[partition][1]
            answer.error_code = int(partition.error or ErrorCode.REQUEST_TIMED_OUT)
            answer.base_offset = -1
        return self._response

    def _close_if_refused(self) -> None:
        """With acks=0 there is no answer to carry an error: closing the connection is the sign."""
        for topic in self._response.responses:
            for answer in topic.partition_responses:
                if answer.error_code:
                    name = ErrorCode.of(answer.error_code).name
                    self._context.connection.close(f"acks=0 and {name}: {answer.error_message}")
                    return


def _refusal(
    index: int, error: KafkaError, record_errors: Sequence[tuple[int, str]] = ()
) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=int(error.code),
        base_offset=-1,
        error_message=error.message,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=why)
            for at, why in record_errors
        ],
    )
