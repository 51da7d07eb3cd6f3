"""Workers write in transactions that stay open; a coordinator looks at all of them and decides."""

import asyncio
import uuid

from ottla import Admin, Consumer, PreparedTransaction, Producer

BOOTSTRAP = "localhost:9092"
RUN = uuid.uuid4().hex[:8]
TOPIC = f"results-{RUN}"
WORKERS = 3


async def work(number: int) -> str:
    """A worker may end, or crash, once this text is out of its hands."""
    async with Producer(
        bootstrap_servers=BOOTSTRAP, transactional_id=f"job-{RUN}-{number}"
    ) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send(TOPIC, f"result of worker {number}".encode())
        return str(await producer.prepare_transaction())


async def main() -> None:
    promises = await asyncio.gather(*(work(number) for number in range(WORKERS)))
    async with Admin(bootstrap_servers=BOOTSTRAP) as admin:
        for text in promises:
            await admin.commit_prepared(PreparedTransaction.parse(text))
    async with Consumer(
        TOPIC,
        bootstrap_servers=BOOTSTRAP,
        group_id=f"reader-{RUN}",
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        for _ in range(WORKERS):
            print((await consumer.getone()).value.decode())


asyncio.run(main())
