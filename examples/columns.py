"""A million records there and back through Arrow, without a Python object for each."""

import asyncio
import time
import uuid

import pyarrow as pa
import pyarrow.compute as pc

from ottla import Consumer, Producer

BOOTSTRAP = "localhost:9092"
TOPIC = f"readings-{uuid.uuid4().hex[:8]}"
ROWS = 1_000_000


async def main() -> None:
    numbers = pa.array(range(ROWS), pa.int64())
    values = pc.binary_join_element_wise(pc.cast(numbers, pa.string()), "x" * 90, ":")
    table = pa.table({"key": pc.cast(pc.cast(numbers, pa.string()), pa.binary()), "value": values})

    async with Producer(bootstrap_servers=BOOTSTRAP) as producer:
        begun = time.perf_counter()
        await (await producer.send_arrow(TOPIC, table))
        print(f"sent {ROWS:,} rows in {time.perf_counter() - begun:.2f} s")

    async with Consumer(
        TOPIC,
        bootstrap_servers=BOOTSTRAP,
        group_id=f"reader-{TOPIC}",
        auto_offset_reset="earliest",
    ) as consumer:
        begun, rows, size = time.perf_counter(), 0, 0
        while rows < ROWS:
            batch = await consumer.fetch_arrow(timeout_ms=1000)
            rows += batch.num_rows
            if batch.num_rows:
                size += pc.sum(pc.binary_length(batch["value"])).as_py()
        print(f"read {rows:,} rows, {size:,} bytes of values, {time.perf_counter() - begun:.2f} s")


asyncio.run(main())
