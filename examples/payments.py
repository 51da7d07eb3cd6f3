"""Send payments as JSON and read them back in a group."""

import asyncio
import json
import uuid
from typing import Any

from ottla import Consumer, ConsumerRecord, Producer

BOOTSTRAP = "localhost:9092"
TOPIC = f"payments-{uuid.uuid4().hex[:8]}"
COUNT = 100


async def pay() -> None:
    async with Producer(
        bootstrap_servers=BOOTSTRAP,
        key_serializer=str.encode,
        value_serializer=lambda value: json.dumps(value).encode(),
    ) as producer:
        for number in range(COUNT):
            await producer.send(
                TOPIC, {"number": number, "amount": 7 * number}, f"card-{number % 9}"
            )


async def book() -> None:
    total = seen = 0
    record: ConsumerRecord[str, dict[str, Any]]
    async with Consumer(
        TOPIC,
        bootstrap_servers=BOOTSTRAP,
        group_id=f"ledger-{TOPIC}",
        auto_offset_reset="earliest",
        key_deserializer=bytes.decode,
        value_deserializer=json.loads,
    ) as consumer:
        async for record in consumer:
            total += record.value["amount"]
            seen += 1
            if seen == COUNT:
                break
    print(f"{seen} payments, {total} in all")
    assert total == sum(7 * number for number in range(COUNT))


async def main() -> None:
    await pay()
    await book()


asyncio.run(main())
