"""Clients that others wrote change ACLs, and are refused by ACLs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourcePatternFilter,
)
from kafka.admin import ResourceType as KafkaPythonResourceType

from ottla.config.authorization import STANDARD_AUTHORIZER
from sasl_broker import USERS, SaslBroker, sasl_options

pytestmark = pytest.mark.ottla_only


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    """Who does not sign in is a super user; alice and bob have no rights at first."""
    options = {
        **sasl_options("PLAIN"),
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:ANONYMOUS",
        "offsets.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    made = SaslBroker(tmp_path_factory.mktemp("acls"), options)
    made.start()
    yield made
    made.remove()


@pytest.fixture
def admin(broker: SaslBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.address})


def as_user(broker: SaslBroker, user: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.secured_address(),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": USERS[user],
    }


def allowing(kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    literal, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    return AclBinding(kind, name, literal, "User:alice", "*", operation, allow)


def everything() -> AclBindingFilter:
    any_operation, any_permission = AclOperation.ANY, AclPermissionType.ANY
    anybody: Any = None
    return AclBindingFilter(
        ResourceType.ANY,
        anybody,
        ResourcePatternType.ANY,
        anybody,
        anybody,
        any_operation,
        any_permission,
    )


def give(admin: AdminClient, *acls: AclBinding) -> None:
    for outcome in admin.create_acls(list(acls)).values():
        outcome.result(20)


def produce(broker: SaslBroker, user: str, topic: str) -> int:
    """Return the code of the outcome, 0 for success."""
    outcomes: list[int] = []
    settings = {"enable.idempotence": True, "message.timeout.ms": 15_000}
    producer = Producer({**as_user(broker, user), **settings})
    producer.produce(
        topic, b"x", on_delivery=lambda error, _: outcomes.append(error.code() if error else 0)
    )
    assert producer.flush(20) == 0
    return outcomes[0]


def test_librdkafka_creates_describes_and_deletes_acls(admin: AdminClient) -> None:
    wanted = [
        allowing(ResourceType.TOPIC, "t", AclOperation.READ),
        allowing(ResourceType.GROUP, "g", AclOperation.READ),
    ]
    give(admin, *wanted)
    found = admin.describe_acls(everything()).result(20)
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))
    ((deleted),) = admin.delete_acls([everything()]).values()
    assert len(deleted.result(20)) == len(wanted)
    assert admin.describe_acls(everything()).result(20) == []


def test_kafka_python_creates_describes_and_deletes_acls(broker: SaslBroker) -> None:
    client = KafkaAdminClient(bootstrap_servers=broker.address)
    try:
        acl = ACL(
            principal="User:bob",
            host="*",
            operation=ACLOperation.WRITE,
            permission_type=ACLPermissionType.ALLOW,
            resource_pattern=ResourcePattern(KafkaPythonResourceType.TOPIC, "t"),
        )
        assert client.create_acls([acl])["failed"] == []
        matching = ACLFilter(
            principal="User:bob",
            host=None,
            operation=ACLOperation.ANY,
            permission_type=ACLPermissionType.ANY,
            resource_pattern=ResourcePatternFilter(
                KafkaPythonResourceType.ANY, None, pattern_type=ACLResourcePatternType.ANY
            ),
        )
        found, _ = client.describe_acls(matching)
        assert found == [acl]
        ((_, deleted, _),) = client.delete_acls([matching])
        assert deleted == [acl]
    finally:
        client.close()


def test_librdkafka_writes_and_reads_what_it_may_and_nothing_else(
    broker: SaslBroker, admin: AdminClient
) -> None:
    for made in admin.create_topics([NewTopic("mine", 1), NewTopic("other", 1)]).values():
        made.result(20)
    refused = KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert produce(broker, "alice", "mine") == refused
    give(
        admin,
        allowing(ResourceType.TOPIC, "mine", AclOperation.READ),
        allowing(ResourceType.TOPIC, "mine", AclOperation.WRITE),
        allowing(ResourceType.GROUP, "g", AclOperation.READ),
    )
    assert produce(broker, "alice", "mine") == 0
    assert produce(broker, "alice", "other") == refused
    assert produce(broker, "bob", "mine") == refused

    alice = AdminClient(as_user(broker, "alice"))
    assert set(alice.list_topics(timeout=20).topics) == {"mine"}
    group = {"group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer({**as_user(broker, "alice"), **group})
    consumer.subscribe(["mine"])
    record = consumer.poll(20)
    assert record is not None
    assert record.error() is None
    assert record.value() == b"x"
    consumer.close()
    stranger = Consumer({**as_user(broker, "alice"), **group, "group.id": "another"})
    stranger.subscribe(["mine"])
    told = stranger.poll(20)
    assert told is not None
    error = told.error()
    assert error is not None
    assert error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    stranger.close()
