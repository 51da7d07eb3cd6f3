"""The queue of one partition: nothing overtakes, nothing gets lost."""

from __future__ import annotations

from ottla.client.outbox import Batch, Identity, PartitionQueue, record_size
from ottla.records.codec import Codec
from ottla.records.header import read_header
from ottla.records.reader import read_records
from ottla.records.record import Record

IDEMPOTENT = Identity(7, 0)


def queue() -> PartitionQueue:
    return PartitionQueue(0, Codec.NONE, None)


def add(target: PartitionQueue, value: bytes) -> None:
    target.add(Record(0, 5, None, value), record_size(None, value, ()), now=0.0)
    target.close_open(0.0)


def taken(target: PartitionQueue, limit: int = 5) -> Batch:
    batch = target.take(IDEMPOTENT, limit)
    assert batch is not None
    return batch


def introduced() -> PartitionQueue:
    """A queue whose first batch has arrived."""
    target = queue()
    add(target, b"first")
    taken(target)
    target.delivered()
    return target


def test_a_batch_carries_identity_and_consecutive_sequences() -> None:
    target = introduced()
    for value in (b"a", b"b"):
        add(target, value)
    headers = [read_header(taken(target).data or b"") for _ in range(2)]
    assert [(h.producer_id, h.producer_epoch, h.base_sequence) for h in headers] == [
        (7, 0, 1),
        (7, 0, 2),
    ]


def test_the_first_batch_of_a_partition_goes_alone() -> None:
    target = queue()
    add(target, b"a")
    add(target, b"b")
    taken(target)
    assert target.take(IDEMPOTENT, 5) is None
    target.delivered()
    assert taken(target).order == 1


def test_no_more_batches_than_allowed_are_under_way() -> None:
    target = introduced()
    for value in (b"a", b"b", b"c"):
        add(target, value)
    taken(target, 2)
    taken(target, 2)
    assert target.take(IDEMPOTENT, 2) is None


def test_after_a_failure_everything_waits_and_is_resent_in_order_with_the_same_bytes() -> None:
    target = introduced()
    for value in (b"a", b"b", b"c", b"d"):
        add(target, value)
    first, second, third = (taken(target) for _ in range(3))
    target.failed(second)
    assert target.take(IDEMPOTENT, 5) is None
    target.resume()
    assert target.take(IDEMPOTENT, 5) is None, "two are still under way"
    target.failed(first)
    target.delivered()  # the third
    target.resume()
    assert third.order == 3
    again = [taken(target) for _ in range(3)]
    assert again[:2] == [first, second]
    values = [read_records(batch.data or b"")[0].value for batch in again]
    assert values == [b"a", b"b", b"d"]


def test_a_batch_is_closed_when_it_has_lingered_long_enough() -> None:
    target = queue()
    target.add(Record(0, 5, None, b"x"), 10, now=1.0)
    target.close_if_due(1.004, 0.005)
    assert not target.ready
    target.close_if_due(1.006, 0.005)
    assert len(target.ready) == 1


def test_sequences_wrap_after_the_greatest_32_bit_number() -> None:
    target = introduced()
    target._next_sequence = 2**31 - 1
    for value in (b"a", b"b"):
        add(target, value)
    assert [taken(target).sequence, taken(target).sequence] == [2**31 - 1, 0]


def test_without_an_identity_batches_have_no_sequence() -> None:
    target = queue()
    add(target, b"a")
    batch = target.take(Identity(), 1)
    assert batch is not None
    assert read_header(batch.data or b"").base_sequence == -1
