"""The sink's commits against a real broker, without Spark: what is there after each crash."""

from __future__ import annotations

import time

import pytest
from sink_tools import FIRST, SECOND, THIRD, Sink, expected, open_ids

from broker_harness import MakeBroker
from ottla.blocking import Admin
from ottla.client.admin.configs import ConfigResource, ResourceType
from ottla.client.values import TopicPartition
from ottla.network.versions import Versions
from ottla.spark.sink import committing
from ottla.spark.sink.decisions import NOTHING, decided, gave_up
from ottla.spark.sink.errors import (
    DecisionUnreadable,
    LostTransactions,
    RowsMissing,
    SinkError,
    TransactionsGone,
)
from ottla.spark.sink.ledger import BrokerLedger
from ottla.spark.sink.names import TaskId, driver_id, group_id
from ottla.spark.sink.task_writer import TaskMessage


@pytest.fixture(autouse=True, params=[1, 2], ids=["protocol 1", "protocol 2"])
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of transactions: with 1, as if the cluster had not agreed on `transaction.version` 2."""
    if request.param == 1:
        monkeypatch.setattr(Versions, "feature", lambda _self, _name: 0)


def decide_only(sink: Sink, version: int, messages: list[TaskMessage], run: str = FIRST) -> None:
    """A driver that dies when the decision is recorded."""
    write = sink.write(version, messages, run)

    async def work(ledger: BrokerLedger) -> None:
        await ledger.fence()
        await ledger.record(decided(await ledger.newest(), write, write.parts))

    sink.drive(work)


def tasks(sink: Sink, version: int, run: str = FIRST, count: int = 2) -> list[TaskMessage]:
    return [sink.task(version, task, run) for task in range(count)]


def test_rows_are_seen_when_their_batch_is_committed(bootstrap: str, topic: str) -> None:
    sink = Sink(bootstrap, topic)
    first = tasks(sink, 0)
    assert sink.values() == []
    sink.commit(0, first)
    assert sink.values() == expected(0)
    for version in (1, 2, 3):
        sink.batch(version)
    assert sink.values() == expected(0, 1, 2, 3)
    assert sink.open_ids() == []


def test_the_ids_of_transactions_are_few(bootstrap: str, topic: str) -> None:
    sink = Sink(bootstrap, topic)
    for version in range(6):
        sink.batch(version)
    with Admin(bootstrap_servers=bootstrap) as admin:
        names = {
            one.transactional_id
            for one in admin.list_transactions()
            if sink.app in one.transactional_id
        }
    own = {str(TaskId(sink.app, FIRST, slot, task, 0)) for slot in (0, 1) for task in (0, 1)}
    assert names == own | {driver_id(sink.app)}


def test_a_task_without_rows_opens_no_transaction(bootstrap: str, topic: str) -> None:
    sink = Sink(bootstrap, topic)
    empty = sink.task(0, rows=0)
    assert empty.parts == ()
    assert sink.open_ids() == []
    sink.commit(0, [empty, sink.task(0, 1)])
    sink.commit(1, [sink.task(1, rows=0)])
    assert sink.values() == ["0/1/0", "0/1/1"]


def test_a_decision_is_finished_by_the_next_run(bootstrap: str, topic: str) -> None:
    sink = Sink(bootstrap, topic)
    sink.batch(0)
    decide_only(sink, 1, tasks(sink, 1))
    assert sink.values() == expected(0)
    sink.batch(1, run=SECOND)
    assert sink.values() == expected(0, 1)
    assert sink.open_ids() == []


def test_a_batch_that_is_done_is_not_written_again(bootstrap: str, topic: str) -> None:
    sink = Sink(bootstrap, topic)
    sink.batch(0)
    again = tasks(sink, 0, SECOND)
    assert all(one.left_out for one in again)
    sink.commit(0, again, SECOND)
    sink.batch(1, run=SECOND)
    assert sink.values() == expected(0, 1)


def test_a_commit_that_failed_is_seen_through_by_abort_if_it_was_decided(
    bootstrap: str, topic: str
) -> None:
    sink = Sink(bootstrap, topic)
    messages = tasks(sink, 0)
    decide_only(sink, 0, messages)
    sink.abort(0, messages)
    assert sink.values() == expected(0)
    assert sink.open_ids() == []


def test_abort_leaves_nothing_of_a_batch_open_whoever_has_told_of_it(
    bootstrap: str, topic: str
) -> None:
    sink = Sink(bootstrap, topic)
    sink.batch(0)
    heard, _unheard = tasks(sink, 1)
    sink.abort(1, [heard])
    assert sink.open_ids() == []
    sink.task(1, run=SECOND)
    sink.abort(1, [])
    assert sink.open_ids() == []
    sink.batch(1, run=THIRD)
    assert sink.values() == expected(0, 1)


def test_who_was_given_up_by_another_driver_does_not_decide(bootstrap: str, topic: str) -> None:
    """The other one may be about to abort what this one would decide on."""
    sink = Sink(bootstrap, topic)
    sink.batch(0)
    mine = tasks(sink, 1, SECOND)

    async def give_up_and_sleep(ledger: BrokerLedger) -> None:
        await ledger.fence()
        await ledger.listed(())
        await ledger.note(gave_up(await ledger.newest(), 1))

    sink.drive(give_up_and_sleep)
    with pytest.raises(TransactionsGone):
        sink.commit(1, mine, SECOND)
    sink.abort(1, mine, SECOND)
    assert sink.open_ids() == []
    sink.batch(1, run=THIRD)
    assert sink.values() == expected(0, 1)


def test_what_stragglers_left_open_is_put_away_but_not_what_comes_next(
    bootstrap: str, topic: str
) -> None:
    sink = Sink(bootstrap, topic)
    sink.batch(0)
    good = tasks(sink, 1)
    sink.task(1, attempt=1)
    sink.task(1, run=SECOND)
    following = sink.task(2, run=THIRD)
    sink.commit(1, good)
    assert sink.open_ids() == [sink.place(2, run=THIRD).transactional_id]
    sink.commit(2, [following, sink.task(2, 1, THIRD)], THIRD)
    assert sink.values() == expected(0, 1, 2)
    assert sink.open_ids() == []


def test_a_driver_that_was_overtaken_cannot_decide(bootstrap: str, topic: str) -> None:
    sink = Sink(bootstrap, topic)
    write = sink.write(0, tasks(sink, 0))

    async def zombie(ledger: BrokerLedger) -> None:
        await ledger.fence()
        head = await ledger.newest()
        assert head == NOTHING
        other = BrokerLedger(ledger._cluster, sink.options, sink.app)
        await committing.commit(other, sink.write(0, theirs, SECOND), "fail")
        await other.close()
        await ledger.record(decided(head, write, write.parts))

    theirs = tasks(sink, 0, SECOND)
    with pytest.raises(Exception, match="another producer"):
        sink.drive(zombie)
    sink.abort(0, [], FIRST)
    assert sink.values() == expected(0)
    assert sink.open_ids() == []


def test_a_late_driver_leaves_a_later_batch_alone(bootstrap: str, topic: str) -> None:
    sink = Sink(bootstrap, topic)
    late = tasks(sink, 0)
    for version in (0, 1):
        sink.batch(version, run=SECOND)
    decide_only(sink, 2, tasks(sink, 2, SECOND), SECOND)
    sink.commit(0, late)
    assert len(sink.open_ids()) == 2
    sink.batch(2, run=THIRD)
    assert sink.values() == expected(0, 1, 2)
    assert sink.open_ids() == []


def test_tasks_that_left_out_their_rows_cannot_be_decided_on(bootstrap: str, topic: str) -> None:
    sink = Sink(bootstrap, topic)
    with pytest.raises(RowsMissing):
        sink.commit(0, [TaskMessage(sink.place(0), left_out=True)])


# What becomes of decisions


def test_a_decision_is_found_when_the_offset_of_the_group_has_expired(
    bootstrap: str, topic: str
) -> None:
    sink = Sink(bootstrap, topic)
    sink.batch(0)
    decide_only(sink, 1, tasks(sink, 1))
    place = TopicPartition(sink.decisions, 0)
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert admin.list_group_offsets(group_id(sink.app))[place].offset > 0
        assert admin.delete_group_offsets(group_id(sink.app), [place]) == {place: None}
    sink.batch(1, run=SECOND)
    assert sink.values() == expected(0, 1)


def test_a_decision_that_is_deleted_is_told_and_not_guessed(bootstrap: str, topic: str) -> None:
    sink = Sink(bootstrap, topic)
    sink.batch(0)
    decide_only(sink, 1, tasks(sink, 1))
    with Admin(bootstrap_servers=bootstrap) as admin:
        resource = ConfigResource(ResourceType.TOPIC, sink.decisions)
        admin.alter_config(resource, {"cleanup.policy": "delete"})
        admin.delete_records({TopicPartition(sink.decisions, 0): -1})
    again = tasks(sink, 1, SECOND)
    with pytest.raises(DecisionUnreadable, match="lostTransactions"):
        sink.commit(1, again, SECOND)
    skipping = Sink(bootstrap, topic, lostTransactions="skip")
    skipping.commit(1, again, SECOND)
    skipping.batch(2, run=SECOND)
    assert sink.values() == expected(0, 2)


def test_the_topic_of_decisions_may_be_deleted_between_batches(bootstrap: str, topic: str) -> None:
    sink = Sink(bootstrap, topic)
    sink.batch(0)
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_topic(sink.decisions)
        while sink.decisions in admin.list_topics():
            time.sleep(0.05)
    sink.batch(1)
    assert sink.values() == expected(0, 1)


# Transactions that time out

TIMING_OUT = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}


def await_none_open(bootstrap: str) -> None:
    deadline = time.monotonic() + 30
    while open_ids(bootstrap):
        assert time.monotonic() < deadline, "nothing times out"
        time.sleep(0.1)


def abort_behind_its_back(sink: Sink, messages: list[TaskMessage]) -> None:
    sink.drive(lambda ledger: ledger.abort(part for one in messages for part in one.parts))


def test_transactions_live_as_long_as_brokers_allow(fresh_broker: MakeBroker) -> None:
    bootstrap = fresh_broker({"transaction.max.timeout.ms": "60000", **TIMING_OUT}).address
    sink = Sink(bootstrap, "out")
    sink.batch(0)
    assert sink.values() == expected(0)
    with pytest.raises(Exception, match="timeout is above the limit"):
        Sink(bootstrap, "out", **{"kafka.transaction.timeout.ms": "70000"}).batch(1)
    # Decided, and then nobody came to commit it in time.
    hasty = Sink(bootstrap, "out", **{"kafka.transaction.timeout.ms": "1000"})
    decide_only(sink, 1, tasks(hasty, 1))
    await_none_open(bootstrap)
    sink.batch(1, run=SECOND)
    assert sink.values() == expected(0, 1)


def test_what_is_gone_before_it_is_decided_is_not_decided(bootstrap: str, topic: str) -> None:
    sink = Sink(bootstrap, topic)
    messages = tasks(sink, 0)
    abort_behind_its_back(sink, messages[:1])
    with pytest.raises(TransactionsGone, match=r"kafka\.transaction\.timeout\.ms"):
        sink.commit(0, messages)
    sink.abort(0, messages)
    assert sink.open_ids() == []
    sink.batch(0, run=SECOND)
    assert sink.values() == expected(0)


def test_what_was_lost_in_part_is_told_and_written_again_on_request(
    bootstrap: str, topic: str
) -> None:
    sink = Sink(bootstrap, topic)
    half = tasks(sink, 0)
    decide_only(sink, 0, half)
    sink.drive(lambda ledger: ledger.commit(half[0].parts))
    abort_behind_its_back(sink, half[1:])
    again = tasks(sink, 0, SECOND)
    with pytest.raises(LostTransactions, match="1 aborted, 1 committed"):
        sink.commit(0, again, SECOND)
    Sink(bootstrap, topic, lostTransactions="rewrite").commit(0, again, SECOND)
    assert sink.values() == expected(0)
    assert sink.open_ids() == []


# Errors


def test_a_topic_that_is_missing_is_named_and_nothing_is_left_open(
    fresh_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.spark.sink.rows.TOPIC_WAIT_S", 0.5)
    bootstrap = fresh_broker({"auto.create.topics.enable": "false"}).address
    sink = Sink(bootstrap, "nowhere")
    with pytest.raises(SinkError, match="there is no topic 'nowhere': create it"):
        sink.task(0)
    assert open_ids(bootstrap) == []
