"""A broker reports its state and what it wants; the controller decides.

fenced -> unfenced                 it wants to, and has read the log up to its own registration
unfenced -> fenced                 it wants to, or has no log dir left
unfenced -> in controlled shutdown it wants to stop and leads something
any -> shut down now               it wants to stop, leads nothing, and all brokers know
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from ottla.broker.controller.broker_states import (
    begin_shutdown,
    check_epoch,
    fence,
    leave,
    lose_folders,
    unfence,
)
from ottla.broker.controller.sessions import NO_OFFSET, Session
from ottla.broker.controller.unclean import ElectionOf
from ottla.broker.metadata.decision import Decision
from ottla.broker.metadata.image import BrokerImage, MetadataImage
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.protocol.metadata_records.broker_registration_change_record import (
    BrokerRegistrationChangeRecord,
)
from ottla.protocol.schema import Message


class State(Enum):
    FENCED = "may not lead nor be in sync"
    UNFENCED = "serves"
    CONTROLLED_SHUTDOWN = "hands over"
    SHUTDOWN_NOW = "may stop"


class Beat(NamedTuple):
    state: State
    response: BrokerHeartbeatResponse


def heartbeat(
    image: MetadataImage,
    request: BrokerHeartbeatRequest,
    session: Session,
    lowest_active_offset: float,
    election_of: ElectionOf,
) -> Decision[Beat]:
    broker = check_epoch(image, request.broker_id, request.broker_epoch)
    lost = [folder for folder in request.offline_log_dirs if folder in broker.directories]
    has_folders = len(lost) < len(broker.directories) or not broker.directories
    records: list[Message] = []
    if lost and has_folders:
        records += lose_folders(image, broker, lost, election_of)
    records += _cordon(broker, request.cordoned_log_dirs)
    if records:
        image = image.apply(records, image.offset + len(records), image.epoch)
        broker = image.brokers[broker.id]

    def leads() -> bool:
        return leads_any(image, broker.id)

    state = next_state(broker, request, session, lowest_active_offset, leads)
    if not has_folders and state is not State.SHUTDOWN_NOW:
        state = State.FENCED
    records += _state_records(image, broker, state, election_of)
    return Decision(records, Beat(state, _response(request, broker, state)))


def resident_heartbeat(
    image: MetadataImage, request: BrokerHeartbeatRequest, election_of: ElectionOf
) -> Decision[Beat]:
    """Handle the heartbeat of a broker in the process of the only controller. Nothing can be
    decided after it stops: partitions that others can lead move to them, and the rest stays as it
    is. It is fenced only after it was unregistered and has registered again."""
    broker = check_epoch(image, request.broker_id, request.broker_epoch)
    records: list[Message] = []
    state = State.UNFENCED
    if request.want_shut_down:
        state = State.SHUTDOWN_NOW
        leaving = broker._replace(in_controlled_shutdown=True)
        records += leave(image, leaving, election_of, lambda partition: len(partition.isr) > 1)
    elif len(set(broker.directories) - set(request.offline_log_dirs)) > 0:
        if broker.fenced:
            records += unfence(image, broker, election_of)
            image = image.apply(records, image.offset + len(records), image.epoch)
            broker = image.brokers[broker.id]
        records += lose_folders(image, broker, request.offline_log_dirs, election_of)
        records += _cordon(broker, request.cordoned_log_dirs)
    return Decision(records, Beat(state, _response(request, broker, state)))


def next_state(
    broker: BrokerImage,
    request: BrokerHeartbeatRequest,
    session: Session,
    lowest_active_offset: float,
    leads: Callable[[], bool],
) -> State:
    if broker.fenced:
        if request.want_shut_down:
            return State.SHUTDOWN_NOW
        caught_up = request.current_metadata_offset >= broker.epoch
        # After a controlled shutdown only a new registration lets it serve again.
        may_serve = caught_up and not request.want_fence and not broker.in_controlled_shutdown
        return State.UNFENCED if may_serve else State.FENCED
    if request.want_fence:
        return State.SHUTDOWN_NOW if request.want_shut_down else State.FENCED
    if broker.in_controlled_shutdown or request.want_shut_down:
        return _shutdown_state(broker, session, lowest_active_offset, leads)
    return State.UNFENCED


def _shutdown_state(
    broker: BrokerImage, session: Session, lowest_active_offset: float, leads: Callable[[], bool]
) -> State:
    if leads():
        return State.CONTROLLED_SHUTDOWN
    if not broker.in_controlled_shutdown:
        return State.SHUTDOWN_NOW
    # Other brokers may not know the new leaders yet: until then clients are still sent here.
    known = NO_OFFSET < session.shutdown_offset <= lowest_active_offset
    return State.SHUTDOWN_NOW if known else State.CONTROLLED_SHUTDOWN


def leads_any(image: MetadataImage, broker_id: int) -> bool:
    return any(
        partition.leader == broker_id
        for topic in image.topics.values()
        for partition in topic.partitions.values()
    )


def _state_records(
    image: MetadataImage, broker: BrokerImage, state: State, election_of: ElectionOf
) -> list[Message]:
    if state is State.UNFENCED:
        return unfence(image, broker, election_of) if broker.fenced else []
    if state is State.CONTROLLED_SHUTDOWN:
        return begin_shutdown(image, broker, election_of)
    return [] if broker.fenced else fence(image, broker, election_of)


def _cordon(broker: BrokerImage, cordoned: list[bytes] | None) -> list[Message]:
    """Update the cordoned log dirs, which take no new replicas; None if the broker does not know of
    them."""
    if cordoned is None or set(cordoned) == set(broker.cordoned_directories):
        return []
    return [
        BrokerRegistrationChangeRecord(
            broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=list(cordoned)
        )
    ]


def _response(
    request: BrokerHeartbeatRequest, broker: BrokerImage, state: State
) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(
        is_caught_up=request.current_metadata_offset >= broker.epoch,
        is_fenced=state in (State.FENCED, State.SHUTDOWN_NOW),
        should_shut_down=state is State.SHUTDOWN_NOW,
    )
