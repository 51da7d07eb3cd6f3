"""What a broker may do next, and when silence counts."""

from __future__ import annotations

from typing import Any

import pytest
from controller_cases import (
    CONFIG,
    applied,
    cluster,
    fenced,
    folder,
    partition_of,
    placed,
    registered,
    registration,
)

from ottla.broker.controller.heartbeats import State, heartbeat, resident_heartbeat
from ottla.broker.controller.sessions import Session, Sessions
from ottla.broker.controller.unclean import elections_by_topic
from ottla.broker.metadata.image import NO_LEADER, MetadataImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

FIRST, SECOND = b"1" * 16, b"2" * 16
IMAGE = placed(cluster(1, 2, 3), 1, 2, 3)
FAR = 10**9


def request(image: MetadataImage, broker: int = 1, **fields: Any) -> BrokerHeartbeatRequest:
    given = {"current_metadata_offset": FAR, **fields}
    return BrokerHeartbeatRequest(
        broker_id=broker, broker_epoch=image.brokers[broker].epoch, **given
    )


def beat(
    image: MetadataImage, asked: BrokerHeartbeatRequest, *, lowest: float = FAR, shutdown: int = -1
) -> tuple[MetadataImage, State, BrokerHeartbeatResponse]:
    session = Session(0)
    session.shutdown_offset = shutdown
    decision = heartbeat(image, asked, session, lowest, elections_by_topic(image, CONFIG))
    return applied(image, decision), decision.response.state, decision.response.response


def test_a_broker_is_unfenced_when_it_has_read_its_own_registration():
    image = registered(IMAGE, registration(4))
    epoch = image.brokers[4].epoch
    same, state, answer = beat(image, request(image, 4, current_metadata_offset=epoch - 1))
    assert (state, answer.is_fenced, answer.is_caught_up) == (State.FENCED, True, False)
    assert same.brokers == image.brokers
    image, state, answer = beat(image, request(image, 4, current_metadata_offset=epoch))
    assert (state, answer.is_fenced, answer.is_caught_up) == (State.UNFENCED, False, True)
    assert image.brokers[4].is_active


def test_a_broker_that_wants_to_stay_fenced_does():
    image = registered(IMAGE, registration(4))
    assert beat(image, request(image, 4, want_fence=True))[1] is State.FENCED


def test_a_heartbeat_that_changes_nothing_writes_nothing():
    session = Session(0)
    decision = heartbeat(IMAGE, request(IMAGE), session, FAR, elections_by_topic(IMAGE, CONFIG))
    assert decision.records == []
    assert decision.response.state is State.UNFENCED


def test_an_unfenced_broker_may_be_fenced_or_stop_at_once_if_it_wants():
    image, state, answer = beat(IMAGE, request(IMAGE, want_fence=True))
    assert (state, answer.should_shut_down) == (State.FENCED, False)
    assert partition_of(image).leader == 2
    image, state, answer = beat(IMAGE, request(IMAGE, want_fence=True, want_shut_down=True))
    assert (state, answer.should_shut_down, answer.is_fenced) == (State.SHUTDOWN_NOW, True, True)
    assert image.brokers[1].fenced


def test_a_broker_that_leads_hands_over_before_it_stops():
    image, state, answer = beat(IMAGE, request(IMAGE, want_shut_down=True))
    assert state is State.CONTROLLED_SHUTDOWN
    assert (answer.is_fenced, answer.should_shut_down) == (False, False)
    assert (partition_of(image).leader, partition_of(image).isr) == (2, (2, 3))
    assert image.brokers[1].in_controlled_shutdown
    offset = image.offset
    again, state, _ = beat(
        image, request(image, want_shut_down=True), lowest=offset - 1, shutdown=offset
    )
    assert state is State.CONTROLLED_SHUTDOWN
    assert again.topics == image.topics
    image, state, answer = beat(
        image, request(image, want_shut_down=True), lowest=offset, shutdown=offset
    )
    assert (state, answer.should_shut_down) == (State.SHUTDOWN_NOW, True)
    assert image.brokers[1].fenced


def test_a_new_controller_waits_anew_before_it_lets_a_broker_go():
    image, _, _ = beat(IMAGE, request(IMAGE, want_shut_down=True))
    assert beat(image, request(image, want_shut_down=True))[1] is State.CONTROLLED_SHUTDOWN


def test_a_broker_that_leads_nothing_may_stop_at_once():
    image, state, _ = beat(IMAGE, request(IMAGE, 3, want_shut_down=True))
    assert state is State.SHUTDOWN_NOW
    assert partition_of(image).isr == (1, 2)


