"""The states of a transactional producer, apart from everything that does work."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.errors import (
    ProducerFenced,
    TransactionFailed,
    TransactionFatal,
    TransactionStateError,
)
from ottla.client.producer.transactions import state as transaction_state
from ottla.client.producer.transactions.state import (
    TRANSITIONS,
    State,
    TransactionMachine,
    Trigger,
)
from ottla.client.producer.transactions.verdicts import fatal_error
from ottla.protocol.errors import ErrorCode, KafkaError

FAILED = TransactionFailed("tx", KafkaError(ErrorCode.MESSAGE_TOO_LARGE))
FATAL = TransactionFatal("tx", "gone")

TO_STATE = {
    State.UNINITIALIZED: [],
    State.INITIALIZING: [Trigger.INIT],
    State.READY: [Trigger.INIT, Trigger.INITIALIZED],
    State.IN_TRANSACTION: [Trigger.INIT, Trigger.INITIALIZED, Trigger.BEGIN],
    State.COMMITTING: [Trigger.INIT, Trigger.INITIALIZED, Trigger.BEGIN, Trigger.COMMIT],
    State.ABORTING: [Trigger.INIT, Trigger.INITIALIZED, Trigger.BEGIN, Trigger.ABORT],
    State.PREPARED: [Trigger.INIT, Trigger.INITIALIZED, Trigger.BEGIN, Trigger.PREPARE],
    State.ABORTABLE_ERROR: [Trigger.INIT, Trigger.INITIALIZED, Trigger.BEGIN, Trigger.ABORTABLE],
    State.FATAL_ERROR: [Trigger.FATAL],
}


def take(machine: TransactionMachine, trigger: Trigger) -> None:
    if trigger is Trigger.ABORTABLE:
        machine.fail(FAILED)
    elif trigger is Trigger.FATAL:
        machine.fail(FATAL)
    else:
        machine.step(trigger)


def machine_in(state: State) -> TransactionMachine:
    machine = TransactionMachine()
    for trigger in TO_STATE[state]:
        take(machine, trigger)
    assert machine.state is state
    return machine


@given(st.lists(st.sampled_from(Trigger), max_size=40))
def test_whatever_is_called_the_machine_follows_the_table_or_stays_where_it_is(
    triggers: list[Trigger],
) -> None:
    machine = TransactionMachine()
    for trigger in triggers:
        before, error_before = machine.state, machine.error
        if trigger in TRANSITIONS[before]:
            take(machine, trigger)
            assert machine.state is TRANSITIONS[before][trigger]
        else:
            with pytest.raises((TransactionStateError, TransactionFailed, TransactionFatal)):
                take(machine, trigger)
            assert (machine.state, machine.error) == (before, error_before)
        assert (machine.error is not None) == machine.has_failed


@given(st.lists(st.sampled_from(Trigger), max_size=40))
def test_there_is_no_way_back_from_a_fatal_error(triggers: list[Trigger]) -> None:
    machine = machine_in(State.FATAL_ERROR)
    for trigger in triggers:
        if trigger is Trigger.FATAL:
            machine.fail(ProducerFenced("tx", "again"))
        else:
            with pytest.raises(TransactionFatal, match="gone"):
                take(machine, trigger)
    assert machine.state is State.FATAL_ERROR
    assert machine.error is FATAL


@given(st.lists(st.sampled_from(Trigger), max_size=40))
def test_a_transaction_with_a_lost_record_is_never_committed(triggers: list[Trigger]) -> None:
    machine = machine_in(State.ABORTABLE_ERROR)
    for trigger in triggers:
        if trigger in TRANSITIONS[machine.state]:
            take(machine, trigger)
        if machine.state is State.READY:
            return  # it was aborted
        assert machine.state is not State.COMMITTING


def test_the_table_at_the_top_of_the_file_is_the_table_in_use() -> None:
    rows = re.findall(
        r"^    (\w+) +([A-Z_]+) +([A-Z_]+)( |$)", transaction_state.__doc__ or "", re.M
    )
    drawn = {(state, trigger): after for state, trigger, after, _ in rows if state != "any"}
    in_use = {
        (state.name, trigger.name): after.name
        for state, steps in TRANSITIONS.items()
        for trigger, after in steps.items()
        if trigger is not Trigger.FATAL
    }
    assert drawn == in_use


@pytest.mark.parametrize(
    ("state", "trigger", "advice"),
    [
        (State.UNINITIALIZED, Trigger.BEGIN, "call init_transactions() first"),
        (State.UNINITIALIZED, Trigger.SEND, "call init_transactions() first"),
        (State.INITIALIZING, Trigger.BEGIN, "wait for it, or call it again"),
        (State.READY, Trigger.SEND, "call begin_transaction() first"),
        (State.READY, Trigger.COMMIT, "call begin_transaction() first"),
        (State.READY, Trigger.INIT, "it is called once, and has been"),
        (State.IN_TRANSACTION, Trigger.BEGIN, "commit_transaction() or abort_transaction()"),
        (State.COMMITTING, Trigger.ABORT, "commit_transaction() was interrupted"),
        (State.COMMITTING, Trigger.SEND, "call it again"),
        (State.ABORTING, Trigger.COMMIT, "abort_transaction() was interrupted"),
        (State.PREPARED, Trigger.SEND, "it can only be committed or aborted"),
    ],
)
def test_a_call_at_the_wrong_moment_is_told_what_to_do(
    state: State, trigger: Trigger, advice: str
) -> None:
    with pytest.raises(TransactionStateError, match=re.escape(advice)) as refused:
        machine_in(state).step(trigger)
    assert str(refused.value).startswith(trigger.value)


def test_the_first_error_of_a_transaction_is_the_one_that_is_told() -> None:
    machine = machine_in(State.IN_TRANSACTION)
    machine.fail(FAILED)
    machine.fail(TransactionFailed("tx", KafkaError(ErrorCode.REQUEST_TIMED_OUT)))
    with pytest.raises(TransactionFailed, match=r"MESSAGE_TOO_LARGE.*abort_transaction"):
        machine.step(Trigger.COMMIT)
    machine.step(Trigger.ABORT)
    machine.step(Trigger.ENDED)
    assert machine.error is None


def test_a_slow_producer_is_told_of_its_slowness_and_a_quick_one_of_its_successor() -> None:
    fenced = KafkaError(ErrorCode.PRODUCER_FENCED)
    assert "another producer" in str(fatal_error("tx", fenced, 10, 60_000))
    assert "transaction_timeout_ms (60000)" in str(fatal_error("tx", fenced, 60_001, 60_000))
    assert "another producer" in str(fatal_error("tx", fenced, 60_001, None))
    assert isinstance(fatal_error("tx", fenced, 10, 60_000), ProducerFenced)
    lost = KafkaError(ErrorCode.INVALID_TXN_STATE)
    assert not isinstance(fatal_error("tx", lost, 10, 60_000), ProducerFenced)
