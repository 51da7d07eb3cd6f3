"""What a consumer reads, and what counts as done."""

from __future__ import annotations

import re

import pytest

from ottla.client.consumer.partition_state import LATEST, Phase
from ottla.client.consumer.subscriptions import Subscriptions
from ottla.client.errors import IllegalState
from ottla.client.values import ConsumerRecord, OffsetAndMetadata, TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def record(offset: int, epoch: int = 3) -> ConsumerRecord[bytes, bytes]:
    return ConsumerRecord("a", 0, offset, 0, 0, b"", b"", (), epoch)


def assigned(*partitions: TopicPartition, at: int = 0) -> Subscriptions:
    subscriptions = Subscriptions()
    subscriptions.assign(partitions)
    for one in partitions:
        subscriptions.seek(one, at)
    return subscriptions


def consumed(subscriptions: Subscriptions) -> dict[TopicPartition, int]:
    return {one: at.offset for one, at in subscriptions.consumed().items()}


def test_subscribing_and_assigning_exclude_each_other() -> None:
    subscriptions = Subscriptions()
    subscriptions.subscribe(["a"])
    with pytest.raises(IllegalState, match=r"assign\(\) after subscribe\(\).*unsubscribe\(\)"):
        subscriptions.assign([A])
    subscriptions.unsubscribe()
    subscriptions.assign([A])
    with pytest.raises(IllegalState, match=r"subscribe\(\) after assign\(\)"):
        subscriptions.subscribe(["a"])


def test_names_and_a_pattern_exclude_each_other() -> None:
    subscriptions = Subscriptions()
    with pytest.raises(IllegalState, match="not both"):
        subscriptions.subscribe(["a"], re.compile("a"))
    subscriptions.subscribe(["a"])
    with pytest.raises(IllegalState, match="names or to a pattern"):
        subscriptions.subscribe(pattern=re.compile("a"))


def test_one_topic_given_as_text_is_not_taken_for_its_letters() -> None:
    with pytest.raises(IllegalState, match=r"\['orders'\]"):
        Subscriptions().subscribe("orders")


def test_the_topics_of_a_pattern_are_those_that_match_now() -> None:
    subscriptions = Subscriptions()
    subscriptions.subscribe(pattern=re.compile("a.*"))
    assert subscriptions.is_subscribed
    assert subscriptions.matched({"ab", "ac"})
    assert not subscriptions.matched({"ac", "ab"})
    assert subscriptions.topics == {"ab", "ac"}


def test_assigning_anew_keeps_the_positions_of_what_stays() -> None:
    subscriptions = assigned(A, at=7)
    subscriptions.assign([A, B])
    assert subscriptions.position(A) == 7
    assert subscriptions.position(B) is None
    subscriptions.assign([B])
    assert subscriptions.assigned == {B}
    subscriptions.assign([])
    subscriptions.subscribe(["a"])


def test_the_group_adds_and_removes_partitions_of_a_subscriber_only() -> None:
    subscriptions = Subscriptions()
    changes: list[frozenset[TopicPartition]] = []
    subscriptions.assignment_changed = lambda: changes.append(subscriptions.assigned)
    subscriptions.subscribe(["a", "b"])
    subscriptions.assign_from_group([A, B], [])
    subscriptions.seek(A, 5)
    subscriptions.assign_from_group([A], [B])
    assert changes == [{A, B}, {A}]
    assert subscriptions.position(A) == 5
    with pytest.raises(IllegalState, match="by hand"):
        assigned(A).assign_from_group([B], [])


def test_a_partition_that_is_not_assigned_is_named() -> None:
    with pytest.raises(IllegalState, match="b-0 is not assigned"):
        assigned(A).pause([B])


def test_paused_partitions_are_known() -> None:
    subscriptions = assigned(A, B)
    subscriptions.pause([A])
    assert subscriptions.paused == {A}
    subscriptions.resume([A])
    assert subscriptions.paused == frozenset()


def test_what_a_poll_handed_out_is_consumed_when_the_application_comes_back() -> None:
    subscriptions = assigned(A, B, at=10)
    subscriptions.hand_out(subscriptions.state(A), 15, 2)
    subscriptions.hand_out(subscriptions.state(A), 20, 3)
    assert subscriptions.position(A) == 20
    assert consumed(subscriptions) == {A: 10, B: 10}
    assert subscriptions.positions()[A] == OffsetAndMetadata(20, "", 3)
    subscriptions.settle()
    assert subscriptions.consumed([A]) == {A: OffsetAndMetadata(20, "", 3)}


def test_the_record_in_the_loop_body_is_not_consumed_those_before_it_are() -> None:
    subscriptions = assigned(A, at=10)
    subscriptions.in_hand.state = subscriptions.state(A)
    for offset in (10, 11, 14):
        subscriptions.in_hand.record = record(offset)
        assert consumed(subscriptions) == {A: offset}
        assert subscriptions.position(A) == offset + 1
    subscriptions.settle()
    assert consumed(subscriptions) == {A: 15}


def test_after_a_seek_the_new_place_is_what_counts() -> None:
    subscriptions = assigned(A, at=10)
    subscriptions.in_hand.state = subscriptions.state(A)
    subscriptions.in_hand.record = record(14)
    subscriptions.seek(A, 3)
    assert subscriptions.position(A) == 3
    assert consumed(subscriptions) == {A: 3}
    subscriptions.settle()
    assert subscriptions.position(A) == 3


def test_without_a_position_nothing_is_consumed() -> None:
    subscriptions = Subscriptions()
    subscriptions.assign([A])
    assert subscriptions.consumed() == {}
    subscriptions.seek(A, 5)
    subscriptions.reset(A, LATEST)
    assert subscriptions.state(A).phase is Phase.RESET
    assert subscriptions.consumed() == {}


def test_a_seek_with_an_epoch_waits_for_the_leaders_word() -> None:
    subscriptions = assigned(A)
    subscriptions.seek(A, 5, 2)
    assert subscriptions.position(A) == 5
    assert not subscriptions.state(A).is_readable
    subscriptions.state(A).validated(4)
    assert subscriptions.state(A).is_readable


def test_partitions_that_left_take_what_was_in_hand_with_them() -> None:
    subscriptions = assigned(A, B, at=1)
    subscriptions.hand_out(subscriptions.state(A), 5, 0)
    before = subscriptions.state(A).version
    state = subscriptions.state(A)
    subscriptions.assign([B])
    assert state.version > before
    subscriptions.assign([A, B])
    assert consumed(subscriptions) == {B: 1}
