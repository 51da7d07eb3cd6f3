"""Which records of a fetch a reader sees."""

from __future__ import annotations

import pytest

from ottla.client.fetched import Fetched
from ottla.records.builder import build_batch
from ottla.records.control import end_txn_marker
from ottla.records.errors import InvalidBatch
from ottla.records.record import Record


def batch(base: int, *values: bytes, producer_id: int = -1, transactional: bool = False) -> bytes:
    records = [Record(base + i, 5, None, value) for i, value in enumerate(values)]
    return build_batch(
        records,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        transactional=transactional,
    )


def marker(offset: int, producer_id: int, *, committed: bool) -> bytes:
    return end_txn_marker(
        committed=committed,
        coordinator_epoch=0,
        producer_id=producer_id,
        producer_epoch=0,
        timestamp_ms=5,
        base_offset=offset,
    )


def fetched(
    data: bytes | None, *, position: int = 0, aborted: list[tuple[int, int]] | None = None
) -> Fetched:
    return Fetched(0, position, 0, 100, aborted or [], data)


def values(part: Fetched) -> list[bytes | None]:
    return [record.value for record in part.records()]


def test_records_before_the_offset_asked_for_are_left_out() -> None:
    part = fetched(batch(10, b"a", b"b", b"c"), position=11)
    assert [record.offset for record in part.records()] == [11, 12]
    assert part.next_offset() == 13


def test_a_batch_cut_off_at_the_end_is_left_for_the_next_fetch() -> None:
    part = fetched(batch(0, b"a") + batch(1, b"b")[:-1])
    assert values(part) == [b"a"]
    assert part.next_offset() == 1


def test_nothing_fetched_moves_nothing() -> None:
    assert fetched(None, position=7).next_offset() == 7
    assert fetched(b"", position=7).next_offset() == 7


def test_control_records_are_passed_over_but_counted() -> None:
    part = fetched(batch(0, b"a", producer_id=1, transactional=True) + marker(1, 1, committed=True))
    assert values(part) == [b"a"]
    assert part.next_offset() == 2


def test_an_aborted_transaction_is_hidden_and_the_next_of_the_same_producer_is_not() -> None:
    data = (
        batch(0, b"gone", producer_id=1, transactional=True)
        + batch(1, b"other", producer_id=2, transactional=True)
        + batch(2, b"plain")
        + marker(3, 1, committed=False)
        + batch(4, b"kept", producer_id=1, transactional=True)
        + marker(5, 1, committed=True)
    )
    assert values(fetched(data, aborted=[(0, 1)])) == [b"other", b"plain", b"kept"]


def test_a_damaged_batch_is_not_handed_out() -> None:
    data = bytearray(batch(0, b"abc"))
    data[-2] ^= 1
    with pytest.raises(InvalidBatch, match="checksum"):
        values(fetched(bytes(data)))
