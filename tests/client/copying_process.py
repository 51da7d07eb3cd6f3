"""Copies one topic to another exactly once, in capitals, until it is killed.

    python copying_process.py <bootstrap> <source> <target> <group> <transactional id> <protocol>

What one poll gives becomes one transaction: the changed records, and how far was read.
"""

from __future__ import annotations

import asyncio
import sys

from ottla.client.consumer.consumer import Consumer
from ottla.client.errors import TransactionFailed
from ottla.client.producer.producer import Producer


async def copy(bootstrap: str, source: str, target: str, group: str, name: str) -> None:
    async with (
        Producer(bootstrap_servers=bootstrap, transactional_id=name, linger_ms=1) as producer,
        Consumer(
            source,
            bootstrap_servers=bootstrap,
            group_id=group,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=20,
            session_timeout_ms=1_500,
            heartbeat_interval_ms=300,
        ) as consumer,
    ):
        await producer.init_transactions()
        print("ready", flush=True)
        while True:
            try:
                await copy_some(producer, consumer, target)
            except TransactionFailed as error:
                print(error, flush=True)
                await rewind(consumer)


async def copy_some(producer: Producer, consumer: Consumer, target: str) -> None:
    batches = await consumer.poll(timeout_ms=200)
    if not batches:
        return
    async with producer.transaction():
        for partition, records in batches.items():
            for record in records:
                await producer.send(target, record.value.upper(), partition=partition.partition)
        await producer.send_offsets_to_transaction(
            {partition: records[-1].offset + 1 for partition, records in batches.items()},
            consumer.group_metadata(),
        )


async def rewind(consumer: Consumer) -> None:
    """What was read for the aborted transaction is to be read again."""
    for partition, found in (await consumer.committed(consumer.assignment())).items():
        consumer.seek(partition, 0 if found is None else found.offset)


def main(bootstrap: str, source: str, target: str, group: str, name: str, protocol: str) -> None:
    if protocol == "1":
        from ottla.network.versions import Versions

        Versions.feature = lambda self, name: 0  # type: ignore[method-assign]
    asyncio.run(copy(bootstrap, source, target, group, name))


main(*sys.argv[1:])
