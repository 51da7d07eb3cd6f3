"""What compacted topics promise, and replicas that are compacted each by itself."""

from ottla.client.values import TopicPartition as Partition
from ottla.sim.checker import (
    History,
    Kind,
    Outcome,
    Sending,
    Transaction,
    compacted_count,
    table_anomalies,
)

P = Partition("table", 0)


def sent(
    history: History,
    name: str,
    key: str,
    offset: int | None,
    transaction: Transaction | None = None,
) -> None:
    one = history.sending(Sending(name, "p", P, transaction=transaction, key=key))
    if offset is not None:
        one.acknowledged(offset)


def kinds(history: History) -> list[Kind]:
    return [anomaly.kind for anomaly in table_anomalies(history)]


def test_the_last_record_of_each_key_is_enough() -> None:
    history = History()
    sent(history, "a", "k", 0)
    sent(history, "b", "k", 1)
    sent(history, "c", "l", 2)
    history.end(P, [(1, "b"), (2, "c")])
    assert kinds(history) == []
    assert compacted_count(history) == 1


def test_a_key_that_is_gone_is_lost() -> None:
    history = History()
    sent(history, "a", "k", 0)
    sent(history, "b", "l", 1)
    history.end(P, [(1, "b")])
    assert kinds(history) == [Kind.LOST_KEY]


def test_an_older_record_does_not_make_up_for_the_last() -> None:
    history = History()
    sent(history, "a", "k", 0)
    sent(history, "b", "k", 1)
    history.end(P, [(0, "a")], end=2)
    assert kinds(history) == [Kind.LOST_KEY]


def test_one_that_nobody_acknowledged_may_have_taken_the_place_of_the_last() -> None:
    history = History()
    sent(history, "a", "k", 0)
    sent(history, "b", "k", None)
    history.end(P, [(1, "b")])
    assert kinds(history) == []


def test_an_aborted_record_takes_the_place_of_none() -> None:
    history = History()
    sent(history, "a", "k", 0)
    sent(history, "b", "k", 1, Transaction("p", 1.0, Outcome.ABORTED))
    history.end(P, [(1, "b")], [])
    assert kinds(history) == [Kind.LOST_KEY]


def test_an_aborted_record_may_go() -> None:
    history = History()
    sent(history, "a", "k", 0)
    sent(history, "b", "k", 1, Transaction("p", 1.0, Outcome.ABORTED))
    history.end(P, [(0, "a")], end=3)
    assert kinds(history) == []


def test_what_a_reader_of_committed_records_saw_is_not_lost_either() -> None:
    history = History()
    sent(history, "a", "k", None)
    history.reader("r", committed=True).read(P, 0, "a", 1.0)
    history.end(P, [], end=1)
    assert kinds(history) == [Kind.LOST_KEY]


def test_a_reader_may_be_given_what_was_compacted_since() -> None:
    history = History()
    sent(history, "a", "k", 0)
    sent(history, "b", "k", 1)
    reader = history.reader("r")
    reader.read(P, 0, "a", 1.0)
    reader.read(P, 1, "b", 1.0)
    history.end(P, [(1, "b")])
    assert kinds(history) == []


def kinds_where_a_reader_passes_over_the_second_of(keys: str) -> list[Kind]:
    history = History()
    for offset, (name, key) in enumerate(zip("abc", keys, strict=True)):
        sent(history, name, key, offset)
    reader = history.reader("r")
    reader.read(P, 0, "a", 1.0)
    reader.read(P, 2, "c", 1.0)
    history.end(P, [(0, "a"), (1, "b"), (2, "c")])
    return kinds(history)


def test_a_reader_may_not_pass_over_what_is_left() -> None:
    assert kinds_where_a_reader_passes_over_the_second_of("klm") == [Kind.SKIPPING_POLL]


def test_a_reader_may_pass_over_what_its_replica_has_given_up_and_another_has_not() -> None:
    assert kinds_where_a_reader_passes_over_the_second_of("kll") == []
