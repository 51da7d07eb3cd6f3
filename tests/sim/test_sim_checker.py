"""The checker finds each anomaly in a history that has it, and invents none."""

import random
from collections.abc import Callable

import pytest

from ottla.client.values import TopicPartition as Partition
from ottla.sim.checker import History, Kind, Outcome, Sending, Transaction, anomalies

P = Partition("t", 0)


def sent(history: History, *values: str, offset: int | None = 0, **more: object) -> list[Sending]:
    """Records of producer `p`, acknowledged from this offset on; None: outcome unknown."""
    made = []
    for number, value in enumerate(values):
        one = history.sending(Sending(value, "p", P, **more))  # type: ignore[arg-type]
        if offset is not None:
            one.acknowledged(offset + number)
        made.append(one)
    return made


def kinds(history: History) -> set[Kind]:
    return {anomaly.kind for anomaly in anomalies(history)}


def ended(*values: str) -> list[tuple[int, str]]:
    return list(enumerate(values))


def test_an_honest_history_has_no_anomaly() -> None:
    history = History()
    sent(history, "a", "b", "c")
    reader = history.reader("r")
    for offset, value in enumerate("abc"):
        reader.read(P, offset, value, 1.0)
    history.end(P, ended("a", "b", "c"))
    history.group_ends["g", P] = (3, 3)
    assert anomalies(history) == []


def lost_write(history: History) -> None:
    sent(history, "a", "b")
    history.end(P, ended("a"))


def lost_read(history: History) -> None:
    sent(history, "a", "b", offset=None)
    history.reader("r").read(P, 1, "b", 1.0)
    history.end(P, ended("a"))


def deleted_too_much(history: History) -> None:
    sent(history, "a", "b", "c")
    history.deleting(P, 1)
    history.end(P, [(2, "c")], start=2)


def duplicate(history: History) -> None:
    sent(history, "a", "b")
    history.end(P, ended("a", "b", "a"))


def phantom(history: History) -> None:
    sent(history, "a")
    history.end(P, ended("a", "x"))


def wrong_partition(history: History) -> None:
    sent(history, "a")
    history.reader("r").read(Partition("t", 1), 0, "a", 1.0)
    history.end(P, ended("a"))


def two_acknowledged_at_one_offset(history: History) -> None:
    sent(history, "a")
    sent(history, "b")
    history.end(P, ended("a", "b"))


def read_elsewhere(history: History) -> None:
    sent(history, "a", "b", offset=None)
    history.reader("r").read(P, 0, "b", 1.0)
    history.end(P, ended("a", "b"))


def aborted(history: History) -> None:
    transaction = Transaction("p", end_asked_s=None, outcome=Outcome.ABORTED)
    sent(history, "a", transaction=transaction)
    transaction.end_asked_s = 1.0
    history.reader("r", committed=True).read(P, 0, "a", 2.0)
    history.end(P, ended("a"), [])


def precommitted(history: History) -> None:
    sent(history, "a", transaction=Transaction("p", 2.0, Outcome.OK))
    history.reader("r", committed=True).read(P, 0, "a", 1.0)
    history.end(P, ended("a"))


def committed_and_hidden(history: History) -> None:
    sent(history, "a", "b", transaction=Transaction("p", 1.0, Outcome.OK))
    history.end(P, ended("a", "b"), [(0, "a")])


def half_visible(history: History) -> None:
    sent(history, "a", "b", transaction=Transaction("p", 1.0, Outcome.UNKNOWN))
    history.end(P, ended("a", "b"), [(0, "a")])


def goes_back(history: History) -> None:
    sent(history, "a", "b")
    reader = history.reader("r")
    reader.read(P, 1, "b", 1.0)
    reader.read(P, 0, "a", 1.0)
    history.end(P, ended("a", "b"))


def reads_twice(history: History) -> None:
    sent(history, "a")
    reader = history.reader("r")
    reader.read(P, 0, "a", 1.0)
    reader.read(P, 0, "a", 1.0)
    history.end(P, ended("a"))


def skips(history: History) -> None:
    sent(history, "a", "b", "c")
    reader = history.reader("r")
    reader.read(P, 0, "a", 1.0)
    reader.read(P, 2, "c", 1.0)
    history.end(P, ended("a", "b", "c"))


def swapped(history: History) -> None:
    sent(history, "a", "b", offset=None)
    history.end(P, ended("b", "a"))


