"""The two processes of a prepared transaction.

    python prepared_process.py prepare <bootstrap> <topic> <transactional id> <value>
    python prepared_process.py commit|abort <bootstrap> <prepared>

The first one says what it has prepared and then waits to be killed. The second one says `done`, or
the name of the error and its text.
"""

from __future__ import annotations

import asyncio
import sys

from ottla.client.admin.admin import Admin
from ottla.client.errors import ClientError
from ottla.client.producer.producer import Producer


async def prepare(bootstrap: str, topic: str, name: str, value: str) -> None:
    producer = Producer(bootstrap_servers=bootstrap, transactional_id=name)
    await producer.start()
    await producer.init_transactions()
    await producer.begin_transaction()
    await producer.send(topic, value.encode())
    print(await producer.prepare_transaction(), flush=True)
    await asyncio.sleep(600)


async def end(bootstrap: str, text: str, *, commit: bool) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        try:
            await (admin.commit_prepared(text) if commit else admin.abort_prepared(text))
        except ClientError as error:
            print(type(error).__name__, error, flush=True)
        else:
            print("done", flush=True)


async def main(what: str, *arguments: str) -> None:
    if what == "prepare":
        await prepare(*arguments)
    else:
        await end(*arguments, commit=what == "commit")


asyncio.run(main(*sys.argv[1:]))