def test_what_nobody_else_can_lead_does_not_keep_a_broker_from_stopping():
    image = placed(cluster(1, 2), 1)
    image, state, _ = beat(image, request(image, want_shut_down=True))
    assert state is State.CONTROLLED_SHUTDOWN
    waits = partition_of(image)
    assert (waits.leader, waits.eligible_leader_replicas) == (NO_LEADER, (1,))


def test_a_fenced_broker_may_stop():
    image = fenced(IMAGE, 1)
    assert beat(image, request(image, want_shut_down=True))[1] is State.SHUTDOWN_NOW


def test_who_was_on_the_way_out_is_not_taken_back_without_registration():
    image, _, _ = beat(IMAGE, request(IMAGE, want_shut_down=True))
    image = fenced(image, 1)
    assert beat(image, request(image))[1] is State.FENCED
    image = registered(image, registration(1, incarnation=2))
    assert beat(image, request(image))[1] is State.UNFENCED


def test_a_stale_broker_is_told():
    for asked in (request(IMAGE), BrokerHeartbeatRequest(broker_id=9)):
        asked.broker_epoch -= 1
        with pytest.raises(KafkaError) as refused:
            beat(IMAGE, asked)
        assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_lost_folders_are_told_by_heartbeat():
    image = registered(IMAGE, registration(4, directories=(FIRST, SECOND)))
    image, _, _ = beat(image, request(image, 4, offline_log_dirs=[SECOND, b"unknown folder.."]))
    assert image.brokers[4].directories == (FIRST,)
    assert image.brokers[4].is_active
    _, state, _ = beat(image, request(image, 4, offline_log_dirs=[FIRST]))
    assert state is State.FENCED


def test_cordoned_folders_are_told_by_heartbeat():
    image, _, _ = beat(IMAGE, request(IMAGE, cordoned_log_dirs=[folder(1)]))
    assert image.brokers[1].cordoned_directories == (folder(1),)
    assert not image.brokers[1].is_placeable
    same, _, _ = beat(image, request(image, cordoned_log_dirs=None))
    assert same.brokers == image.brokers
    image, _, _ = beat(image, request(image, cordoned_log_dirs=[]))
    assert image.brokers[1].is_placeable


def test_the_broker_of_the_only_controller_stops_at_once_and_keeps_what_only_it_has():
    image = placed(IMAGE, 1, name="alone")
    elections = elections_by_topic(image, CONFIG)
    decision = resident_heartbeat(image, request(image, want_shut_down=True), elections)
    assert decision.response.response.should_shut_down
    image = applied(image, decision)
    assert (partition_of(image).leader, partition_of(image).isr) == (2, (2, 3))
    assert partition_of(image, name="alone").leader == 1
    assert image.brokers[1].is_active
    assert resident_heartbeat(image, request(image), elections).records == []


def test_the_broker_of_the_only_controller_is_unfenced_after_it_was_unregistered():
    image = registered(IMAGE, registration(4))
    assert image.brokers[4].fenced
    decision = resident_heartbeat(image, request(image, 4), elections_by_topic(image, CONFIG))
    assert not decision.response.response.is_fenced
    assert applied(image, decision).brokers[4].is_active


# Sessions


def test_who_is_silent_for_too_long_has_no_session():
    sessions = Sessions(9000)
    sessions.restart(IMAGE.brokers, 0)
    sessions.touch(1, 5000)
    assert sessions.expired(IMAGE.brokers, 9000) == []
    assert [b.id for b in sessions.expired(IMAGE.brokers, 9001)] == [2, 3]
    assert sessions.next_expiry_ms(IMAGE.brokers, 5000) == 9000
    image = fenced(IMAGE, 2, 3)
    assert sessions.expired(image.brokers, 9001) == []
    assert sessions.next_expiry_ms(image.brokers, 9001) == 14000
    assert not sessions.is_valid(image.brokers[2], 1)


def test_a_broker_that_is_not_known_yet_has_no_session():
    sessions = Sessions(9000)
    assert [b.id for b in sessions.expired(IMAGE.brokers, 0)] == [1, 2, 3]
    assert sessions.next_expiry_ms(IMAGE.brokers, 5) == 9005


def test_a_pause_of_the_controller_is_not_held_against_brokers():
    sessions = Sessions(1000)
    sessions.restart(IMAGE.brokers, 0)
    sessions.extend(5000)
    assert sessions.expired(IMAGE.brokers, 6000) == []


