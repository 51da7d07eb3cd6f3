"""Producers that send, repeat, skip, begin epochs and transactions in any order, and a broker that
restarts in between: whatever happens, each record is stored once and in order."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from storage_tools import NOW_MS, FixedClock, make_batch, open_log, read_all

from ottla.broker.replication.partition import Partition, TransactionEnd
from ottla.broker.replication.verifying import begin_verification
from ottla.config.topic import TopicConfig
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.records.header import batches, read_header

PRODUCERS = st.integers(0, 2)
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
FENCED = ErrorCode.INVALID_PRODUCER_EPOCH


class Producer:
    """What a correct client knows: what it sent, where it was stored."""

    def __init__(self, start: int) -> None:
        self.epoch = 0
        self.next = start
        self.open_from: int | None = None
        self.sent: list[tuple[int, int, int]] = []  # sequence, records, base offset: this epoch


class ProducersAndRestarts(RuleBasedStateMachine):
    @initialize(start=st.sampled_from([0, 2**31 - 4]), segment_bytes=st.sampled_from([600, 10**6]))
    def begin(self, start: int, segment_bytes: int) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._config = TopicConfig(segment_bytes=segment_bytes, index_interval_bytes=100)
        self._clock = FixedClock()
        self.producers = [Producer(start) for _ in range(3)]
        self.stored: list[bytes] = []  # values in the order of offsets; b"" for a marker
        self.aborted: set[int] = set()
        self.count = 0
        self.partition = self._open(clean=True)

    def teardown(self) -> None:
        if hasattr(self, "_folder"):
            self._folder.cleanup()

    def _open(self, *, clean: bool) -> Partition:
        folder = Path(self._folder.name) / "t-0"
        log = open_log(folder, self._config, clean=clean, clock=self._clock)
        partition = Partition("t", b"i" * 16, 0, lambda _: log, lambda _: None)
        partition.leader_epoch = 0
        partition.attach(log)
        return partition

    def _send(self, producer_id: int, sequence: int, count: int, **fields: Any) -> int | ErrorCode:
        """The base offset answered, or the error."""
        producer = self.producers[producer_id]
        transactional = producer.open_from is not None or fields.pop("transactional", False)
        epoch = fields.pop("epoch", producer.epoch)
        batch = bytearray(
            make_batch(
                [b"%d" % (self.count + index) for index in range(count)],
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                transactional=transactional,
            )
        )
        header = read_header(batch)
        try:
            asked = None
            if transactional:
                asked = begin_verification(self.partition, *header[9:12], NOW_MS, epochs_grow=False)
            return self.partition.append_produced(batch, header, NOW_MS, asked)[0].base_offset
        except KafkaError as error:
            return error.code

    def _stored(self, producer: Producer, sequence: int, count: int, offset: int) -> None:
        assert offset == len(self.stored)
        self.stored += [b"%d" % (self.count + index) for index in range(count)]
        self.count += count
        producer.sent.append((sequence, count, offset))
        producer.next = (sequence + count) % 2**31

    @rule(producer_id=PRODUCERS, count=st.integers(1, 3))
    def send_next(self, producer_id: int, count: int) -> None:
        producer = self.producers[producer_id]
        offset = self._send(producer_id, producer.next, count)
        assert not isinstance(offset, ErrorCode)
        self._stored(producer, producer.next, count, offset)

    @rule(producer_id=PRODUCERS, back=st.integers(0, 7))
    def repeat(self, producer_id: int, back: int) -> None:
        producer = self.producers[producer_id]
        if back < len(producer.sent):
            sequence, count, offset = producer.sent[-1 - back]
            answer = self._send(producer_id, sequence, count)
            # After a restart fewer than five may be known, yet always the last.
            allowed = {offset} if back == 0 else {offset, OUT_OF_ORDER}
            assert answer in (allowed if back < 5 else {OUT_OF_ORDER})

    @rule(producer_id=PRODUCERS, ahead=st.integers(1, 5))
    def skip(self, producer_id: int, ahead: int) -> None:
        producer = self.producers[producer_id]
        if producer.sent:
            sequence = (producer.next + ahead) % 2**31
            assert self._send(producer_id, sequence, 1) is OUT_OF_ORDER

    @rule(producer_id=PRODUCERS)
    def send_as_a_zombie(self, producer_id: int) -> None:
        producer = self.producers[producer_id]
        if producer.epoch > 0 and producer.sent:
            assert self._send(producer_id, producer.next, 1, epoch=producer.epoch - 1) is FENCED

    @rule(producer_id=PRODUCERS, first=st.sampled_from([0, 5]))
    def begin_epoch(self, producer_id: int, first: int) -> None:
        producer = self.producers[producer_id]
        if not producer.sent or producer.open_from is not None:
            return
        answer = self._send(producer_id, first, 1, epoch=producer.epoch + 1)
        if first:
            assert answer is OUT_OF_ORDER
            return
        producer.epoch += 1
        producer.sent.clear()
        assert not isinstance(answer, ErrorCode)
        self._stored(producer, 0, 1, answer)

    @rule(producer_id=PRODUCERS)
    def begin_transaction(self, producer_id: int) -> None:
        producer = self.producers[producer_id]
        if producer.open_from is None:
            offset = self._send(producer_id, producer.next, 1, transactional=True)
            assert not isinstance(offset, ErrorCode)
            self._stored(producer, producer.next, 1, offset)
            producer.open_from = offset

    @rule(producer_id=PRODUCERS, commit=st.booleans(), version=st.sampled_from([1, 2]))
    def end_transaction(self, producer_id: int, commit: bool, version: int) -> None:
        producer = self.producers[producer_id]
        if producer.open_from is None:
            return
        if version == 2:
            producer.epoch += 1
            producer.sent.clear()
            producer.next = 0
        marker = TransactionEnd(producer_id, producer.epoch, 0, commit, version)
        assert self.partition.append_marker(marker, NOW_MS).base_offset == len(self.stored)
        self.stored.append(b"")
        if not commit:
            self.aborted.add(producer.open_from)
        producer.open_from = None

    @precondition(lambda self: self.stored)
    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        log = self.partition.log
        assert log is not None
        before = {
            entry.producer_id: (entry.to_snapshot(), entry.batches)
            for entry in log.producers.producers.values()
        }
        open_before = dict(log.producers.ongoing)
        if clean:
            log.close(clean=True)
        self.partition = self._open(clean=clean)
        assert self.partition.log is not None
        producers = self.partition.log.producers
        assert producers.ongoing == open_before
        assert producers.producers.keys() == before.keys()
        for producer_id, (snapshot, known) in before.items():
            entry = producers.producers[producer_id]
            assert entry.to_snapshot() == snapshot
            # Of a marker only the timestamp is stored, in place of that of the batch before.
            kept = known[len(known) - len(entry.batches) :]
            assert [batch[:3] for batch in entry.batches] == [batch[:3] for batch in kept]

    @invariant()
    def every_record_is_stored_once_and_in_order(self) -> None:
        if not hasattr(self, "partition"):
            return
        assert self.partition.log is not None
        found = read_all(self.partition.log)
        assert [record.offset for record in found] == list(range(len(self.stored)))
        for record, expected in zip(found, self.stored, strict=True):
            assert not expected or record.value == expected

    @invariant()
    def committed_readers_see_up_to_the_oldest_open_transaction(self) -> None:
        if not hasattr(self, "partition"):
            return
        open_from = [p.open_from for p in self.producers if p.open_from is not None]
        assert self.partition.last_stable_offset == min(open_from, default=len(self.stored))
        records, aborted = self.partition.read_committed(0, 1 << 30, min_one=True)
        if records is not None:
            end = max(header.last_offset for header, _ in batches(records.read()))
            told = {transaction.first_offset for transaction in aborted}
            assert {first for first in self.aborted if first <= end} <= told <= self.aborted


ProducersAndRestarts.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None
)
test_any_order_of_producers_and_restarts = ProducersAndRestarts.TestCase
