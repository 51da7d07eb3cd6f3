"""Read, change, write: each record exactly once, whatever happens to this program.

What was written and how far was read are committed together, in one transaction. Stop it at any
moment and start it again: a transaction that was open is aborted, its records are read anew.
"""

import asyncio
import uuid

from ottla import Consumer, OffsetAndMetadata, Producer

BOOTSTRAP = "localhost:9092"
RUN = uuid.uuid4().hex[:8]
SOURCE, TARGET = f"words-{RUN}", f"shouted-{RUN}"
COUNT = 1000


async def fill() -> None:
    async with Producer(bootstrap_servers=BOOTSTRAP) as producer:
        for number in range(COUNT):
            await producer.send(SOURCE, f"word {number}".encode())


async def copy() -> None:
    copied = 0
    async with (
        Consumer(
            SOURCE,
            bootstrap_servers=BOOTSTRAP,
            group_id=f"shouter-{RUN}",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        ) as consumer,
        Producer(bootstrap_servers=BOOTSTRAP, transactional_id=f"shouter-{RUN}-0") as producer,
    ):
        await producer.init_transactions()
        while copied < COUNT:
            batches = await consumer.poll(timeout_ms=1000)
            if not batches:
                continue
            async with producer.transaction():
                for records in batches.values():
                    for record in records:
                        await producer.send(TARGET, record.value.upper(), record.key)
                offsets = {
                    partition: OffsetAndMetadata(records[-1].offset + 1)
                    for partition, records in batches.items()
                }
                await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            copied += sum(len(records) for records in batches.values())


async def check() -> None:
    seen: list[bytes] = []
    async with Consumer(
        TARGET,
        bootstrap_servers=BOOTSTRAP,
        group_id=f"reader-{RUN}",
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        while len(seen) < COUNT:
            for records in (await consumer.poll(timeout_ms=1000)).values():
                seen += [record.value for record in records]
    assert sorted(seen) == sorted(f"WORD {number}".encode() for number in range(COUNT))
    print(f"{len(seen)} records, each once")


async def main() -> None:
    await fill()
    await copy()
    await check()


asyncio.run(main())
