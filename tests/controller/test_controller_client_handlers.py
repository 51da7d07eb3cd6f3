"""What any client asks first: which versions are served, and a producer id."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest
from handler_stage import Admin, versions, with_admin

from ottla.broker.server.contract import BROKERS, CONTROLLERS, SERVED, served_on
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest


def test_producer_ids_are_unique_also_across_a_restart(tmp_path: Path):
    seen: list[int] = []

    async def use(admin: Admin) -> None:
        for version in versions(ApiKey.INIT_PRODUCER_ID):
            request = InitProducerIdRequest(transactional_id=None)
            answers = await asyncio.gather(
                *(admin(ApiKey.INIT_PRODUCER_ID, request, version) for _ in range(300))
            )
            assert {a.producer_epoch for a in answers} == {0}
            seen.extend(answer.producer_id for answer in answers)

    with_admin(tmp_path, use)
    with_admin(tmp_path, use)
    assert len(seen) == len(set(seen)) == 2 * 7 * 300
    assert min(seen) == 0


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (InitProducerIdRequest(transactional_id=""), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest(transactional_id=None, producer_id=5), ErrorCode.INVALID_REQUEST),
    ],
)
def test_producer_ids_that_cannot_be_had(
    tmp_path: Path, request_: InitProducerIdRequest, code: ErrorCode
):
    async def use(admin: Admin) -> None:
        answer = await admin(ApiKey.INIT_PRODUCER_ID, request_)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)

    with_admin(tmp_path, use)


def test_every_served_api_is_served_on_the_listeners_that_kafka_has_it_on():
    assert served_on(BROKERS) | served_on(CONTROLLERS) == set(SERVED)
    assert ApiKey.PRODUCE not in served_on(CONTROLLERS)
    assert ApiKey.BROKER_HEARTBEAT not in served_on(BROKERS)
    assert ApiKey.CREATE_TOPICS in served_on(BROKERS) & served_on(CONTROLLERS)


def test_api_versions_are_the_served_ones(tmp_path: Path):
    async def use(admin: Admin) -> None:
        request = ApiVersionsRequest(
            client_software_name="some-client", client_software_version="1.0"
        )
        for version in versions(ApiKey.API_VERSIONS):
            answer = await admin(ApiKey.API_VERSIONS, request, version)
            told = {k.api_key: (k.min_version, k.max_version) for k in answer.api_keys}
            assert set(told) == served_on(BROKERS)
            assert told[ApiKey.PRODUCE] == (0, api(ApiKey.PRODUCE).versions[1])
            assert told[ApiKey.METADATA] == (0, 13)
            assert told[ApiKey.INIT_PRODUCER_ID] == (0, 5)
            if version >= 3:
                levels = {f.name: f.max_version_level for f in answer.finalized_features}
                assert levels == {
                    "metadata.version": 30,
                    "transaction.version": 2,
                    "group.version": 1,
                    "eligible.leader.replicas.version": 1,
                }
                supported = {f.name: f.min_version for f in answer.supported_features}
                from_level_0 = (
                    {
                        "transaction.version": 0,
                        "group.version": 0,
                        "kraft.version": 0,
                        "eligible.leader.replicas.version": 0,
                    }
                    if version >= 4
                    else {}
                )
                assert supported == {"metadata.version": 30, **from_level_0}
                assert answer.finalized_features_epoch >= 0

    with_admin(tmp_path, use)


@pytest.mark.parametrize(("name", "number"), [("", "1"), ("ok", "-1"), ("a b", "1"), ("x", "1.")])
def test_a_client_that_calls_itself_nonsense_is_refused(tmp_path: Path, name: str, number: str):
    async def use(admin: Admin) -> None:
        request = ApiVersionsRequest(client_software_name=name, client_software_version=number)
        for version, code in ((2, 0), (3, ErrorCode.INVALID_REQUEST)):
            answer = await admin(ApiKey.API_VERSIONS, request, version)
            assert answer.error_code == code

    with_admin(tmp_path, use)


def test_a_version_from_the_future_is_answered_with_those_there_are():
    from ottla.broker.server.handlers.api_versions import unsupported_version

    answer = unsupported_version(SimpleNamespace())  # type: ignore[arg-type]
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(k.api_key, k.min_version, k.max_version) for k in answer.api_keys] == [(18, 0, 4)]