def thrown_between(history: History) -> None:
    sent(history, "a", "b", "c", offset=None)
    history.end(P, ended("a", "c", "b"))


def passed_over_by_group(history: History) -> None:
    sent(history, "a", "b")
    history.reader("r", group="g").read(P, 1, "b", 1.0)
    history.group_ends["g", P] = (0, 2)
    history.end(P, ended("a", "b"))


def passed_over_by_group_behind_a_deletion(history: History) -> None:
    sent(history, "a", "b", "c")
    history.deleting(P, 1)
    history.reader("r", group="g").read(P, 2, "c", 1.0)
    history.group_ends["g", P] = (0, 3)
    history.end(P, ended("a", "b", "c"))


def skips_behind_a_deletion(history: History) -> None:
    history.deleting(P, 1)
    skips(history)


def copied(*values: str) -> Callable[[History], None]:
    def write(history: History) -> None:
        sent(history, "a", "b")
        history.copies["t"] = "u"
        history.end(P, ended("a", "b"))
        history.end(Partition("u", 0), ended(*values))

    return write


@pytest.mark.parametrize(
    ("write", "kind"),
    [
        (lost_write, Kind.LOST_WRITE),
        (lost_read, Kind.LOST_WRITE),
        (deleted_too_much, Kind.LOST_WRITE),
        (duplicate, Kind.DUPLICATE),
        (phantom, Kind.PHANTOM),
        (wrong_partition, Kind.PHANTOM),
        (two_acknowledged_at_one_offset, Kind.INCONSISTENT_OFFSETS),
        (read_elsewhere, Kind.INCONSISTENT_OFFSETS),
        (aborted, Kind.ABORTED_READ),
        (precommitted, Kind.PRECOMMITTED_READ),
        (committed_and_hidden, Kind.TORN_TRANSACTION),
        (half_visible, Kind.TORN_TRANSACTION),
        (goes_back, Kind.NONMONOTONIC_POLL),
        (reads_twice, Kind.NONMONOTONIC_POLL),
        (skips, Kind.SKIPPING_POLL),
        (swapped, Kind.NONMONOTONIC_SEND),
        (thrown_between, Kind.SKIPPING_SEND),
        (skips_behind_a_deletion, Kind.SKIPPING_POLL),
        (passed_over_by_group, Kind.UNREAD_BY_GROUP),
        (passed_over_by_group_behind_a_deletion, Kind.UNREAD_BY_GROUP),
        (copied("a"), Kind.BAD_COPY),
        (copied("a", "b", "a"), Kind.BAD_COPY),
        (copied("b", "a"), Kind.BAD_COPY),
    ],
)
def test_each_anomaly_is_found(write: Callable[[History], None], kind: Kind) -> None:
    history = History()
    write(history)
    assert kind in kinds(history)


def unacknowledged_and_missing(history: History) -> None:
    sent(history, "a", "b", offset=None)
    history.end(P, ended("b"))


def lost_with_acks_of_the_leader(history: History) -> None:
    sent(history, "a", "b", durable=False)
    history.end(P, ended("b"))


def sent_again_without_idempotence(history: History) -> None:
    sent(history, "a", "b", offset=None, once=False)
    history.end(P, ended("a", "b", "a"))


def sent_again_in_a_new_epoch_behind_one_that_was_given_up(history: History) -> None:
    sent(history, "given up", offset=None)
    sent(history, "a", offset=2)
    history.end(P, ended("given up", "a", "a"))


def deleted_below_the_log_start(history: History) -> None:
    sent(history, "a", "b")
    history.reader("r").read(P, 0, "a", 1.0)
    history.deleting(P, 1)
    history.end(P, [(1, "b")], start=1)


def sent_again_and_the_first_one_deleted(history: History) -> None:
    sent(history, "a", "b", offset=2, once=False)
    history.sendings[0].offset, history.sendings[1].offset = 2, 1
    history.deleting(P, 1)
    history.end(P, [(1, "b"), (2, "a")], start=1)


def a_group_began_at_a_start_that_a_crash_took_back(history: History) -> None:
    sent(history, "a", "b", "c")
    history.deleting(P, 2)
    history.reader("r", group="g").read(P, 2, "c", 1.0)
    history.group_ends["g", P] = (0, 3)
    history.end(P, ended("a", "b", "c"))


