"""Decisions about client quotas. That they are Kafka's is compared in `tests/interop`."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.controller.client_quotas import alter_client_quotas
from ottla.broker.metadata.image import MetadataImage
from ottla.broker.metadata.security_image import QuotaEntity
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)

ALICE: QuotaEntity = (("user", "alice"),)
RATE = "producer_byte_rate"
Ops = dict[str, float | None]


def alter(
    image: MetadataImage, *changes: tuple[QuotaEntity, Ops], validate_only: bool = False
) -> tuple[MetadataImage, list[ErrorCode]]:
    entries = [
        RequestEntryData(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            ops=[OpData(key=k, value=v or 0.0, remove=v is None) for k, v in ops.items()],
        )
        for entity, ops in changes
    ]
    request = AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
    decision = alter_client_quotas(image, request)
    after = image.apply(decision.records, image.offset + len(decision.records), 1)
    return after, [ErrorCode.of(entry.error_code) for entry in decision.response.entries]


def test_an_entity_changes_completely_or_not_at_all():
    image, codes = alter(MetadataImage(), (ALICE, {RATE: 5.0, "no_such_key": 1.0}))
    assert codes == [ErrorCode.INVALID_REQUEST]
    assert image.client_quotas == {}


def test_one_refused_entity_does_not_stop_the_others():
    bob = (("user", "bob"),)
    image, codes = alter(MetadataImage(), (ALICE, {RATE: 0.0}), (bob, {RATE: 1.0}))
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert image.client_quotas == {bob: {RATE: 1.0}}


def test_what_is_not_a_number_is_no_quota():
    for key in (RATE, "request_percentage"):
        image, codes = alter(MetadataImage(), (ALICE, {key: math.nan}))
        assert codes == [ErrorCode.INVALID_REQUEST]
        assert image.client_quotas == {}


def test_a_change_to_the_same_value_writes_no_record():
    image, _ = alter(MetadataImage(), (ALICE, {RATE: 5.0}))
    same, codes = alter(image, (ALICE, {RATE: 5.0, "request_percentage": None}))
    assert codes == [ErrorCode.NONE]
    assert same.offset == image.offset


@pytest.mark.parametrize("name", ["localhost", "10.0.0", "10.0.0.1/8", "kafka"])
def test_an_address_is_no_host_name(name: str):
    _, codes = alter(MetadataImage(), ((("ip", name),), {"connection_creation_rate": 5.0}))
    assert codes == [ErrorCode.INVALID_REQUEST]


kinds = st.sets(st.sampled_from(("user", "client-id")), min_size=1)
names = st.sampled_from(("a", "b", None))
entities = kinds.flatmap(
    lambda chosen: st.tuples(*(st.tuples(st.just(kind), names) for kind in sorted(chosen)))
)
keys = st.sampled_from((RATE, "consumer_byte_rate", "request_percentage"))
values = st.none() | st.integers(1, 10).map(float)
changes = st.tuples(entities, st.dictionaries(keys, values, max_size=3))


@given(st.lists(st.lists(changes, max_size=4, unique_by=lambda change: change[0]), max_size=6))
def test_quotas_are_what_was_set_last(requests: list[list[tuple[QuotaEntity, Ops]]]):
    image = MetadataImage()
    model: dict[QuotaEntity, dict[str, float]] = {}
    for request in requests:
        tried, _ = alter(image, *request, validate_only=True)
        assert tried.client_quotas == image.client_quotas
        image, codes = alter(image, *request)
        assert not any(codes)
        for entity, ops in request:
            after = {**model.get(entity, {}), **ops}
            model[entity] = {key: value for key, value in after.items() if value is not None}
        assert image.client_quotas == {entity: found for entity, found in model.items() if found}
