"""The transaction machine, one behaviour at a time."""

from __future__ import annotations

from typing import Any

import pytest
from transaction_stage import Stage

from ottla.broker.coordinator.transactions.initializing import check_request
from ottla.broker.coordinator.transactions.listing import list_transactions
from ottla.broker.coordinator.transactions.settings import TransactionSettings
from ottla.broker.coordinator.transactions.states import (
    BY_TITLE,
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    TransactionState,
)
from ottla.broker.coordinator.transactions.transaction import EPOCH_LAST, NOBODY, Identity
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ottla.runtime.pace import at_once

A, B = ("orders", 0), ("orders", 1)
TWO_PHASE = TransactionSettings(two_phase_commit=True)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def set_epoch(stage: Stage, name: str, epoch: int) -> Identity:
    found = stage.shard.transactions[name]._replace(producer_epoch=epoch)
    stage.run(lambda shard, now, outbox: shard._write(found, outbox))
    return found.identity


# --- InitProducerId -----------------------------------------------------------------------------


def test_a_new_id_gets_a_producer_id_and_epoch_0(stage: Stage) -> None:
    assert stage.begin("t") == (1_001, 0)
    assert stage.state("t") is EMPTY


def test_each_new_instance_gets_the_next_epoch(stage: Stage) -> None:
    stage.begin("t")
    assert stage.begin("t") == (1_001, 1)


def test_a_new_instance_gets_a_new_id_when_epochs_are_used_up(stage: Stage) -> None:
    stage.begin("t")
    set_epoch(stage, "t", EPOCH_LAST)
    assert stage.begin("t") == (1_002, 0)


def test_a_producer_that_names_itself_gets_the_next_epoch_and_may_ask_again(stage: Stage) -> None:
    old = stage.begin("t")
    for _ in range(2):
        response = stage.init("t", old)
        assert (response.producer_id, response.producer_epoch) == (1_001, 1)


def test_a_fenced_producer_cannot_come_back(stage: Stage) -> None:
    old = stage.begin("t")
    stage.begin("t")
    assert stage.init("t", old).error_code == ErrorCode.PRODUCER_FENCED
    assert stage.init("t", Identity(7, 0)).error_code == ErrorCode.PRODUCER_FENCED


def test_a_refusal_that_ends_a_producer_waits_until_its_coordinator_is_known_to_lead(
    stage: Stage,
) -> None:
    """Answers wait for what their step wrote, and a replaced coordinator commits nothing."""
    client = stage.begin("t")
    written = len(stage.log)
    assert stage.end("t", client)[0] is ErrorCode.INVALID_TXN_STATE
    stage.add("t", Identity(client.producer_id, client.producer_epoch + 1), A)
    stage.init("t", Identity(7, 0))
    assert len(stage.log) == written + 3
    assert {value for _, value in stage.log[written:]} == {stage.log[written - 1][1]}


def test_a_refusal_that_a_producer_repeats_writes_nothing(stage: Stage) -> None:
    client = stage.begin("t")
    stage.add("t", client, A)
    stage.end("t", client, commit=True)
    written = len(stage.log)
    assert stage.end("t", client)[0] is ErrorCode.CONCURRENT_TRANSACTIONS
    assert len(stage.log) == written


def test_a_fenced_producer_does_not_abort_the_transaction_of_the_present_one(stage: Stage) -> None:
    old = stage.begin("t")
    new = stage.begin("t")
    stage.add("t", new, A)
    assert stage.init("t", old).error_code == ErrorCode.PRODUCER_FENCED
    assert stage.state("t") is ONGOING


def test_a_producer_whose_id_was_forgotten_starts_over(stage: Stage) -> None:
    response = stage.init("t", Identity(7, 5))
    assert (response.producer_id, response.producer_epoch) == (1_001, 0)


def test_a_change_of_producer_id_may_be_asked_for_again(stage: Stage) -> None:
    stage.begin("t")
    old = set_epoch(stage, "t", EPOCH_LAST)
    for _ in range(2):
        response = stage.init("t", old)
        assert (response.producer_id, response.producer_epoch) == (1_002, 0)


