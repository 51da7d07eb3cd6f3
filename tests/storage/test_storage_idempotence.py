"""What an idempotent or transactional producer may append, and what it is told otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from storage_tools import NOW_MS, FixedClock, make_batch, open_log, values_of

from ottla.broker.replication.group_commit import begin_flush, end_flush
from ottla.broker.replication.partition import Partition, TransactionEnd
from ottla.broker.replication.verifying import begin_verification
from ottla.broker.storage.log import Log
from ottla.broker.storage.log_reading import aborted_transactions
from ottla.config.topic import TopicConfig
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.records.header import batches, read_header

SMALL = TopicConfig(segment_bytes=2000, index_interval_bytes=100)
SEQUENCE_LAST = 2**31 - 1


class Leader:
    """A partition with one replica, restarted as often as a test likes."""

    def __init__(self, folder: Path, config: TopicConfig | None = None) -> None:
        self.folder = folder
        self.config = config or TopicConfig()
        self.clock = FixedClock()
        self.partition = self._start(clean=True)

    def _start(self, *, clean: bool) -> Partition:
        log = open_log(self.folder / "t-0", self.config, clean=clean, clock=self.clock)
        partition = Partition("t", b"i" * 16, 0, lambda _: log, lambda _: None)
        partition.leader_epoch = 0
        partition.attach(log)
        return partition

    @property
    def log(self) -> Log:
        assert self.partition.log is not None
        return self.partition.log

    def restart(self, *, clean: bool) -> None:
        if clean:
            self.log.close(clean=True)
        self.partition = self._start(clean=clean)

    def send(
        self, producer_id: int, sequence: int, *values: bytes, epoch: int = 0, **fields: Any
    ) -> int:
        """Produce outside of transactions; the base offset answered."""
        batch = bytearray(
            make_batch(
                values or (b"%d" % sequence,),
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                timestamp=self.clock.ms,
                **fields,
            )
        )
        return self.partition.append_produced(batch, read_header(batch), self.clock.ms)[
            0
        ].base_offset

    def send_in_transaction(
        self, producer_id: int, sequence: int, *values: bytes, epoch: int = 0, grows: bool = True
    ) -> int:
        """Produce in a transaction that the coordinator confirms at once."""
        batch = bytearray(
            make_batch(
                values or (b"%d" % sequence,),
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                transactional=True,
                timestamp=self.clock.ms,
            )
        )
        header = read_header(batch)
        asked = begin_verification(self.partition, *header[9:12], self.clock.ms, epochs_grow=grows)
        appended, _ = self.partition.append_produced(batch, header, self.clock.ms, asked)
        return appended.base_offset

    def end(
        self,
        producer_id: int,
        *,
        epoch: int,
        commit: bool,
        version: int = 2,
        coordinator_epoch: int = 0,
    ) -> int:
        marker = TransactionEnd(producer_id, epoch, coordinator_epoch, commit, version)
        return self.partition.append_marker(marker, self.clock.ms).base_offset


@pytest.fixture
def leader(tmp_path: Path) -> Leader:
    return Leader(tmp_path)


def refused(code: ErrorCode, call: Callable[..., Any], *args: Any, **options: Any) -> None:
    with pytest.raises(KafkaError) as caught:
        call(*args, **options)
    assert caught.value.code is code


OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_repeated_batch_gets_the_offset_of_the_first_and_is_not_stored_again(
    leader: Leader,
) -> None:
    assert leader.send(1, 0, b"a", b"b") == 0
    assert leader.send(1, 2, b"c") == 2
    assert leader.send(1, 0, b"a", b"b") == 0
    assert leader.send(1, 2, b"c") == 2
    assert leader.log.end_offset == 3


def test_each_of_the_last_five_batches_is_recognised_and_the_sixth_is_out_of_order(
    leader: Leader,
) -> None:
    for sequence in range(8):
        leader.send(1, sequence)
    for sequence in range(3, 8):
        assert leader.send(1, sequence) == sequence
    refused(OUT_OF_ORDER, leader.send, 1, 2)


def test_a_batch_that_only_overlaps_a_known_one_is_out_of_order(leader: Leader) -> None:
    leader.send(1, 0, b"a", b"b", b"c")
    refused(OUT_OF_ORDER, leader.send, 1, 0, b"a", b"b")
    refused(OUT_OF_ORDER, leader.send, 1, 1, b"b", b"c")


def test_a_gap_is_out_of_order(leader: Leader) -> None:
    leader.send(1, 0)
    refused(OUT_OF_ORDER, leader.send, 1, 2)
    assert leader.send(1, 1) == 1


def test_a_producer_that_is_not_known_may_begin_anywhere(leader: Leader) -> None:
    assert leader.send(1, 17) == 0
    assert leader.send(1, 18) == 1


def test_sequences_go_on_with_zero_after_the_greatest(leader: Leader) -> None:
    leader.send(1, SEQUENCE_LAST - 1)
    leader.send(1, SEQUENCE_LAST)
    assert leader.send(1, 0) == 2
    assert leader.send(1, SEQUENCE_LAST) == 1


def test_sequences_wrap_inside_a_batch(leader: Leader) -> None:
    leader.send(1, SEQUENCE_LAST - 1, b"a", b"b", b"c", b"d")
    refused(OUT_OF_ORDER, leader.send, 1, 0)
    assert leader.send(1, 2) == 4
    assert leader.send(1, SEQUENCE_LAST - 1, b"a", b"b", b"c", b"d") == 0


def test_a_new_epoch_begins_with_zero(leader: Leader) -> None:
    leader.send(1, 0)
    refused(OUT_OF_ORDER, leader.send, 1, 1, epoch=1)
    assert leader.send(1, 0, epoch=1) == 1
    refused(ErrorCode.INVALID_PRODUCER_EPOCH, leader.send, 1, 1, epoch=0)


def test_the_same_sequences_in_another_epoch_are_another_batch(leader: Leader) -> None:
    leader.send(1, 0, b"old")
    leader.send(1, 0, b"new", epoch=1)
    assert values_of(leader.log) == [(0, b"old"), (1, b"new")]


def test_an_expired_producer_is_a_new_one(leader: Leader) -> None:
    leader.send(1, 0)
    leader.send(1, 1)
    leader.clock.ms += 1000
    leader.log.producers.expire(leader.clock.ms, 1000)
    assert leader.send(1, 5) == 2
    refused(OUT_OF_ORDER, leader.send, 1, 7)


def test_a_producer_with_an_open_transaction_does_not_expire(leader: Leader) -> None:
    leader.send_in_transaction(1, 0)
    leader.log.producers.expire(leader.clock.ms + 10**9, 1000)
    assert leader.send_in_transaction(1, 1) == 1


def test_questions_to_a_coordinator_that_led_to_nothing_are_forgotten(leader: Leader) -> None:
    batch = make_batch([b"a"], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    header = read_header(batch)
    assert begin_verification(leader.partition, *header[9:12], NOW_MS, epochs_grow=True) is not None
    leader.log.producers.expire(NOW_MS + 1000, 1000)
    assert leader.log.producers.verifications == {}


@pytest.mark.parametrize("clean", [True, False])
def test_the_last_five_batches_are_recognised_after_a_restart(leader: Leader, clean: bool) -> None:
    for sequence in range(8):
        leader.send(1, sequence)
        leader.send(2, sequence, epoch=3)
    leader.restart(clean=clean)
    for sequence in range(3, 8):
        assert leader.send(1, sequence) == 2 * sequence
        assert leader.send(2, sequence, epoch=3) == 2 * sequence + 1
    assert leader.send(1, 8) == 16


@pytest.mark.parametrize("clean", [True, False])
def test_batches_in_flight_across_a_roll_are_recognised_after_a_restart(
    tmp_path: Path, clean: bool
) -> None:
    leader = Leader(tmp_path, SMALL)
    sequence = 0
    while len(leader.log.segments) == 1:
        leader.send(1, sequence, b"." * 200)
        sequence += 1
    leader.restart(clean=clean)
    for repeated in range(sequence - 5, sequence):
        assert leader.send(1, repeated, b"." * 200) == repeated


# --- transactions -----------------------------------------------------------------------------


def test_a_transactional_batch_that_nobody_vouches_for_is_refused(leader: Leader) -> None:
    batch = make_batch([b"a"], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    header = read_header(batch)
    refused(
        ErrorCode.INVALID_TXN_STATE, leader.partition.append_produced, batch, header, NOW_MS, None
    )
    appended, _ = leader.partition.append_produced(batch, header, NOW_MS, None, must_verify=False)
    assert appended.base_offset == 0


def test_what_a_coordinator_said_before_a_marker_counts_for_nothing_after_it(
    leader: Leader,
) -> None:
    batch = make_batch([b"a"], producer_id=1, producer_epoch=5, base_sequence=0, transactional=True)
    header = read_header(batch)
    asked = begin_verification(leader.partition, *header[9:12], NOW_MS, epochs_grow=False)
    leader.end(1, epoch=5, commit=False, version=1)
    refused(
        ErrorCode.INVALID_TXN_STATE, leader.partition.append_produced, batch, header, NOW_MS, asked
    )
    assert leader.partition.last_stable_offset == leader.partition.high_watermark


def test_an_open_transaction_asks_no_coordinator(leader: Leader) -> None:
    leader.send_in_transaction(1, 0)
    batch = make_batch([b"a"], producer_id=1, producer_epoch=0, base_sequence=1, transactional=True)
    header = read_header(batch)
    assert begin_verification(leader.partition, *header[9:12], NOW_MS, epochs_grow=True) is None
    assert leader.partition.append_produced(batch, header, NOW_MS)[0].base_offset == 1


def test_a_producer_of_the_past_asks_no_coordinator_either(leader: Leader) -> None:
    leader.send_in_transaction(1, 0, epoch=2)
    old = make_batch([b"a"], producer_id=1, producer_epoch=1, base_sequence=0, transactional=True)
    refused(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        begin_verification,
        leader.partition,
        *read_header(old)[9:12],
        NOW_MS,
        epochs_grow=True,
    )


def test_a_later_batch_waits_for_the_first_one_asked_about(leader: Leader) -> None:
    """The first failed on its way and comes again: were the second stored, it never could be."""
    first, second = (
        make_batch([b"a"], producer_id=1, producer_epoch=0, base_sequence=at, transactional=True)
        for at in (0, 1)
    )
    partition = leader.partition
    begin_verification(partition, *read_header(first)[9:12], NOW_MS, epochs_grow=False)
    asked = begin_verification(partition, *read_header(second)[9:12], NOW_MS, epochs_grow=False)
    refused(OUT_OF_ORDER, partition.append_produced, second, read_header(second), NOW_MS, asked)
    assert partition.append_produced(first, read_header(first), NOW_MS, asked)[0].base_offset == 0
    assert partition.append_produced(second, read_header(second), NOW_MS)[0].base_offset == 1


def test_a_transaction_with_growing_epochs_begins_with_sequence_zero(leader: Leader) -> None:
    refused(OUT_OF_ORDER, leader.send_in_transaction, 1, 3, grows=True)
    assert leader.send_in_transaction(2, 3, grows=False) == 0


def test_a_batch_outside_of_the_open_transaction_of_its_producer_is_refused(
    leader: Leader,
) -> None:
    leader.send_in_transaction(1, 0)
    refused(ErrorCode.INVALID_TXN_STATE, leader.send, 1, 1)


def test_a_repeated_batch_of_an_open_transaction_is_recognised(leader: Leader) -> None:
    leader.send_in_transaction(1, 0)
    leader.send_in_transaction(1, 1)
    assert leader.send_in_transaction(1, 0) == 0


# --- markers ----------------------------------------------------------------------------------


def test_with_protocol_2_a_marker_needs_a_higher_epoch_than_the_records(leader: Leader) -> None:
    leader.send_in_transaction(1, 0, epoch=4)
    refused(ErrorCode.INVALID_PRODUCER_EPOCH, leader.end, 1, epoch=4, commit=True)
    leader.end(1, epoch=5, commit=True)
    refused(ErrorCode.INVALID_PRODUCER_EPOCH, leader.send_in_transaction, 1, 1, epoch=4)
    assert leader.send_in_transaction(1, 0, epoch=5) == 2


def test_with_protocol_1_a_marker_has_the_epoch_of_the_records(leader: Leader) -> None:
    leader.send_in_transaction(1, 0, epoch=4, grows=False)
    leader.end(1, epoch=4, commit=True, version=1)
    assert leader.send_in_transaction(1, 1, epoch=4, grows=False) == 2
    refused(ErrorCode.INVALID_PRODUCER_EPOCH, leader.end, 1, epoch=3, commit=True, version=1)


def test_the_last_epoch_of_a_producer_may_be_its_marker_s_too(leader: Leader) -> None:
    leader.send_in_transaction(1, 0, epoch=32767)
    leader.end(1, epoch=32767, commit=True)
    assert leader.partition.last_stable_offset == 2


def test_a_marker_may_be_written_again(leader: Leader) -> None:
    leader.send_in_transaction(1, 0)
    leader.end(1, epoch=1, commit=False)
    leader.end(1, epoch=1, commit=False)
    assert leader.partition.last_stable_offset == 3
    assert len(aborted_transactions(leader.log.segments, 0, 10)) == 1


def test_a_marker_without_a_transaction_fences_the_epochs_before_it(leader: Leader) -> None:
    leader.end(1, epoch=3, commit=False)
    refused(ErrorCode.INVALID_PRODUCER_EPOCH, leader.send_in_transaction, 1, 0, epoch=2)
    assert leader.partition.last_stable_offset == 1


def test_a_coordinator_of_the_past_is_fenced(leader: Leader) -> None:
    leader.send_in_transaction(1, 0)
    leader.end(1, epoch=1, commit=True, coordinator_epoch=7)
    leader.send_in_transaction(1, 0, epoch=1)
    refused(
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        leader.end,
        1,
        epoch=2,
        commit=False,
        coordinator_epoch=6,
    )
    leader.end(1, epoch=2, commit=True, coordinator_epoch=7)


def test_what_a_coordinator_writes_for_a_producer_is_checked_by_epoch_alone(
    leader: Leader,
) -> None:
    """Offsets committed in a transaction have no sequence."""

    def commit_offsets(epoch: int) -> int:
        batch = make_batch([b"offset"], producer_id=1, producer_epoch=epoch, transactional=True)
        return leader.partition.append(batch, read_header(batch), NOW_MS).base_offset

    assert [commit_offsets(2), commit_offsets(2)] == [0, 1]
    leader.end(1, epoch=3, commit=True)
    refused(ErrorCode.INVALID_PRODUCER_EPOCH, commit_offsets, 2)


# --- the last stable offset --------------------------------------------------------------------


def test_the_stable_offset_stays_at_the_oldest_open_transaction(leader: Leader) -> None:
    leader.send(9, 0)
    leader.send_in_transaction(1, 0)  # offset 1
    leader.send_in_transaction(2, 0)  # offset 2
    assert leader.partition.last_stable_offset == 1
    leader.end(2, epoch=1, commit=True)
    assert leader.partition.last_stable_offset == 1
    leader.end(1, epoch=1, commit=True)
    assert leader.partition.last_stable_offset == 5 == leader.partition.high_watermark


def test_a_transaction_holds_readers_back_until_its_marker_is_replicated(tmp_path: Path) -> None:
    leader = Leader(tmp_path, TopicConfig(flush_messages=1))
    partition = leader.partition
    leader.send_in_transaction(1, 0)
    leader.log.flush()
    end_flush(partition, begin_flush(partition))
    assert (partition.high_watermark, partition.last_stable_offset) == (1, 0)
    leader.end(1, epoch=1, commit=True)
    assert (partition.high_watermark, partition.last_stable_offset) == (1, 0)
    leader.log.flush()
    end_flush(partition, begin_flush(partition))
    assert (partition.high_watermark, partition.last_stable_offset) == (2, 2)


def test_the_stable_offset_never_lies_before_the_log(leader: Leader) -> None:
    leader.send_in_transaction(1, 0, b"a", b"b", b"c")
    leader.log.increment_log_start_offset(2)
    assert leader.partition.last_stable_offset == 2


@pytest.mark.parametrize("clean", [True, False])
def test_open_transactions_hold_readers_back_after_a_restart(leader: Leader, clean: bool) -> None:
    leader.send(9, 0)
    leader.send_in_transaction(1, 0)
    leader.restart(clean=clean)
    assert leader.partition.last_stable_offset == 1
    leader.send_in_transaction(1, 1)
    before = leader.partition.stable_bytes
    leader.end(1, epoch=1, commit=False)
    assert leader.partition.last_stable_offset == 4
    assert leader.partition.stable_bytes > before


def test_readers_of_committed_data_are_told_which_transactions_to_skip(leader: Leader) -> None:
    leader.send_in_transaction(1, 0)  # 0
    leader.send_in_transaction(2, 0)  # 1
    leader.end(1, epoch=1, commit=False)  # 2
    records, aborted = leader.partition.read_committed(0, 1 << 20, min_one=True)
    assert records is not None
    assert [transaction[:2] for transaction in aborted] == [(1, 0)]
    assert leader.partition.read_committed(1, 1 << 20, min_one=True) == (None, [])
    leader.end(2, epoch=1, commit=False)
    _, aborted = leader.partition.read_committed(1, 1 << 20, min_one=True)
    assert [transaction[:2] for transaction in aborted] == [(1, 0), (2, 1)]


def test_a_read_is_told_of_the_aborted_transactions_it_touches_and_not_of_all(
    tmp_path: Path,
) -> None:
    leader = Leader(tmp_path, SMALL)
    for epoch in range(60):
        leader.send_in_transaction(1, 0, b"." * 50, epoch=epoch)
        leader.end(1, epoch=epoch + 1, commit=False)
    assert len(leader.log.segments) > 3
    offset = 0
    while offset < leader.log.end_offset:
        records, aborted = leader.partition.read_committed(offset, 300, min_one=True)
        assert records is not None
        headers = [header for header, _ in batches(records.read())]
        firsts = {transaction.first_offset for transaction in aborted}
        data = {header.base_offset for header in headers if not header.is_control}
        assert data <= firsts
        assert len(firsts) <= 8
        offset = headers[-1].next_offset


def test_stable_bytes_do_not_grow_with_an_open_transaction_and_leap_with_its_end(
    leader: Leader,
) -> None:
    leader.send(9, 0)
    start = leader.partition.stable_bytes
    leader.send_in_transaction(1, 0)
    leader.send(9, 1)
    assert leader.partition.stable_bytes == start
    leader.end(1, epoch=1, commit=True)
    assert leader.partition.stable_bytes == leader.log.size_bytes
