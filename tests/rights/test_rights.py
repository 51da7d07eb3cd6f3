"""Every API that ApiVersions names, on every listener that serves it, with and without TLS and
SASL: refused to a principal without rights, with nothing changed, and allowed with exactly the
right of the table.

The samples are in modules of their own; `API_RIGHTS` is the table.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from rights_node import NodeWithRights, node_with_rights
from rights_of_all import SAMPLES
from rights_samples import Sample, codes_in
from rights_transports import PROTOCOLS, Transport

from ottla.broker.server.api_rights import API_RIGHTS
from ottla.broker.server.contract import BROKERS, CONTROLLERS, SERVED, served_on
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.security.rights import Operation, ResourceType, Right

NodeOf = Callable[[str], NodeWithRights]
OF_TOKENS = [sample for sample in SAMPLES if sample.needs_sign_in]
OF_SIGNING_IN = {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
"""A client that has signed in signs in again by them: `tests/sign_in` tests that."""


ON_EACH_LISTENER = [
    pytest.param(protocol, sample, kind, id=f"{protocol}-{sample}-{kind}")
    for protocol in PROTOCOLS
    for sample in SAMPLES
    for kind in sample.kinds
    if not (protocol == "PLAINTEXT" and sample.needs_sign_in)
    and not (protocol.startswith("SASL") and sample.key in OF_SIGNING_IN)
]
NAMED_AT_RANDOM = Right(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN)
"""Its samples would have to know the id of a token."""


@pytest.fixture(scope="module")
def node_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeOf]:
    """(protocol) -> a node whose listeners speak it."""
    with ExitStack() as stack:

        @functools.cache
        def node(protocol: str) -> NodeWithRights:
            folder = tmp_path_factory.mktemp(protocol)
            transport = Transport(protocol, folder / "transport")
            return stack.enter_context(node_with_rights(folder / "data", transport))

        yield node


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


@pytest.mark.parametrize(("protocol", "sample", "kind"), ON_EACH_LISTENER)
def test_a_request_needs_exactly_its_right(
    node_of: NodeOf, protocol: str, sample: Sample, kind: str
) -> None:
    node = node_of(protocol)
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
def test_who_did_not_sign_in_gets_no_token(node_of: NodeOf, sample: Sample) -> None:
    node = node_of("PLAINTEXT")
    node.rights.give(*sample.grants)
    before = node.state()
    for kind in sample.kinds:
        answer = node.ask_on(kind, sample.request(node), sample.asked_version)
        assert codes_in(answer) == {ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED}
    assert node.state() == before


def rights_in_table(key: ApiKey) -> set[Right]:
    declared = API_RIGHTS[key]
    return {right for right in (declared.before, *declared.for_elements) if right is not None}
