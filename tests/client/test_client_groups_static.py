"""Static members: they come back as who they were, and there is only one of each."""

from __future__ import annotations

import asyncio

import pytest
from bench.brokers import Broker
from consumer_tools import create_topic, run
from group_tools import PROTOCOLS, crew, shared, until

from ottla.protocol.errors import ErrorCode, KafkaError

all_protocols = pytest.mark.parametrize("protocol", ["eager", "cooperative", "new"])


@pytest.fixture
def bootstrap(group_broker: Broker) -> str:
    return group_broker.address


@all_protocols
def test_a_static_member_that_restarts_gets_its_partitions_back_and_nobody_notices(
    protocol: str, bootstrap: str, topic: str
) -> None:
    create_topic(bootstrap, topic, 4)

    async def main() -> None:
        async with crew(
            bootstrap, topic, **PROTOCOLS[protocol], session_timeout_ms=20_000
        ) as group:
            first = await group.join(group_instance_id="one")
            await until(shared(4, first))
            second = await group.join(group_instance_id="two")
            await until(shared(4, first, second))
            await asyncio.sleep(0.5)
            owned, told = first.owned, len(second.diary.events)
            await first.leave()
            again = await group.join(group_instance_id="one")
            await until(lambda: again.owned == owned)
            await asyncio.sleep(0.5)
            assert len(second.diary.events) == told
            assert shared(4, again, second)()

    run(main)


@pytest.mark.parametrize("protocol", ["eager", "cooperative"])
def test_the_older_of_two_classic_members_with_one_name_is_told(
    protocol: str, bootstrap: str, topic: str
) -> None:
    create_topic(bootstrap, topic, 2)

    async def main() -> None:
        async with crew(bootstrap, topic, **PROTOCOLS[protocol]) as group:
            older = await group.join(group_instance_id="one")
            await until(shared(2, older))
            newer = await group.join(group_instance_id="one")
            await until(lambda: older.failure is not None)
            assert isinstance(older.failure, KafkaError)
            assert older.failure.code is ErrorCode.FENCED_INSTANCE_ID
            assert "group_instance_id='one': each needs its own" in str(older.failure)
            await until(shared(2, newer))

    run(main)


def test_the_newer_of_two_members_of_the_new_protocol_with_one_name_is_told(
    bootstrap: str, topic: str
) -> None:
    create_topic(bootstrap, topic, 2)

    async def main() -> None:
        async with crew(bootstrap, topic, **PROTOCOLS["new"]) as group:
            older = await group.join(group_instance_id="one")
            await until(shared(2, older))
            newer = await group.join(group_instance_id="one")
            await until(lambda: newer.failure is not None)
            assert isinstance(newer.failure, KafkaError)
            assert newer.failure.code is ErrorCode.UNRELEASED_INSTANCE_ID
            assert shared(2, older)()
            await older.leave()
            newer.failure = None
            newer.go()  # the name is free now
            await until(shared(2, newer))

    run(main)
