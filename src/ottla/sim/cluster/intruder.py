"""Somebody without rights who tries everything, and administration that changes ACLs meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.client.admin.acls import (
    ALL_ACLS,
    Acl,
    AclFilter,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
)
from ottla.client.admin.admin import Admin
from ottla.client.admin.configs import ConfigResource, ResourceType
from ottla.client.consumer.consumer import Consumer
from ottla.client.errors import ClientError
from ottla.client.producer.producer import Producer
from ottla.client.values import TopicPartition
from ottla.protocol.errors import KafkaError
from ottla.sim.cluster.rights import ADMIN, INTRUDER, WORKER
from ottla.sim.cluster.work import Client, is_refusal
from ottla.sim.history import Violation

PAUSE_S = 1.0
POLL_MS = 2000
DELIVERY_MS = 6000
GUESTS_MAX = 6


class Intruder(Client):
    """Must be refused whatever it tries, wherever and whenever."""

    USER = INTRUDER

    def goes_on(self) -> bool:
        return self.work.writing

    async def live(self) -> None:
        async with Admin(**self.options) as admin:
            until = self.lifetime()
            while self.work.writing and self.work.now() < until:
                await self._intrude(admin)
                await asyncio.sleep(self.chance.expovariate(1.0) * PAUSE_S)

    async def _intrude(self, admin: Admin) -> None:
        topic = self.chance.choice(self.work.shape.topics)
        partition = self.chance.choice(topic.all())
        attempts = {
            "created a topic": lambda: admin.create_topic("intruded"),
            "deleted a topic": lambda: admin.delete_topic(topic.name),
            "grew a topic": lambda: admin.create_partitions(topic.name, 9),
            "changed a topic": lambda: admin.alter_config(
                ConfigResource(ResourceType.TOPIC, topic.name), {"retention.ms": "1"}
            ),
            "deleted records": lambda: admin.delete_records({partition: -1}),
            "gave itself a right": lambda: admin.create_acls([self._right_of_its_own()]),
            "removed ACLs": lambda: admin.delete_acls([ALL_ACLS]),
            "saw ACLs": admin.describe_acls,
            "elected a leader": lambda: admin.elect_leaders([partition]),
            "saw topics": lambda: self._see_topics(admin),
            "moved a group": lambda: admin.alter_group_offsets("members", {partition: 0}),
            "deleted a group": lambda: admin.delete_group("members"),
            "wrote a record": lambda: self._produce(partition),
            "read a record": lambda: self._consume(partition),
            "joined a group": self._join,
        }
        deed = self.chance.choice(sorted(attempts))
        try:
            outcome = _checked(await attempts[deed]())  # type: ignore[operator]
        except (ClientError, KafkaError, TimeoutError) as error:
            self._note(error)
            return
        raise Violation(f"{self.name} {deed} without a right to: {outcome}")

    def _note(self, error: BaseException) -> None:
        if is_refusal(error):
            self.work.refusals += 1
            self.work.did(self.name)

    def _right_of_its_own(self) -> Acl:
        return Acl(AclResourceType.TOPIC, "*", f"User:{INTRUDER}", AclOperation.ALL)

    async def _see_topics(self, admin: Admin) -> object:
        """Topics that it may not look at are left out of the list."""
        names = await admin.list_topics(internal=True)
        return _something([name for name in names if name != self.work.shape.plain.name])

    async def _produce(self, partition: TopicPartition) -> object:
        producer = Producer(
            **self.options,
            enable_idempotence=self.chance.random() < 0.5,
            delivery_timeout_ms=DELIVERY_MS,
            max_block_ms=DELIVERY_MS,
        )
        await producer.start()
        try:
            return await producer.send_and_wait(
                partition.topic, b"", b"intruder", partition=partition.partition
            )
        finally:
            await producer.close(1000)

    async def _consume(self, partition: TopicPartition) -> object:
        consumer = Consumer(**self.options, auto_offset_reset="earliest")
        await consumer.start()
        try:
            consumer.assign([partition])
            return _something(await consumer.poll(POLL_MS))
        finally:
            await consumer.close(1000)

    async def _join(self) -> object:
        options: dict[str, Any] = {"group_id": "members", "auto_offset_reset": "earliest"}
        consumer = Consumer(self.work.shape.plain.name, **self.options, **options)
        await consumer.start()
        try:
            found = await consumer.poll(POLL_MS)
            return _something(found or consumer.assignment())
        finally:
            await consumer.close(1000)


def _something(found: Any) -> Any:
    if not found:
        raise TimeoutError
    return found


class AclChurn(Client):
    """Adds and removes ACLs that allow and deny others something, and workers nothing new."""

    USER = ADMIN

    def goes_on(self) -> bool:
        return self.work.writing

    async def live(self) -> None:
        async with Admin(**self.options) as admin:
            until = self.lifetime()
            while self.work.writing and self.work.now() < until:
                if await self.attempt(lambda: self._change(admin)):
                    self.work.did(self.name)
                await asyncio.sleep(self.chance.expovariate(1.0) * PAUSE_S)

    async def _change(self, admin: Admin) -> None:
        guest = f"User:guest-{self.chance.randrange(GUESTS_MAX)}"
        if self.chance.random() < 0.3:
            _checked(await admin.delete_acls([AclFilter(principal=guest)]))
            return
        topic = self.chance.choice(self.work.shape.topics).name
        acls = [
            Acl(
                AclResourceType.TOPIC,
                topic[: self.chance.randint(1, len(topic))],
                guest,
                self.chance.choice((AclOperation.ALL, AclOperation.READ, AclOperation.WRITE)),
                self.chance.choice((AclPermission.ALLOW, AclPermission.DENY)),
                self.chance.choice((AclPatternType.LITERAL, AclPatternType.PREFIXED)),
            )
            for _ in range(self.chance.randint(1, 5))
        ]
        acls.append(Acl(AclResourceType.TOPIC, topic, f"User:{WORKER}", AclOperation.DESCRIBE))
        _checked(await admin.create_acls(acls))


def _checked(outcome: Any) -> Any:
    """Return the outcome of a call; raises the first error in it."""
    if isinstance(outcome, dict):
        for one in outcome.values():
            if isinstance(one, KafkaError):
                raise one
    return outcome
