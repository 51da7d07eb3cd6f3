"""What a broker is told anew, and when a session begins again (KIP-227)."""

from __future__ import annotations

from ottla.client.consumer.fetching.sessions import Asked, FetchSession
from ottla.client.values import TopicPartition
from ottla.protocol.errors import ErrorCode
from ottla.protocol.fetch_sessions import EPOCH_MAX
from ottla.protocol.messages.fetch import FetchRequest

A, B = TopicPartition("a", 0), TopicPartition("b", 3)
ID, OTHER_ID = bytes(15) + b"\1", bytes(15) + b"\2"


def asked(offset: int, topic_id: bytes = ID) -> Asked:
    return Asked(topic_id, offset, 1, 100, is_leader=True)


def request(
    session: FetchSession, wanted: dict[TopicPartition, Asked], *, by_id: bool = True
) -> FetchRequest:
    made = FetchRequest(max_wait_ms=0, min_bytes=0)
    session.fill(made, wanted, by_id=by_id)
    return made


def parts(made: FetchRequest) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.topic, one.partition): one.fetch_offset
        for topic in made.topics
        for one in topic.partitions
    }


def forgotten(made: FetchRequest) -> set[TopicPartition]:
    return {
        TopicPartition(topic.topic, index)
        for topic in made.forgotten_topics_data
        for index in topic.partitions
    }


def opened() -> FetchSession:
    session = FetchSession()
    first = request(session, {A: asked(5), B: asked(7)})
    assert (first.session_id, first.session_epoch) == (0, 0)
    assert parts(first) == {A: 5, B: 7}
    assert session.answered(0, 77)
    return session


def test_only_what_changed_is_sent_again() -> None:
    session = opened()
    second = request(session, {A: asked(6), B: asked(7)})
    assert (second.session_id, second.session_epoch) == (77, 1)
    assert parts(second) == {A: 6}
    assert forgotten(second) == set()
    session.answered(0, 77)
    third = request(session, {A: asked(6)})
    assert third.session_epoch == 2
    assert parts(third) == {}
    assert forgotten(third) == {B}


def test_a_topic_made_anew_is_forgotten_under_its_old_id() -> None:
    session = opened()
    second = request(session, {A: asked(5, OTHER_ID), B: asked(7)})
    assert parts(second) == {A: 5}
    assert second.topics[0].topic_id == OTHER_ID
    assert [topic.topic_id for topic in second.forgotten_topics_data] == [ID]


def test_without_a_session_every_request_is_a_whole_one() -> None:
    session = FetchSession()
    for _ in range(3):
        made = request(session, {A: asked(5)})
        assert (made.session_id, made.session_epoch) == (0, 0)
        assert parts(made) == {A: 5}
        assert session.answered(0, 0)


def test_a_session_that_the_broker_lost_begins_anew() -> None:
    session = opened()
    assert not session.answered(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    again = request(session, {A: asked(5)})
    assert (again.session_id, again.session_epoch) == (0, 0)
    assert parts(again) == {A: 5}


def test_after_another_error_the_old_session_is_given_up_by_its_id() -> None:
    session = opened()
    assert not session.answered(ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0)
    again = request(session, {A: asked(5)})
    assert (again.session_id, again.session_epoch) == (77, 0)
    session.answered(0, 78)
    assert request(session, {A: asked(5)}).session_epoch == 1


def test_a_change_between_names_and_ids_begins_anew() -> None:
    session = opened()
    by_name = request(session, {A: asked(5)}, by_id=False)
    assert (by_name.session_epoch, parts(by_name)) == (0, {A: 5})


def test_epochs_begin_again_at_one() -> None:
    session = opened()
    session._head.epoch = EPOCH_MAX
    session.answered(0, 77)
    assert request(session, {A: asked(5)}).session_epoch == 1


def test_the_last_request_closes_the_session() -> None:
    last = opened().last_request()
    assert (last.session_id, last.session_epoch, last.topics) == (77, -1, [])
