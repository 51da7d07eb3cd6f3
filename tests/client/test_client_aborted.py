"""Which batches of a fetch a reader of committed records is not given."""

from ottla.client.consumer.fetching.aborted import AbortedTransactions
from ottla.records.builder import build_batch
from ottla.records.control import end_txn_marker
from ottla.records.header import TRANSACTIONAL_BIT, read_header
from ottla.records.record import Record

PRODUCER = 7


def marker(offset: int, *, committed: bool) -> bytes:
    batch = end_txn_marker(
        committed=committed,
        coordinator_epoch=0,
        producer_id=PRODUCER,
        producer_epoch=0,
        timestamp_ms=0,
    )
    return offset.to_bytes(8, "big") + bytes(batch)[8:]


def hidden(aborted: AbortedTransactions, offset: int) -> bool:
    record = Record(0, 0, b"k", b"v", ())
    header = read_header(build_batch([record]))
    return aborted.hides(
        header._replace(
            base_offset=offset,
            producer_id=PRODUCER,
            attributes=header.attributes | TRANSACTIONAL_BIT,
        )
    )


def see(aborted: AbortedTransactions, batch: bytes) -> None:
    aborted.see_marker(read_header(batch), memoryview(batch))


def test_batches_are_hidden_from_the_first_offset_to_the_abort_marker() -> None:
    aborted = AbortedTransactions([(5, PRODUCER)])
    assert [hidden(aborted, offset) for offset in (4, 5, 6)] == [False, True, True]
    see(aborted, marker(7, committed=False))
    assert not hidden(aborted, 8)


def test_a_fetch_that_begins_at_the_abort_marker_hides_nothing_behind_it() -> None:
    """The transaction overlaps with the fetch by its marker alone."""
    aborted = AbortedTransactions([(5, PRODUCER)])
    see(aborted, marker(7, committed=False))
    assert not hidden(aborted, 8)


def test_a_second_aborted_transaction_of_the_producer_is_hidden_too() -> None:
    aborted = AbortedTransactions([(5, PRODUCER), (9, PRODUCER)])
    see(aborted, marker(7, committed=False))
    assert [hidden(aborted, offset) for offset in (8, 9, 10)] == [False, True, True]