def test_a_broker_that_missed_heartbeats_and_refuses_twice_has_no_session():
    sessions = Sessions(9000)
    sessions.restart(IMAGE.brokers, 0)
    sessions.touch(1, 300)
    sessions.touch(3, 400)
    assert sessions.probes(IMAGE.brokers, 400, 399) == []
    assert sessions.next_probe_ms(IMAGE.brokers, 400, 399) == 400
    for _ in range(2):
        assert sessions.expired(IMAGE.brokers, 500) == []
        (probe,) = sessions.probes(IMAGE.brokers, 400, 500)
        assert probe.broker.id == 2
        sessions.probed(probe, refused=True)
    assert [b.id for b in sessions.expired(IMAGE.brokers, 500)] == [2]
    assert not sessions.is_valid(IMAGE.brokers[2], 500)
    assert sessions.probes(IMAGE.brokers, 400, 500) == []
    assert sessions.next_probe_ms(IMAGE.brokers, 400, 500) == 700


def refuse(sessions: Sessions, broker_id: int, now_ms: float, *outcomes: bool) -> None:
    for refused in outcomes:
        for probe in sessions.probes({broker_id: IMAGE.brokers[broker_id]}, 400, now_ms):
            sessions.probed(probe, refused=refused)


def test_refusals_count_only_in_a_row():
    sessions = Sessions(9000)
    sessions.restart(IMAGE.brokers, 0)
    refuse(sessions, 2, 500, True, False, True)
    assert sessions.is_valid(IMAGE.brokers[2], 500)
    sessions.touch(2, 600)
    refuse(sessions, 2, 1000, True)
    assert sessions.is_valid(IMAGE.brokers[2], 1000)


def test_a_probe_says_nothing_of_a_broker_that_was_heard_of_meanwhile():
    sessions = Sessions(9000)
    sessions.restart(IMAGE.brokers, 0)
    refuse(sessions, 2, 500, True)
    (late,) = sessions.probes({2: IMAGE.brokers[2]}, 400, 500)
    sessions.touch(2, 510)
    sessions.probed(late, refused=True)
    refuse(sessions, 2, 1000, True)
    assert sessions.is_valid(IMAGE.brokers[2], 1000)
    (late,) = sessions.probes({2: IMAGE.brokers[2]}, 400, 1000)
    sessions.begin(2, 510)
    sessions.probed(late, refused=True)
    refuse(sessions, 2, 1000, True)
    assert sessions.is_valid(IMAGE.brokers[2], 1000)


def test_a_broker_that_was_heard_of_though_refused_is_judged_by_its_heartbeats_alone():
    sessions = Sessions(9000)
    sessions.restart(IMAGE.brokers, 0)
    refuse(sessions, 2, 500, True, True)
    assert not sessions.is_valid(IMAGE.brokers[2], 500)
    sessions.touch(2, 600)
    assert sessions.is_valid(IMAGE.brokers[2], 600)
    assert sessions.probes({2: IMAGE.brokers[2]}, 400, 5000) == []
    # Another process of it is another matter.
    sessions.begin(2, 600)
    assert len(sessions.probes({2: IMAGE.brokers[2]}, 400, 5000)) == 1


def test_a_heartbeat_that_waited_for_its_answer_does_not_outweigh_refusals():
    sessions = Sessions(9000)
    sessions.restart(IMAGE.brokers, 0)
    sessions.touch(2, 10)
    refuse(sessions, 2, 500, True, True)
    sessions.wait_again(2, 510)
    assert not sessions.is_valid(IMAGE.brokers[2], 520)


def test_the_broker_of_the_only_controller_needs_no_heartbeats():
    sessions = Sessions(1000)
    sessions.restart([1], 0)
    sessions.settle(1)
    image = cluster(1)
    assert sessions.is_valid(image.brokers[1], 10**9)
    assert sessions.expired(image.brokers, 10**9) == []
    assert sessions.probes(image.brokers, 400, 10**9) == []


def test_a_broker_may_go_when_all_that_can_lead_have_read_so_far():
    sessions = Sessions(1000)
    sessions.restart([1, 2], 0)
    assert sessions.lowest_active_offset(IMAGE.brokers) == -1
    for broker, offset in ((1, 30), (2, 20), (3, 25)):
        sessions.touch(broker, 0).metadata_offset = offset
    assert sessions.lowest_active_offset(IMAGE.brokers) == 20
    assert sessions.lowest_active_offset(fenced(IMAGE, 2).brokers) == 25
    assert sessions.lowest_active_offset(fenced(IMAGE, 1, 2, 3).brokers) == float("inf")
    sessions.settle(2)
    assert sessions.lowest_active_offset(IMAGE.brokers) == 25
