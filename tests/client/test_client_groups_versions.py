"""Groups with brokers of long ago: every version of the requests that members send."""

from __future__ import annotations

import pytest
from bench.brokers import Broker
from consumer_tools import filled, run
from group_tools import PROTOCOLS, crew, everything, shared, until

from ottla.client.consumer.groups.classic.requests import (
    heartbeat_request,
    join_request,
    leave_request,
    sync_request,
)
from ottla.client.consumer.groups.commit_requests import MemberIdentity
from ottla.client.settings.consumer import ConsumerSettings
from ottla.client.values import TopicPartition
from ottla.network import versions
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.codec import encoder
from ottla.protocol.errors import KafkaError

OF_GROUPS = (
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
)


@pytest.fixture
def bootstrap(group_broker: Broker) -> str:
    return group_broker.address


@pytest.fixture
def spoken_at_most(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The client does as if it knew no newer version, as far as the broker allows."""
    limit: int = request.param
    known = versions.known_versions

    def older(key: int) -> tuple[int, int]:
        low, high = known(key)
        return (low, max(low, min(high, limit))) if key in OF_GROUPS else (low, high)

    monkeypatch.setattr(versions, "known_versions", older)
    return limit


@pytest.mark.parametrize("spoken_at_most", range(10), indirect=True)
def test_a_group_works_in_every_version(spoken_at_most: int, bootstrap: str, topic: str) -> None:
    filled(bootstrap, topic, 20, partitions=2)
    places = [TopicPartition(topic, 0), TopicPartition(topic, 1)]

    async def main() -> None:
        async with crew(bootstrap, topic, **PROTOCOLS["cooperative"]) as group:
            first, second = await group.join(), await group.join()
            await until(shared(2, first, second))
            await until(lambda: everything(first, second) == [*range(20)])
            await second.leave()
            await until(shared(2, first))
            found = await first.consumer.committed(places)
            assert {at.offset for at in found.values() if at is not None} == {10}

    run(main)


@pytest.mark.parametrize("instance", [None, "one"])
def test_every_version_of_each_request_can_be_written(instance: str | None) -> None:
    settings = ConsumerSettings(group_id="g", group_instance_id=instance)
    member = MemberIdentity(3, "m", instance)
    for version in _versions(ApiKey.JOIN_GROUP):
        if instance is not None and version < 5:
            with pytest.raises(KafkaError, match="group_instance_id"):
                join_request(settings, "m", {"range": b"x"}, "why", version)
        else:
            _write(join_request(settings, "m", {"range": b"x"}, "why", version), version)
    for version in _versions(ApiKey.SYNC_GROUP):
        _write(sync_request("g", member, "range", {"m": b"x"}, version), version)
    for version in _versions(ApiKey.HEARTBEAT):
        _write(heartbeat_request("g", member, version), version)
    for version in _versions(ApiKey.LEAVE_GROUP):
        _write(leave_request("g", "m", "why" * 200, version), version)


def _versions(key: ApiKey) -> range:
    low, high = api(key).versions
    return range(low, high + 1)


def _write(request: object, version: int) -> None:
    assert encoder(type(request), version)(request)
