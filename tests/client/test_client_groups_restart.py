"""A coordinator that goes away and comes back, while members work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from bench.brokers import Broker
from consumer_tools import filled, numbers, produce, run
from group_tools import PROTOCOLS, crew, everything, shared, until

OPTIONS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
}

STARTER = ThreadPoolExecutor(1)
"""A broker ends with the thread that started it: this one outlives the event loop."""


@pytest.mark.parametrize("ended", ["killed", "stopped"])
@pytest.mark.parametrize("protocol", ["eager", "cooperative", "new"])
def test_members_go_on_after_their_coordinator_was_away(
    protocol: str, ended: str, fresh_broker: Callable[..., Broker], topic: str
) -> None:
    broker = fresh_broker(OPTIONS)
    bootstrap = broker.address
    filled(bootstrap, topic, 40, partitions=4)

    def bounce() -> None:
        if ended == "killed":
            broker.kill()
        else:
            broker.stop()
        broker.start()

    async def main() -> None:
        async with crew(
            bootstrap, topic, **PROTOCOLS[protocol], session_timeout_ms=20_000
        ) as group:
            first, second = await group.join(), await group.join()
            await until(shared(4, first, second))
            await until(lambda: everything(first, second) == [*range(40)])
            await asyncio.sleep(0.5)  # for auto-commit
            await asyncio.get_running_loop().run_in_executor(STARTER, bounce)
            more = numbers(80, 40)
            await asyncio.to_thread(produce, bootstrap, topic, more, partitions=4)
            await until(lambda: set(everything(first, second)) == {*range(80)})
            await until(shared(4, first, second))
            assert everything(first, second) == [*range(80)]
            await first.leave()
            await until(shared(4, second))
            assert not second.diary.told("lost")

    run(main)