def test_a_producer_of_the_last_epoch_of_an_earlier_id_is_not_taken_for_the_present_one(
    stage: Stage,
) -> None:
    stage.begin("t")
    old = set_epoch(stage, "t", EPOCH_LAST)
    stage.begin("t")
    set_epoch(stage, "t", EPOCH_LAST)
    assert stage.init("t", old).error_code == ErrorCode.PRODUCER_FENCED


def test_an_open_transaction_is_aborted_before_a_new_instance_may_begin(stage: Stage) -> None:
    old = stage.begin("t")
    stage.add("t", old, A, B)
    assert stage.init("t").error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert stage.state("t") is PREPARE_ABORT
    assert stage.init("t").error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    (order,) = stage.orders
    assert order.identity == (1_001, 1)
    assert not order.marker.transaction_result
    stage.deliver(order, {A})
    assert stage.init("t").error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    stage.deliver(order, {B})
    assert stage.begin("t") == (1_001, 2)
    assert stage.end("t", old)[0] is ErrorCode.PRODUCER_FENCED
    assert stage.add("t", old, A) is ErrorCode.PRODUCER_FENCED


def refused(**fields: Any) -> ErrorCode:
    try:
        check_request(InitProducerIdRequest(**fields), TransactionSettings())
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


@pytest.mark.parametrize(
    ("timeout_ms", "error"),
    [
        (0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (-1, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (900_001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (900_000, ErrorCode.NONE),
    ],
)
def test_the_time_out_must_be_within_the_limit(timeout_ms: int, error: ErrorCode) -> None:
    assert refused(transactional_id="t", transaction_timeout_ms=timeout_ms) is error


def test_bad_requests_are_refused() -> None:
    assert refused(transactional_id="") is ErrorCode.INVALID_REQUEST
    for half in ({"producer_id": 7}, {"producer_epoch": 7}):
        assert refused(transactional_id="t", **half) is ErrorCode.INVALID_REQUEST


def test_without_a_producer_id_at_hand_nothing_changes(stage: Stage) -> None:
    stage.no_producer_ids = True
    assert stage.init("t").error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert not stage.shard.transactions
    assert not stage.log


# --- partitions ---------------------------------------------------------------------------------


def test_the_first_partition_begins_the_transaction(stage: Stage) -> None:
    client = stage.begin("t")
    assert stage.add("t", client, A) is ErrorCode.NONE
    assert stage.add("t", client, B) is ErrorCode.NONE
    found = stage.shard.transactions["t"]
    assert found.partitions == {A, B}
    assert found.start_ms == stage.now.wall_ms


def test_a_partition_that_is_there_is_not_written_again(stage: Stage) -> None:
    client = stage.begin("t")
    stage.add("t", client, A, B)
    written = len(stage.log)
    assert stage.add("t", client, A) is ErrorCode.NONE
    assert len(stage.log) == written


def test_others_cannot_add_partitions(stage: Stage) -> None:
    client = stage.begin("t")
    assert stage.add("u", client, A) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    wrong_id = Identity(client.producer_id + 1, 0)
    assert stage.add("t", wrong_id, A) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert stage.add("t", Identity(client.producer_id, 1), A) is ErrorCode.PRODUCER_FENCED


def test_partitions_wait_for_the_end_of_the_last_transaction(stage: Stage) -> None:
    client = stage.begin("t")
    stage.add("t", client, A)
    _, client = stage.end("t", client)
    assert stage.add("t", client, A) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert stage.verify("t", client, A) is ErrorCode.CONCURRENT_TRANSACTIONS
    fenced = Identity(client.producer_id, 9)
    assert stage.add("t", fenced, A) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert stage.verify("t", fenced, A) is ErrorCode.PRODUCER_FENCED
    assert stage.init("t", Identity(7, 7)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    stage.deliver_all()
    assert stage.add("t", fenced, A) is ErrorCode.PRODUCER_FENCED
    assert stage.init("t", Identity(7, 7)).error_code == ErrorCode.PRODUCER_FENCED
    assert stage.add("t", client, A) is ErrorCode.NONE


def test_verification_tells_what_takes_part(stage: Stage) -> None:
    client = stage.begin("t")
    assert stage.verify("t", client, A) is ErrorCode.TRANSACTION_ABORTABLE
    stage.add("t", client, A)
    assert stage.verify("t", client, A) is ErrorCode.NONE
    assert stage.verify("t", client, B) is ErrorCode.TRANSACTION_ABORTABLE
    assert stage.verify("u", client, A) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert stage.verify("t", Identity(client.producer_id, 9), A) is ErrorCode.PRODUCER_FENCED


# --- EndTxn -------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_protocol_1_keeps_the_epoch(stage: Stage, commit: bool) -> None:
    client = stage.begin("t")
    stage.add("t", client, A, B, version=0)
    assert stage.end("t", client, commit=commit, version=0) == (ErrorCode.NONE, NOBODY)
    assert stage.state("t") is (PREPARE_COMMIT if commit else PREPARE_ABORT)
    for outcome in (True, False):
        waiting = stage.end("t", client, commit=outcome, version=0)[0]
        assert waiting is ErrorCode.CONCURRENT_TRANSACTIONS
    (order,) = stage.orders
    assert order.identity == client
    assert order.marker.coordinator_epoch == 3
    stage.deliver_all()
    assert stage.state("t") is (COMPLETE_COMMIT if commit else COMPLETE_ABORT)
    assert stage.end("t", client, commit=commit, version=0)[0] is ErrorCode.NONE
    other = stage.end("t", client, commit=not commit, version=0)[0]
    assert other is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("commit", [True, False])
def test_protocol_2_gives_a_new_epoch_and_may_be_asked_again(stage: Stage, commit: bool) -> None:
    client = stage.begin("t")
    stage.add("t", client, A)
    error, new = stage.end("t", client, commit=commit)
    assert (error, new) == (ErrorCode.NONE, (client.producer_id, 1))
    assert stage.orders[0].identity == new
    assert stage.orders[0].marker.transaction_version == 2
    assert stage.end("t", client, commit=commit)[0] is ErrorCode.CONCURRENT_TRANSACTIONS
    stage.deliver_all()
    assert stage.end("t", client, commit=commit) == (ErrorCode.NONE, new)
    assert stage.end("t", client, commit=not commit)[0] is ErrorCode.INVALID_TXN_STATE


def test_protocol_2_may_end_the_next_transaction_before_the_markers_of_the_last_are_written(
    stage: Stage,
) -> None:
    """A Java producer that aborts before its first batch was answered does this."""
    client = stage.begin("t")
    stage.add("t", client, A)
    _, new = stage.end("t", client)
    for commit in (True, False):
        for anyone in (client, new, Identity(new.producer_id, 9), Identity(7, 7)):
            assert stage.end("t", anyone, commit=commit)[0] is ErrorCode.CONCURRENT_TRANSACTIONS
    assert stage.state("t") is PREPARE_COMMIT
    stage.deliver_all()
    assert stage.end("t", new, commit=False)[0] is ErrorCode.NONE


@pytest.mark.parametrize("before", [EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT])
def test_protocol_2_may_abort_a_transaction_of_nothing(
    stage: Stage, before: TransactionState
) -> None:
    client = stage.begin("t")
    if before is not EMPTY:
        stage.add("t", client, A)
        _, client = stage.end("t", client, commit=before is COMPLETE_COMMIT)
        stage.deliver_all()
    assert stage.end("t", client, commit=True)[0] is ErrorCode.INVALID_TXN_STATE
    error, new = stage.end("t", client, commit=False)
    assert (error, new.producer_epoch) == (ErrorCode.NONE, client.producer_epoch + 1)
    assert stage.state("t") is COMPLETE_ABORT
    assert not stage.orders


def test_protocol_1_may_not_end_a_transaction_of_nothing(stage: Stage) -> None:
    client = stage.begin("t")
    for commit in (True, False):
        error = stage.end("t", client, commit=commit, version=0)[0]
        assert error is ErrorCode.INVALID_TXN_STATE


def test_the_end_of_the_epochs_brings_a_new_producer_id(stage: Stage) -> None:
    stage.begin("t")
    client = set_epoch(stage, "t", EPOCH_LAST)
    stage.add("t", client, A)
    error, new = stage.end("t", client)
    assert (error, new) == (ErrorCode.NONE, (1_002, 0))
    assert stage.orders[0].identity == (1_001, EPOCH_LAST + 1)
    assert stage.end("t", client)[0] is ErrorCode.CONCURRENT_TRANSACTIONS
    stage.deliver_all()
    assert stage.end("t", client) == (ErrorCode.NONE, new)
    assert stage.add("t", new, A) is ErrorCode.NONE
    assert stage.end("t", client)[0] is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_commit_without_a_producer_id_at_hand_can_be_tried_again(stage: Stage) -> None:
    stage.begin("t")
    client = set_epoch(stage, "t", EPOCH_LAST)
    stage.add("t", client, A)
    stage.no_producer_ids = True
    assert stage.end("t", client)[0] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert stage.state("t") is ONGOING
    stage.no_producer_ids = False
    assert stage.end("t", client)[0] is ErrorCode.NONE


def test_a_fenced_producer_of_protocol_2_cannot_repeat_the_commit_of_one_of_protocol_1(
    stage: Stage,
) -> None:
    fenced = stage.begin("t")
    client = stage.begin("t")
    stage.add("t", client, A, version=0)
    stage.end("t", client, version=0)
    stage.deliver_all()
    assert stage.end("t", fenced)[0] is ErrorCode.PRODUCER_FENCED


def test_others_cannot_end_a_transaction(stage: Stage) -> None:
    client = stage.begin("t")
    stage.add("t", client, A)
    for version in (0, 2):
        wrong_id = Identity(client.producer_id + 1, 0)
        error = stage.end("t", wrong_id, version=version)[0]
        assert error is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        wrong_epoch = Identity(client.producer_id, 1)
        assert stage.end("t", wrong_epoch, version=version)[0] is ErrorCode.PRODUCER_FENCED
        error = stage.end("u", client, version=version)[0]
        assert error is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert stage.state("t") is ONGOING


def test_news_of_an_earlier_transaction_do_not_complete_this_one(stage: Stage) -> None:
    client = stage.begin("t")
    stage.add("t", client, A)
    _, client = stage.end("t", client)
    (first,) = stage.orders
    stage.deliver_all()
    stage.add("t", client, A)
    stage.end("t", client)
    stage.run(
        lambda shard, now, outbox: shard.markers_written("t", first.identity, [A], now, outbox)
    )
    assert stage.state("t") is PREPARE_COMMIT


# --- time ---------------------------------------------------------------------------------------


def test_a_transaction_is_aborted_when_its_time_is_up(stage: Stage) -> None:
    client = stage.begin("t", timeout_ms=1_000)
    stage.add("t", client, A)
    stage.advance(999)
    assert stage.state("t") is ONGOING
    stage.advance(1)
    assert stage.state("t") is PREPARE_ABORT
    stage.deliver_all()
    assert stage.add("t", client, A) is ErrorCode.PRODUCER_FENCED
    assert stage.end("t", client, version=0)[0] is ErrorCode.PRODUCER_FENCED
    assert stage.end("t", client)[0] is ErrorCode.INVALID_TXN_STATE
    response = stage.init("t", client)
    assert (response.producer_id, response.producer_epoch) == (client.producer_id, 1)


def test_time_counts_from_the_first_partition_of_each_transaction(stage: Stage) -> None:
    client = stage.begin("t", timeout_ms=1_000)
    stage.add("t", client, A)
    stage.advance(600)
    _, client = stage.end("t", client)
    stage.deliver_all()
    stage.add("t", client, A)
    stage.advance(600)
    stage.add("t", client, B)
    assert stage.state("t") is ONGOING
    stage.advance(400)
    assert stage.state("t") is PREPARE_ABORT


def test_the_time_goes_on_when_another_broker_takes_over(stage: Stage) -> None:
    client = stage.begin("t", timeout_ms=1_000)
    stage.add("t", client, A)
    stage.advance(500)
    stage.reload()
    stage.advance(499)
    assert stage.state("t") is ONGOING
    stage.advance(1)
    assert stage.state("t") is PREPARE_ABORT


def test_a_time_out_that_fails_for_want_of_a_producer_id_is_tried_again(stage: Stage) -> None:
    stage.begin("t", timeout_ms=1_000)
    client = set_epoch(stage, "t", EPOCH_LAST)
    stage.add("t", client, A)
    stage.no_producer_ids = True
    stage.advance(1_000)
    assert stage.state("t") is ONGOING
    stage.no_producer_ids = False
    stage.advance(1_000)
    assert stage.state("t") is PREPARE_ABORT


def test_unused_ids_are_forgotten_and_open_ones_are_not() -> None:
    stage = Stage(TransactionSettings(expiration_ms=10_000, expiry_check_interval_ms=1_000))
    client = stage.begin("open", timeout_ms=900_000)
    stage.begin("idle")
    stage.add("open", client, A)
    stage.advance(9_000)
    assert "idle" in stage.shard.transactions
    stage.advance(2_000)
    assert "idle" not in stage.shard.transactions
    assert stage.log[-1][1] is None
    assert stage.state("open") is ONGOING
    assert stage.begin("idle") == (1_003, 0)


# --- taking over --------------------------------------------------------------------------------


def test_markers_are_ordered_again_by_the_broker_that_takes_over(stage: Stage) -> None:
    client = stage.begin("t")
    stage.add("t", client, A, B)
    stage.end("t", client)
    stage.deliver(stage.orders[0], {A})
    stage.reload()
    (order,) = stage.orders
    assert order.left == {A, B}
    assert order.marker.coordinator_epoch == 4
    assert order.marker.transaction_result
    stage.deliver_all()
    assert stage.state("t") is COMPLETE_COMMIT


def test_the_identity_that_ended_a_transaction_is_known_after_a_change_of_broker(
    stage: Stage,
) -> None:
    client = stage.begin("t")
    stage.add("t", client, A)
    _, new = stage.end("t", client)
    stage.deliver_all()
    stage.reload()
    assert stage.end("t", client) == (ErrorCode.NONE, new)
    response = stage.init("t", client)
    assert (response.producer_id, response.producer_epoch) == new


# --- two-phase commit (KIP-939) -----------------------------------------------------------------


def test_two_phase_commit_must_be_switched_on() -> None:
    for wish in ({"enable2_pc": True}, {"keep_prepared_txn": True}):
        error = refused(transactional_id="t", **wish)
        assert error is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_two_phase_transaction_never_times_out() -> None:
    stage = Stage(TWO_PHASE)
    client = stage.begin("t", timeout_ms=0, enable2_pc=True)
    stage.add("t", client, A)
    stage.advance(10**9)
    assert stage.state("t") is ONGOING


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("reloaded", [True, False])
def test_a_kept_transaction_is_ended_by_the_producer_that_came_back(
    commit: bool, reloaded: bool
) -> None:
    stage = Stage(TWO_PHASE)
    wish = {"enable2_pc": True, "keep_prepared_txn": True}
    old = stage.begin("t", **wish)
    stage.add("t", old, A)
    response = stage.init("t", **wish)
    new = Identity(response.producer_id, response.producer_epoch)
    ongoing = Identity(response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch)
    assert ongoing == old
    assert new == (old.producer_id, old.producer_epoch + 1)
    if reloaded:
        stage.reload()
    assert stage.state("t") is ONGOING
    assert stage.add("t", new, B) is ErrorCode.INVALID_TXN_STATE
    assert stage.add("t", old, B) is ErrorCode.PRODUCER_FENCED
    assert stage.end("t", old, commit=commit)[0] is ErrorCode.PRODUCER_FENCED
    error, following = stage.end("t", new, commit=commit)
    assert (error, following) == (ErrorCode.NONE, (old.producer_id, old.producer_epoch + 2))
    assert stage.orders[0].identity == following
    stage.deliver_all()
    assert stage.end("t", new, commit=commit) == (ErrorCode.NONE, following)
    assert stage.add("t", following, A) is ErrorCode.NONE


def test_a_kept_transaction_survives_the_end_of_the_epochs() -> None:
    stage = Stage(TWO_PHASE)
    wish = {"enable2_pc": True, "keep_prepared_txn": True}
    stage.begin("t", **wish)
    old = set_epoch(stage, "t", EPOCH_LAST)
    stage.add("t", old, A)
    response = stage.init("t", **wish)
    new = Identity(response.producer_id, response.producer_epoch)
    assert new == (1_002, 0)
    assert response.ongoing_txn_producer_id == old.producer_id
    stage.reload()
    error, following = stage.end("t", new)
    assert (error, following) == (ErrorCode.NONE, (1_002, 1))
    assert stage.orders[0].identity == (1_001, EPOCH_LAST + 1)
    assert stage.end("t", new)[0] is ErrorCode.CONCURRENT_TRANSACTIONS
    stage.deliver_all()
    assert stage.end("t", new) == (ErrorCode.NONE, following)


def test_a_producer_that_keeps_nothing_finds_nothing_ongoing() -> None:
    stage = Stage(TWO_PHASE)
    response = stage.init("t", enable2_pc=True, keep_prepared_txn=True)
    assert response.ongoing_txn_producer_id == -1
    assert response.ongoing_txn_producer_epoch == -1


# --- looking ------------------------------------------------------------------------------------


def answered(stage: Stage, **filters: object) -> ListTransactionsResponse:
    request = ListTransactionsRequest(**filters)
    transactions = stage.ask("list")
    return at_once(list_transactions(transactions, request, bool, stage.now.wall_ms))


def listed(stage: Stage, **filters: object) -> list[str]:
    return [found.transactional_id for found in answered(stage, **filters).transaction_states]


def test_transactions_are_listed_by_state_producer_and_age(stage: Stage) -> None:
    client = stage.begin("open")
    idle = stage.begin("idle")
    stage.add("open", client, A)
    stage.advance(1_000)
    assert listed(stage) == ["open", "idle"]
    assert listed(stage, state_filters=["Ongoing", "Lost"]) == ["open"]
    assert listed(stage, state_filters=["Lost"]) == []
    assert listed(stage, producer_id_filters=[idle.producer_id]) == ["idle"]
    assert listed(stage, duration_filter=999) == ["open"]
    assert listed(stage, duration_filter=1_000) == []
    assert answered(stage, state_filters=["Lost"]).unknown_state_filters == ["Lost"]


def test_a_transaction_is_described(stage: Stage) -> None:
    client = stage.begin("t", timeout_ms=1_234)
    stage.add("t", client, A, B, ("in", 4))
    (found,) = stage.ask("describe", "t").transaction_states
    assert found.transaction_state == "Ongoing"
    assert found.transaction_timeout_ms == 1_234
    assert found.transaction_start_time_ms == stage.now.wall_ms
    assert [(t.topic, t.partitions) for t in found.topics] == [("in", [4]), ("orders", [0, 1])]
    (found,) = stage.ask("describe", "u").transaction_states
    assert found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_states_have_the_names_of_kafka() -> None:
    assert set(BY_TITLE) == {
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    }
