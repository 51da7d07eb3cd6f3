"""One member of a consumer group as a process of its own, so that a test can stop or kill it.

    python group_member.py <library> <bootstrap> <group> <topic> [setting=value ...]

Prints JSON lines: {"assigned": [partitions]} whenever its partitions change, {"read": [partition,
offset, value]} for every record, {"committed": true} when everything read so far is committed. A
topic that begins with ^ is a pattern. SIGTERM makes it leave the group and end.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from typing import Any

SESSION_MS = 2000
HEARTBEAT_MS = 300


def tell(what: str, value: Any) -> None:
    print(json.dumps({what: value}), flush=True)


def told_to_stop(*_: Any) -> None:
    raise KeyboardInterrupt


def confluent(bootstrap: str, group: str, topic: str, settings: dict[str, str]) -> None:
    from confluent_kafka import Consumer, KafkaError, KafkaException

    lost_partitions = {
        KafkaError._ASSIGNMENT_LOST,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.FENCED_MEMBER_EPOCH,
    }
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "topic.metadata.refresh.interval.ms": 500,
        **settings,
    }
    if settings.get("group.protocol") != "consumer":
        config = {
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            **config,
        }
    consumer = Consumer(config)
    shown: Any = None
    consumer.subscribe([topic])
    try:
        while True:
            messages = [m for m in consumer.consume(500, 0.1) if m.error() is None]
            owned = sorted(one.partition for one in consumer.assignment())
            if owned != shown:
                tell("assigned", owned)
                shown = owned
            for message in messages:
                value = message.value()
                assert value is not None
                tell("read", [message.partition(), message.offset(), value.decode()])
            if messages:
                try:
                    consumer.commit(asynchronous=False)
                except KafkaException as error:
                    # A member that slept may hold records that others have got since: not its to
                    # commit any more. It goes on as any application would.
                    if error.args[0].code() not in lost_partitions:
                        raise
                else:
                    tell("committed", True)
    finally:
        consumer.close()


def kafka_python(bootstrap: str, group: str, topic: str, settings: dict[str, str]) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from kafka.errors import CommitFailedError, RebalanceInProgressError

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }
    options: dict[str, Any] = {key.replace(".", "_"): value for key, value in settings.items()}
    if name := options.get("partition_assignment_strategy"):
        options["partition_assignment_strategy"] = [assignors[name]]
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        metadata_max_age_ms=500,
        **options,
    )

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
        def on_partitions_revoked(self, revoked: Any) -> None:
            kept = consumer.assignment() - set(revoked)
            tell("assigned", sorted(one.partition for one in kept))

        def on_partitions_assigned(self, assigned: Any) -> None:
            tell("assigned", sorted(one.partition for one in consumer.assignment()))

    if topic.startswith("^"):
        consumer.subscribe(pattern=topic, listener=Listener())
    else:
        consumer.subscribe([topic], listener=Listener())
    try:
        while True:
            found = consumer.poll(timeout_ms=500)
            for partition, records in found.items():
                for record in records:
                    tell("read", [partition.partition, record.offset, record.value.decode()])
            if found:
                try:
                    consumer.commit()
                except (CommitFailedError, RebalanceInProgressError):
                    continue
                tell("committed", True)
    finally:
        consumer.close()


def aiokafka(bootstrap: str, group: str, topic: str, settings: dict[str, str]) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener

    async def consume() -> None:
        stopped = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            metadata_max_age_ms=500,
            **{key.replace(".", "_"): value for key, value in settings.items()},
        )

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
            def on_partitions_revoked(self, revoked: Any) -> None:
                tell("assigned", [])

            def on_partitions_assigned(self, assigned: Any) -> None:
                tell("assigned", sorted(one.partition for one in assigned))

        if topic.startswith("^"):
            consumer.subscribe(pattern=topic, listener=Listener())
        else:
            consumer.subscribe([topic], listener=Listener())
        await consumer.start()
        try:
            while not stopped.is_set():
                found = await consumer.getmany(timeout_ms=100)
                for partition, records in found.items():
                    for record in records:
                        tell("read", [partition.partition, record.offset, record.value.decode()])
                if found:
                    await consumer.commit()
                    tell("committed", True)
        finally:
            await consumer.stop()

    asyncio.run(consume())


def ottla(bootstrap: str, group: str, topic: str, settings: dict[str, str]) -> None:
    import re

    from ottla.client.consumer.consumer import Consumer
    from ottla.client.consumer.groups.rebalance_listener import RebalanceListener
    from ottla.client.errors import CommitFailed

    options: dict[str, Any] = {key.replace(".", "_"): value for key, value in settings.items()}
    options = {key: int(one) if one.isdigit() else one for key, one in options.items()}
    if strategy := options.get("partition_assignment_strategy"):
        options["partition_assignment_strategy"] = strategy.split(",")
    if options.get("group_protocol") != "consumer":
        options = {
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": HEARTBEAT_MS,
            **options,
        }

    async def consume() -> None:
        stopped = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        consumer = Consumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            metadata_max_age_ms=500,
            **options,
        )
        read = committed = 0

        async def commit() -> None:
            nonlocal committed
            if read == committed:
                return
            try:
                reached = read
                await consumer.commit()
            except CommitFailed:
                return  # given to others, or will be tried again after the next poll
            committed = reached
            tell("committed", True)

        class Listener(RebalanceListener):
            async def on_partitions_revoked(self, partitions: Any) -> None:
                await commit()

            def on_partitions_lost(self, partitions: Any) -> None:
                pass

        if topic.startswith("^"):
            of_pattern: Any = topic if "group_protocol" in options else re.compile(topic)
            consumer.subscribe(pattern=of_pattern, listener=Listener())
        else:
            consumer.subscribe([topic], listener=Listener())
        shown: Any = None
        async with consumer:
            while not stopped.is_set():
                found = await consumer.poll(timeout_ms=100)
                owned = sorted(one.partition for one in consumer.assignment())
                if owned != shown:
                    tell("assigned", owned)
                    shown = owned
                for partition, records in found.items():
                    for record in records:
                        tell("read", [partition.partition, record.offset, record.value.decode()])
                        read += 1
                await commit()

    asyncio.run(consume())


LIBRARIES = {
    "confluent": confluent,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
    "ottla": ottla,
}

if __name__ == "__main__":
    library, bootstrap, group, topic, *settings = sys.argv[1:]
    signal.signal(signal.SIGTERM, told_to_stop)
    try:
        LIBRARIES[library](bootstrap, group, topic, dict(one.split("=", 1) for one in settings))
    except KeyboardInterrupt:
        pass
