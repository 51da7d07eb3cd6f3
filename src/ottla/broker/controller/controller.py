"""The controller: commits and answers the decisions of this package, while this node leads the
metadata log. On other nodes every method fails with NOT_CONTROLLER.

A decision that no node needs for its start is imported on first use: start-up is measured in
milliseconds, and most of it is imports.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from ottla.broker.controller.broker_states import check_epoch, unregister
from ottla.broker.controller.duties import Duties
from ottla.broker.controller.eligible import explicit_min_isr, level_changed
from ottla.broker.controller.heartbeats import Beat, State, heartbeat, resident_heartbeat
from ottla.broker.controller.limits import Charge, unlimited
from ottla.broker.controller.registration import register_broker, register_controller, take_in
from ottla.broker.controller.sessions import NO_OFFSET, Sessions
from ottla.broker.controller.unclean import UNCLEAN_KEY, ElectionOf, elections_by_topic
from ottla.broker.metadata.decision import Decision
from ottla.broker.metadata.image import MetadataImage
from ottla.broker.metadata.log import MetadataLog
from ottla.config.broker import BrokerConfig
from ottla.logs import get_logger
from ottla.runtime.runtime import Runtime

if TYPE_CHECKING:
    from ottla.broker.controller.alter_configs import ConfigChange, Outcome
    from ottla.broker.controller.rights.decisions import RightsDecisions
    from ottla.protocol.messages.allocate_producer_ids import (
        AllocateProducerIdsRequest,
        AllocateProducerIdsResponse,
    )
    from ottla.protocol.messages.alter_partition import (
        AlterPartitionRequest,
        AlterPartitionResponse,
    )
    from ottla.protocol.messages.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
    )
    from ottla.protocol.messages.assign_replicas_to_dirs import (
        AssignReplicasToDirsRequest,
        AssignReplicasToDirsResponse,
    )
    from ottla.protocol.messages.broker_heartbeat import (
        BrokerHeartbeatRequest,
        BrokerHeartbeatResponse,
    )
    from ottla.protocol.messages.broker_registration import (
        BrokerRegistrationRequest,
        BrokerRegistrationResponse,
    )
    from ottla.protocol.messages.controller_registration import (
        ControllerRegistrationRequest,
        ControllerRegistrationResponse,
    )
    from ottla.protocol.messages.create_partitions import (
        CreatePartitionsRequest,
        CreatePartitionsResponse,
    )
    from ottla.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
    from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
    from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
    from ottla.protocol.messages.list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
    )
    from ottla.protocol.messages.unregister_broker import (
        UnregisterBrokerRequest,
        UnregisterBrokerResponse,
    )
    from ottla.protocol.messages.update_features import (
        UpdateFeaturesRequest,
        UpdateFeaturesResponse,
    )

log = get_logger("ottla.controller")

T = TypeVar("T")


class Controller:
    """Every method returns once its change is durable and published to all subscribers here.

    If a method raises `KafkaError`, the whole request was refused and nothing was changed; but with
    NOT_CONTROLLER the outcome is unknown: the next controller may have the change.
    """

    def __init__(self, metadata: MetadataLog, config: BrokerConfig, runtime: Runtime) -> None:
        self.config = config
        """The settings in force; dynamic changes replace this."""
        self.node_id = config.node_id
        self.sessions = Sessions(config["broker.session.timeout.ms"])
        self._metadata = metadata
        self._runtime = runtime
        self._random = runtime.random
        self._duties = Duties(metadata, runtime, self.sessions, lambda: self.config)
        self._brokers_changed = asyncio.Event()
        """Set when a broker was heard of, metadata changed, or this node stopped leading."""
        metadata.on_leadership(self._leadership_changed)
        metadata.subscribe(lambda delta, image: self._brokers_changed.set())

    def _leadership_changed(self, leads: bool, epoch: int) -> None:
        if leads:
            self._duties.begin()
        else:
            self._duties.end()
        self._brokers_changed.set()

    def configure(self, config: BrokerConfig) -> None:
        """Apply settings that changed at run time."""
        self.config = config

    def close(self) -> None:
        """Stop the timers."""
        self._duties.end()

    async def _decide(
        self, decide: Callable[[MetadataImage, ElectionOf], Decision[T]], *, divisible: bool = False
    ) -> T:
        """Commit a decision. `divisible`: a part of its records is a valid state, see
        `broker_states`."""
        return await self._metadata.write(
            lambda image: decide(image, elections_by_topic(image, self.config)),
            divisible=divisible,
        )

    # Topics

    async def create_topics(
        self, request: CreateTopicsRequest, charge: Charge = unlimited
    ) -> CreateTopicsResponse:
        from ottla.broker.controller.topics.create_topics import create_topics

        return await self._metadata.write(
            lambda image: create_topics(image, request, self.config, self._random, charge),
            paced=True,
        )

    async def delete_topics(
        self, request: DeleteTopicsRequest, charge: Charge = unlimited
    ) -> DeleteTopicsResponse:
        from ottla.broker.controller.topics.delete_topics import delete_topics

        return await self._metadata.write(lambda image: delete_topics(image, request, charge))

    async def create_partitions(
        self, request: CreatePartitionsRequest, charge: Charge = unlimited
    ) -> CreatePartitionsResponse:
        from ottla.broker.controller.topics.create_partitions import create_partitions

        return await self._metadata.write(
            lambda image: create_partitions(image, request, self._random, charge), paced=True
        )

    # Partitions

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        from ottla.broker.controller.alter_partition import alter_partition

        return await self._decide(
            lambda image, election_of: alter_partition(image, request, election_of), divisible=True
        )

    async def elect_leaders(self, request: ElectLeadersRequest) -> ElectLeadersResponse:
        from ottla.broker.controller.elect_leaders import elect_leaders

        return await self._metadata.write(
            lambda image: elect_leaders(image, request), divisible=True
        )

    async def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse:
        """Reassign partitions, or cancel their reassignment.

        If a replica leaves an ISR at once, first wait for a heartbeat of each broker that stays in
        that ISR. Such a broker may have crashed unnoticed, and the leaving replica has all records.
        """
        from ottla.broker.controller.reassignments import alter_reassignments, relied_on

        await self._wait_for_heartbeats(relied_on(self._metadata.pending, request))
        return await self._decide(
            lambda image, election_of: alter_reassignments(image, request, election_of)
        )

    async def _wait_for_heartbeats(self, broker_ids: Collection[int]) -> None:
        """Return when each of these brokers has sent a heartbeat or is fenced."""
        since_ms = self._duties.now_ms()
        while self._metadata.is_leader and self.sessions.silent_since(
            since_ms, broker_ids, self._metadata.pending.brokers
        ):
            self._brokers_changed.clear()
            await self._brokers_changed.wait()

    async def list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse:
        from ottla.broker.controller.reassignments import list_reassignments

        return await self._metadata.write(
            lambda image: Decision([], list_reassignments(image, request))
        )

    async def assign_replicas_to_dirs(
        self, request: AssignReplicasToDirsRequest
    ) -> AssignReplicasToDirsResponse:
        from ottla.broker.controller.replica_folders import assign_replicas

        return await self._decide(
            lambda image, election_of: assign_replicas(image, request, election_of), divisible=True
        )

    # Configs and features

    async def alter_configs(
        self, changes: Sequence[ConfigChange], *, validate_only: bool
    ) -> list[Outcome]:
        """Return the error of each change, or None if it was made."""
        from ottla.broker.controller.alter_configs import alter_configs
        from ottla.broker.controller.config_rules import ConfigRules

        rules = ConfigRules(self.node_id, self.config)
        outcomes = await self._metadata.write(
            lambda image: alter_configs(image, changes, rules, validate_only=validate_only)
        )
        if any(key.key == UNCLEAN_KEY for change in changes for key in change.keys):
            await self._duties.elect_leaderless()
        return outcomes

    async def update_features(self, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
        from ottla.broker.controller.feature_levels import update_features

        def decide(image: MetadataImage) -> Decision[UpdateFeaturesResponse]:
            kraft_version = self._metadata.quorum.kraft_version
            levels, response = update_features(image, request, kraft_version, self.node_id)
            return Decision([*level_changed(image, levels, self.config), *levels], response)

        return await self._metadata.write(decide)

    @cached_property
    def rights(self) -> RightsDecisions:
        """Decides about users, ACLs, quotas and tokens."""
        from ottla.broker.controller.rights.decisions import RightsDecisions

        return RightsDecisions(self._metadata, self.config, self._runtime)

    # Nodes

    async def register_broker(
        self, request: BrokerRegistrationRequest
    ) -> BrokerRegistrationResponse:
        """Register a broker, fenced. A broker in the process of the only controller serves at once,
        since no other broker could serve instead of it."""
        now_ms = self._duties.now_ms()
        is_resident = self._is_resident(request.broker_id)

        def decide(
            image: MetadataImage, election_of: ElectionOf
        ) -> Decision[BrokerRegistrationResponse]:
            existing = image.brokers.get(request.broker_id)
            again = existing is not None and existing.incarnation_id == request.incarnation_id
            if is_resident and not again and not self.sessions.is_settled(request.broker_id):
                decision = take_in(image, request, election_of)
                self.sessions.settle(request.broker_id)
            else:
                is_alive = existing is not None and self.sessions.is_valid(existing, now_ms)
                decision = register_broker(image, request, election_of, is_alive=is_alive)
            if not again:
                self.sessions.begin(request.broker_id, now_ms)
                epoch = decision.response.broker_epoch
                log.info("broker registered", broker=request.broker_id, epoch=epoch)
            return decision._replace(
                records=[*decision.records, *explicit_min_isr(image, self.config)]
            )

        return await self._decide(decide, divisible=True)

    def _is_resident(self, broker_id: int) -> bool:
        """True if the broker is in this process, which is the only controller: they live and die
        together."""
        return broker_id == self.node_id and self._metadata.quorum.voter_ids == (broker_id,)

    async def heartbeat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        self._note_contact(request)
        beat = await self._decide(
            lambda image, election_of: self._beat(image, request, election_of), divisible=True
        )
        return beat.response

    def _note_contact(self, request: BrokerHeartbeatRequest) -> None:
        """Note the contact before anything else, so that a slow log does not cost a broker its
        session."""
        broker = self._metadata.pending.brokers.get(request.broker_id)
        if broker is not None and broker.epoch == request.broker_epoch:
            session = self.sessions.touch(request.broker_id, self._duties.now_ms())
            session.metadata_offset = request.current_metadata_offset
            self._brokers_changed.set()

    def _beat(
        self, image: MetadataImage, request: BrokerHeartbeatRequest, election_of: ElectionOf
    ) -> Decision[Beat]:
        if self._is_resident(request.broker_id):
            return resident_heartbeat(image, request, election_of)
        check_epoch(image, request.broker_id, request.broker_epoch)
        session = self.sessions.wait_again(request.broker_id, self._duties.now_ms())
        lowest = self.sessions.lowest_active_offset(image.brokers)
        decision = heartbeat(image, request, session, lowest, election_of)
        if decision.response.state is not State.CONTROLLED_SHUTDOWN:
            session.shutdown_offset = NO_OFFSET
        elif session.shutdown_offset == NO_OFFSET:
            session.shutdown_offset = image.offset + len(decision.records)
        if decision.records:
            log.info(
                "broker state changes",
                broker=request.broker_id,
                state=decision.response.state.name.lower().replace("_", " "),
                records=len(decision.records),
            )
        return decision

    async def unregister_broker(self, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
        from ottla.protocol.messages.unregister_broker import UnregisterBrokerResponse

        def decide(
            image: MetadataImage, election_of: ElectionOf
        ) -> Decision[UnregisterBrokerResponse]:
            records = unregister(image, request.broker_id, election_of)
            self.sessions.end(request.broker_id)
            return Decision(records, UnregisterBrokerResponse(error_message=None))

        return await self._decide(decide, divisible=True)

    async def register_controller(
        self, request: ControllerRegistrationRequest
    ) -> ControllerRegistrationResponse:
        return await self._metadata.write(lambda image: register_controller(image, request))

    # Producers

    async def allocate_producer_ids(
        self, request: AllocateProducerIdsRequest
    ) -> AllocateProducerIdsResponse:
        from ottla.broker.controller.producer_ids import allocate_producer_ids

        return await self._metadata.write(lambda image: allocate_producer_ids(image, request))
