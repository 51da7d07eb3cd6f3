"""No request holds the event loop for long, whatever it asks for: each served API is tried.

`python tests/server/largest_requests.py` does the same with everything at its maximum.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

import pytest
from largest_requests import GROUP, NODES, Longest, Probe, frame_of, measure

import ottla.testing
from ottla.broker.coordinator.classic.group import ClassicGroup
from ottla.broker.coordinator.classic.settings import GroupSettings
from ottla.broker.coordinator.group_shard import GroupShard
from ottla.broker.coordinator.service import Coordinators
from ottla.broker.coordinator.transactions.shard import TransactionShard
from ottla.broker.coordinator.transactions.transaction import Transaction
from ottla.broker.metadata.resources import ResourceType
from ottla.broker.metadata.security_image import DelegationToken, ScramCredential
from ottla.broker.server.contract import BROKERS, CONTROLLERS, served_on
from ottla.broker.server.handlers import describe_delegation_token
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.codec import decoder
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from ottla.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.list_config_resources import ListConfigResourcesRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.security.acls import AccessControlEntry
from ottla.security.rights import Operation, PatternType, Permission
from ottla.security.rights import ResourceType as ResourceKind

TURN_MS_MAX = 50.0
ELEMENTS = 3_000
GARBAGE_MAX = 500
"""One object for each element of a request would be more."""

SECURITY = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "secret",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Probe]:
    with ottla.testing.cluster(nodes=NODES[BROKERS], settings=SECURITY) as cluster:
        yield Probe(cluster)


@pytest.fixture(scope="module")
def controller() -> Iterator[Probe]:
    with ottla.testing.cluster(nodes=NODES[CONTROLLERS]) as cluster:
        yield Probe(cluster)


def check(results: Iterator[Longest]) -> None:
    told = list(results)
    too_long = [result for result in told if result.turn_ms > TURN_MS_MAX]
    assert not too_long, "\n".join(map(str, too_long))
    kept = [f"{result.name}: {result.garbage}" for result in told if result.garbage > GARBAGE_MAX]
    assert not kept, "\n".join(kept)


@pytest.mark.parametrize("key", sorted(served_on(BROKERS)), ids=lambda key: key.name)
def test_a_broker_serves_others_while_it_answers_much(broker: Probe, key: ApiKey) -> None:
    check(measure(broker, BROKERS, key, ELEMENTS))


@pytest.mark.parametrize("key", sorted(served_on(CONTROLLERS)), ids=lambda key: key.name)
def test_a_controller_serves_others_while_it_answers_much(controller: Probe, key: ApiKey) -> None:
    check(measure(controller, CONTROLLERS, key, ELEMENTS))


def test_a_hundred_thousand_names_do_not_hold_the_loop(broker: Probe) -> None:
    topics = [MetadataRequestTopic(name=f"no-{number}") for number in range(100_000)]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    result = broker.longest(BROKERS, "Metadata", frame_of(request, 12))
    assert result.response_bytes > 1_000_000
    assert result.turn_ms < TURN_MS_MAX, result


def test_a_broker_is_described_once_however_often_it_is_named(broker: Probe) -> None:
    resource = DescribeConfigsResource(
        resource_type=4, resource_name=str(broker.node.node_id), configuration_keys=None
    )
    request = DescribeConfigsRequest(
        resources=[resource] * 3_000, include_synonyms=True, include_documentation=True
    )
    frame = frame_of(request, 4)
    result = broker.longest(BROKERS, "DescribeConfigs", frame)
    assert result.turn_ms < TURN_MS_MAX, result
    answer = broker.ask(BROKERS, frame)
    assert answer is not None
    response = decoder(DescribeConfigsResponse, 4)(answer, 5)[0]
    assert len(response.results) <= 2
    assert len(response.results[0].configs) > 100


def test_more_elements_than_an_api_serves_are_refused(broker: Probe) -> None:
    topics = [MetadataRequestTopic(name="no") for _ in range(100_001)]
    assert broker.ask(BROKERS, frame_of(MetadataRequest(topics=topics), 12)) is None


def test_what_is_too_much_is_refused_in_slices(broker: Probe) -> None:
    """100,000 keys of one resource cannot be cut."""
    configs = [AlterableConfig(name=f"key-{number}") for number in range(99_000)]
    resource = AlterConfigsResource(resource_type=2, resource_name="no", configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource])
    result = broker.longest(BROKERS, "IncrementalAlterConfigs", frame_of(request, 1))
    assert not result.response_bytes
    assert result.turn_ms < TURN_MS_MAX / 2, result


def shards(coordinators: Coordinators) -> tuple[list[GroupShard], list[TransactionShard]]:
    """Return those that are loaded; none while one is loading."""
    try:
        return (
            [shard for _, shard in coordinators.groups.shards()],
            [shard for _, shard in coordinators.transactions.coordinator.shards()],
        )
    except KafkaError:
        return [], []


def test_lists_of_a_hundred_thousand_entries_do_not_hold_the_loop(
    broker: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their answers grow with what a broker stores, not with the request."""
    services = broker.node.broker.services
    many = range(100_000)
    group = ClassicGroup(GROUP, GroupSettings(), Random(1))
    transaction = Transaction("t", producer_id=1, timeout_ms=60_000)

    def fill() -> None:
        (groups, *_), (transactions, *_) = shards(services.coordinators)
        groups.groups = dict.fromkeys(map(str, many), group)
        transactions.transactions = dict.fromkeys(map(str, many), transaction)

    def set_image(**maps: object) -> None:
        """In the image of later changes too: the controller may make one at any time."""
        metadata = services.metadata
        metadata.image = replace(metadata.image, **maps)
        metadata.pending = replace(metadata.pending, **maps)

    def image_with(**maps: object) -> tuple[Callable[[], None], Callable[[], None]]:
        return lambda: set_image(**maps), lambda: set_image(**{name: {} for name in maps})

    def empty() -> None:
        (groups, *_), (transactions, *_) = shards(services.coordinators)
        groups.groups, transactions.transactions = {}, {}

    find = FindCoordinatorRequest(key="t", key_type=1)
    broker.ask(BROKERS, frame_of(find, 3))
    deadline = time.monotonic() + 20
    while not all(broker.look(lambda: shards(services.coordinators))):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    answers = []
    # Tokens are shown on no listener of this broker.
    monkeypatch.setattr(describe_delegation_token, "may_request_tokens", lambda caller: True)
    token = DelegationToken("User:a", "User:a", ("User:b",), 1, 2, 3)
    user = ScramCredential(b"salt", b"stored key", b"server key", 4096)
    rates = {"producer_byte_rate": 1.0, "consumer_byte_rate": 2.0}
    anything = DescribeAclsRequest(
        resource_type_filter=ResourceKind.ANY,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=Operation.ANY,
        permission_type=Permission.ANY,
    )
    acls = {
        number.to_bytes(16, "big"): AccessControlEntry(2, f"t{number}", 3, "User:a", "*", 3, 3)
        for number in many
    }
    one_topic = {acl_id: acl._replace(resource_name="t") for acl_id, acl in acls.items()}
    configs = {(ResourceType.CLIENT_METRICS, str(number)): {} for number in many}
    quotas = {(("client-id", "a"), ("user", str(number))): rates for number in many}
    for request, (before, after) in (
        (ListGroupsRequest(), (fill, empty)),
        (ListTransactionsRequest(transactional_id_pattern="t+"), (fill, empty)),
        (ListConfigResourcesRequest(), image_with(configs=configs)),
        (anything, image_with(acls=acls)),
        (anything, image_with(acls=one_topic)),
        (DescribeClientQuotasRequest(), image_with(client_quotas=quotas)),
        (
            DescribeUserScramCredentialsRequest(users=None),
            image_with(scram_credentials={(str(number), 2): user for number in many}),
        ),
        (
            DescribeDelegationTokenRequest(owners=None),
            image_with(delegation_tokens=dict.fromkeys(map(str, many), token)),
        ),
    ):
        version = api(ApiKey(request.API_KEY)).latest_stable
        broker.look(before)
        try:
            name = type(request).__name__
            answers.append(broker.longest(BROKERS, name, frame_of(request, version)))
        finally:
            broker.look(after)
    for answer in answers:
        print(answer)
        assert answer.response_bytes > 500_000, answer
        assert answer.turn_ms < TURN_MS_MAX, answer
