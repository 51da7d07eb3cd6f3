"""A model of the controller: it decides at once and rightly, and its news come late."""

from __future__ import annotations

import random
from typing import Any

from ottla.broker.metadata.image import EMPTY_IMAGE, BrokerImage, MetadataImage, PartitionImage
from ottla.broker.replication.leader_state import Proposal
from ottla.protocol.errors import ErrorCode

BROKERS = (1, 2, 3)
LAG_MAX_MS = 1_000
TOPIC_ID = bytes(range(16))


class Broken(AssertionError):
    """Something that must never happen has happened."""


class Controller:
    """The truth about who leads and who is in sync."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.epochs = dict.fromkeys(BROKERS, 0)
        self.active = set(BROKERS)
        self.partition = PartitionImage(0, 1, 0, BROKERS, BROKERS, 0)
        self.version = 0
        self.leaders: dict[int, int] = {0: 1}

    def image(self) -> MetadataImage:
        brokers = {
            b: BrokerImage(b, self.epochs[b], b"", {}, None, fenced=b not in self.active)
            for b in BROKERS
        }
        return MetadataImage(
            offset=self.version, brokers=brokers, topics=EMPTY_IMAGE.topics, derived={}
        )

    def _change(self, **fields: Any) -> None:
        before = self.partition
        self.partition = before._replace(partition_epoch=before.partition_epoch + 1, **fields)
        if self.partition.leader != before.leader:
            epoch = before.leader_epoch + 1
            self.partition = self.partition._replace(leader_epoch=epoch)
            self.leaders[epoch] = self.partition.leader
        self.version += 1

    def _elect(self, isr: tuple[int, ...]) -> int:
        candidates = [broker for broker in isr if broker in self.active]
        return self.chance.choice(candidates) if candidates else -1

    def fence(self, broker: int) -> None:
        self.active.discard(broker)
        self._leave_isr(broker)

    def _leave_isr(self, broker: int) -> None:
        """As Kafka's: the last one stays in the ISR, and the partition has no leader then."""
        isr = tuple(b for b in self.partition.isr if b != broker) or self.partition.isr
        leader = self.partition.leader
        if leader == broker or leader not in self.active:
            leader = self._elect(isr)
        self._change(isr=isr, leader=leader)

    def register(self, broker: int) -> None:
        """Another life of it begins: what it knew before does not count."""
        self.epochs[broker] += 1
        self.fence(broker)

    def unfence(self, broker: int) -> None:
        self.active.add(broker)
        leader = self.partition.leader
        if leader < 0:
            leader = self._elect(self.partition.isr)
        self._change(leader=leader)

    def elect_another(self) -> None:
        others = [b for b in self.partition.isr if b in self.active and b != self.partition.leader]
        if others:
            self._change(leader=self.chance.choice(others))

    def alter(self, broker: int, broker_epoch: int, proposal: Proposal) -> ErrorCode:
        now = self.partition
        if broker_epoch != self.epochs[broker]:
            return ErrorCode.STALE_BROKER_EPOCH
        if now.leader != broker or proposal.leader_epoch != now.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if proposal.partition_epoch != now.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        for member, epoch in zip(proposal.isr, proposal.broker_epochs, strict=True):
            if member not in self.active or epoch not in (-1, self.epochs[member]):
                return ErrorCode.INELIGIBLE_REPLICA
        self._change(isr=proposal.isr)
        return ErrorCode.NONE
