"""Slow work on many records at once, in order for each customer, committed only when done."""

import asyncio
import random
import uuid
from collections import defaultdict

from ottla import AnyRecord, Consumer, Producer

BOOTSTRAP = "localhost:9092"
RUN = uuid.uuid4().hex[:8]
TOPIC = f"orders-{RUN}"
COUNT = 400


async def fill() -> None:
    async with Producer(bootstrap_servers=BOOTSTRAP) as producer:
        for number in range(COUNT):
            await producer.send(TOPIC, str(number).encode(), b"customer-%d" % (number % 40))


async def main() -> None:
    await fill()
    done: dict[bytes, list[int]] = defaultdict(list)
    finished = asyncio.Event()

    async def deliver(record: AnyRecord) -> None:
        await asyncio.sleep(random.random() / 50)  # a call to another service
        done[record.key].append(int(record.value))
        if sum(map(len, done.values())) == COUNT:
            finished.set()

    async with Consumer(
        TOPIC,
        bootstrap_servers=BOOTSTRAP,
        group_id=f"delivery-{RUN}",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        await consumer.process(deliver, concurrency=20, until=finished)
    assert all(numbers == sorted(numbers) for numbers in done.values())
    print(f"{COUNT} orders of {len(done)} customers, each customer's in order")


asyncio.run(main())