def a_reader_was_reset_to_a_start_that_a_crash_took_back(history: History) -> None:
    history.deleting(P, 2)
    skips(history)


def unknown_and_all_visible(history: History) -> None:
    sent(history, "a", "b", transaction=Transaction("p", 1.0, Outcome.UNKNOWN))
    history.end(P, ended("a", "b"))


def unknown_and_nothing_visible(history: History) -> None:
    sent(history, "a", "b", transaction=Transaction("p", 1.0, Outcome.UNKNOWN))
    history.end(P, ended("a", "b"), [])


def aborted_seen_by_readers_of_everything(history: History) -> None:
    transaction = Transaction("p", outcome=Outcome.ABORTED)
    sent(history, "a", transaction=transaction)
    history.reader("r").read(P, 0, "a", 1.0)
    history.end(P, ended("a"), [])


def markers_and_aborted_records_are_passed(history: History) -> None:
    sent(history, "a", offset=0)
    sent(history, "b", offset=1, transaction=Transaction("p", outcome=Outcome.ABORTED))
    sent(history, "c", offset=3)
    reader = history.reader("r", committed=True)
    reader.read(P, 0, "a", 1.0)
    reader.read(P, 3, "c", 1.0)
    history.end(P, [(0, "a"), (1, "b"), (3, "c")], [(0, "a"), (3, "c")])


def two_readers_each_from_the_start(history: History) -> None:
    sent(history, "a")
    history.reader("r").read(P, 0, "a", 1.0)
    history.reader("r").read(P, 0, "a", 2.0)
    history.end(P, ended("a"))


def records_of_others_between(history: History) -> None:
    sent(history, "a", offset=0)
    sent(history, "b", offset=2)
    history.sending(Sending("x", "q", P)).acknowledged(1)
    history.end(P, ended("a", "x", "b"))


@pytest.mark.parametrize(
    "write",
    [
        unacknowledged_and_missing,
        lost_with_acks_of_the_leader,
        sent_again_without_idempotence,
        sent_again_in_a_new_epoch_behind_one_that_was_given_up,
        deleted_below_the_log_start,
        sent_again_and_the_first_one_deleted,
        a_group_began_at_a_start_that_a_crash_took_back,
        a_reader_was_reset_to_a_start_that_a_crash_took_back,
        unknown_and_all_visible,
        unknown_and_nothing_visible,
        aborted_seen_by_readers_of_everything,
        markers_and_aborted_records_are_passed,
        two_readers_each_from_the_start,
        records_of_others_between,
        copied("a", "b"),
    ],
)
def test_what_is_allowed_is_no_anomaly(write: Callable[[History], None]) -> None:
    history = History()
    write(history)
    assert anomalies(history) == []


@pytest.mark.parametrize("seed", range(20))
def test_no_anomaly_is_invented_in_what_a_perfect_log_gives(seed: int) -> None:
    """Many producers and readers on one true log, answers lost at random."""
    chance = random.Random(seed)
    history, log, visible = History(), list[tuple[int, str]](), list[tuple[int, str]]()
    offset = 0
    for number in range(200):
        producer = f"p{chance.randrange(3)}"
        transaction = history.begin(producer) if chance.random() < 0.3 else None
        batch = [f"{number}.{k}" for k in range(chance.randint(1, 3))]
        commits = chance.random() < 0.6
        for value in batch:
            one = history.sending(Sending(value, producer, P, transaction=transaction))
            if transaction is None and chance.random() < 0.1:
                continue  # lost on its way, and not acknowledged
            log.append((offset, value))
            if transaction is None or commits:
                visible.append((offset, value))
            if transaction is not None or chance.random() < 0.8:
                one.acknowledged(offset)
            offset += 1
        if transaction is not None:
            transaction.end_asked_s = float(number) if commits else None
            if chance.random() < 0.8:
                transaction.outcome = Outcome.OK if commits else Outcome.ABORTED
            offset += 1
    for name in range(5):
        committed = chance.random() < 0.5
        reader = history.reader(f"r{name}", committed=committed)
        records = visible if committed else log
        begin = chance.randrange(len(records))
        for place, value in records[begin : chance.randint(begin, len(records))]:
            reader.read(P, place, value, 1e6)
    history.end(P, log, visible, end=offset)
    assert anomalies(history) == []
