"""Every API that ApiVersions names, on every listener that serves it: refused to a principal
without rights, with nothing changed, and allowed with exactly the right of the table.

The samples are in modules of their own; `API_RIGHTS` is the table.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from rights_node import NodeWithRights, node_with_rights
from rights_of_all import SAMPLES
from rights_samples import Sample, codes_in

from ottla.broker.server.api_rights import API_RIGHTS
from ottla.broker.server.contract import BROKERS, CONTROLLERS, SERVED, served_on
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.security.rights import Operation, ResourceType, Right

ON_EACH_LISTENER = [
    (sample, kind) for sample in SAMPLES for kind in sample.kinds if not sample.needs_sign_in
]
OF_TOKENS = [sample for sample in SAMPLES if sample.needs_sign_in]
NAMED_AT_RANDOM = Right(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN)
"""Its samples would have to know the id of a token."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeWithRights]:
    with node_with_rights(tmp_path_factory.mktemp("rights")) as there:
        yield there


@pytest.mark.parametrize("kind", [BROKERS, CONTROLLERS])
def test_every_served_api_has_a_sample(kind: str) -> None:
    assert {sample.key for sample in SAMPLES if kind in sample.kinds} == served_on(kind)


@pytest.mark.parametrize("key", SERVED, ids=lambda key: key.name)
def test_each_right_of_the_table_allows_something(key: ApiKey) -> None:
    granted = {
        Right(grant.operation, grant.resource_type)
        for sample in SAMPLES
        if sample.key == key
        for grant in sample.grants
    }
    assert rights_in_table(key) - {NAMED_AT_RANDOM} <= granted


@pytest.mark.parametrize(("sample", "kind"), ON_EACH_LISTENER, ids=str)
def test_a_request_needs_exactly_its_right(node: NodeWithRights, sample: Sample, kind: str) -> None:
    node.rights.give()
    node.rights.asked_quietly.clear()
    node.create(*sample.topics)
    sample.prepare(node)
    request, version = sample.request(node), sample.asked_version

    before = node.state()
    node.rights.asked.clear()
    answer = node.ask_on(kind, request, version)
    if sample.grants:
        assert codes_in(answer) == ({sample.refused} if sample.refused else set())
        assert not sample.shown(answer)
        assert node.state() == before

    assert len(sample.lacking) == (len(sample.grants) if len(sample.grants) > 1 else 0)
    for lacking, code in zip(sample.grants, sample.lacking, strict=False):
        node.rights.give(*(grant for grant in sample.grants if grant is not lacking))
        answer = node.ask_on(kind, request, version)
        assert codes_in(answer) == ({code} if code else set()), f"without {lacking}"
        assert not sample.shown(answer)
        assert node.state() == before

    node.rights.give(*sample.grants)
    answer = node.ask_on(kind, request, version)
    assert codes_in(answer) == ({sample.allowed} if sample.allowed else set())
    assert sample.shown(answer) or not (sample.grants and not sample.refused)

    assert node.rights.asked <= rights_in_table(sample.key)
    if sample.grants:
        assert node.rights.asked | node.rights.asked_quietly, "nothing was asked"


@pytest.mark.parametrize("sample", OF_TOKENS, ids=str)
def test_who_did_not_sign_in_gets_no_token(node: NodeWithRights, sample: Sample) -> None:
    node.rights.give(*sample.grants)
    before = node.state()
    for kind in sample.kinds:
        answer = node.ask_on(kind, sample.request(node), sample.asked_version)
        assert codes_in(answer) == {ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED}
    assert node.state() == before


def rights_in_table(key: ApiKey) -> set[Right]:
    declared = API_RIGHTS[key]
    return {right for right in (declared.before, *declared.for_elements) if right is not None}
