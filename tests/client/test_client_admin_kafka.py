"""Administration of what our own broker does not serve yet, against Apache Kafka.

One Kafka for the whole module, with an authorizer and two folders; skipped without its jars.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from admin_tools import administer, until
from bench.brokers import Kafka

from ottla.client.admin.acls import (
    Acl,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResourceType,
)
from ottla.client.admin.admin import Admin
from ottla.client.admin.log_dirs import ReplicaOf
from ottla.client.admin.users import (
    ScramCredential,
    ScramDeletion,
    ScramMechanism,
    ScramUpsertion,
)
from ottla.client.values import TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError


@pytest.fixture(scope="module")
def kafka(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("kafka-for-admin")
    broker = Kafka(
        folder,
        {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "log.dirs": f"{folder}/data,{folder}/more",
        },
        libs=kafka_libs,
    )
    try:
        yield broker.start().address
    finally:
        broker.remove()


def test_rules_are_added_listed_and_taken_away(kafka: str, topic: str) -> None:
    may_read = Acl(AclResourceType.TOPIC, topic, "User:alice", AclOperation.READ)
    may_not = Acl(AclResourceType.TOPIC, topic, "User:bob", AclOperation.ALL, AclPermission.DENY)

    async def work(admin: Admin) -> None:
        wrong = Acl(AclResourceType.TOPIC, topic, "alice", AclOperation.READ)
        outcome = await admin.create_acls([may_read, may_not, wrong])
        assert (outcome[may_read], outcome[may_not]) == (None, None)
        assert isinstance(outcome[wrong], KafkaError)
        of_topic = AclFilter(AclResourceType.TOPIC, topic)

        async def are_there() -> bool:
            return await admin.describe_acls(of_topic) == sorted([may_read, may_not])

        await until(are_there)
        of_bob = AclFilter(principal="User:bob")
        assert await admin.delete_acls([of_bob]) == {of_bob: [may_not]}

        async def one_is_left() -> bool:
            return await admin.describe_acls() == [may_read]

        await until(one_is_left)
        await admin.delete_acls([AclFilter()])

    administer(kafka, work)


def test_passwords_are_set_and_taken_away(kafka: str, topic: str) -> None:
    async def work(admin: Admin) -> None:
        strong = ScramUpsertion(topic, "secret", ScramMechanism.SCRAM_SHA_512, 8192)
        assert "secret" not in repr(strong)
        weak = ScramUpsertion(f"{topic}.weak", "secret", iterations=1)
        outcome = await admin.alter_user_scram_credentials([strong, weak])
        assert outcome[topic] is None
        refused = outcome[f"{topic}.weak"]
        assert refused is not None
        assert refused.code is ErrorCode.UNACCEPTABLE_CREDENTIAL

        async def is_there() -> bool:
            found = (await admin.describe_user_scram_credentials([topic]))[topic]
            return found == [ScramCredential(ScramMechanism.SCRAM_SHA_512, 8192)]

        await until(is_there)
        gone = ScramDeletion(topic, ScramMechanism.SCRAM_SHA_512)
        assert await admin.alter_user_scram_credentials([gone]) == {topic: None}

        async def is_gone() -> bool:
            return topic not in await admin.describe_user_scram_credentials()

        await until(is_gone)

    administer(kafka, work)


def test_partitions_are_moved_and_leaders_elected(kafka: str, topic: str) -> None:
    one = TopicPartition(topic, 0)

    async def work(admin: Admin) -> None:
        await admin.create_topic(topic, partitions=1)
        (broker,) = (await admin.describe_cluster()).brokers
        nowhere = await admin.alter_partition_reassignments({one: [broker + 7]})
        refused = nowhere[one]
        assert refused is not None
        assert refused.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert await admin.alter_partition_reassignments({one: [broker]}) == {one: None}
        assert await admin.list_partition_reassignments() == {}
        assert await admin.list_partition_reassignments([one]) == {}
        cancelled = (await admin.alter_partition_reassignments({one: None}))[one]
        assert cancelled is not None
        assert cancelled.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        elected = (await admin.elect_leaders([one]))[one]
        assert elected is not None
        assert elected.code is ErrorCode.ELECTION_NOT_NEEDED
        assert await admin.elect_leaders(election_type="unclean") == {}

    administer(kafka, work)


def test_a_replica_moves_to_another_folder(kafka: str, topic: str) -> None:
    one = TopicPartition(topic, 0)

    async def work(admin: Admin) -> None:
        await admin.create_topic(topic, partitions=1)

        async def is_there() -> bool:
            return any(found.replicas for found in await admin.describe_log_dirs(partitions=[one]))

        await until(is_there)
        folders = await admin.describe_log_dirs(partitions=[one])
        (here,) = (folder for folder in folders if folder.replicas)
        (there,) = (folder for folder in folders if not folder.replicas)
        replica = ReplicaOf(topic, 0, here.broker)
        assert await admin.alter_replica_log_dirs({replica: there.path}) == {replica: None}

        async def has_moved() -> bool:
            now = await admin.describe_log_dirs(partitions=[one])
            return [folder.path for folder in now if folder.replicas] == [there.path]

        await until(has_moved)
        wrong = (await admin.alter_replica_log_dirs({replica: "/nowhere"}))[replica]
        assert wrong is not None
        assert wrong.code is ErrorCode.LOG_DIR_NOT_FOUND

    administer(kafka, work)


def test_the_quorum_is_described(kafka: str) -> None:
    quorum = administer(kafka, lambda admin: admin.describe_metadata_quorum())
    assert quorum.leader in {voter.node_id for voter in quorum.voters}
    assert quorum.high_watermark > 0
    assert quorum.observers == ()
    (voter,) = (voter for voter in quorum.voters if voter.node_id == quorum.leader)
    assert quorum.lag_of(voter) == 0
    assert voter.directory_id is not None
    assert quorum.leader in quorum.nodes


def test_a_voter_that_does_not_exist_cannot_be_removed(kafka: str) -> None:
    with pytest.raises(KafkaError) as refused:
        administer(kafka, lambda admin: admin.remove_raft_voter(77, "kXSyEMBiQkKj0yEAzPXpRg"))
    assert refused.value.code in (ErrorCode.VOTER_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)


def test_a_voter_that_cannot_be_reached_is_not_added(kafka: str) -> None:
    endpoints = {"CONTROLLER": ("127.0.0.1", 9)}

    async def work(admin: Admin) -> None:
        await admin.add_raft_voter(77, "kXSyEMBiQkKj0yEAzPXpRg", endpoints)

    with pytest.raises(KafkaError) as refused:
        administer(kafka, work)
    assert refused.value.code in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNSUPPORTED_VERSION)


def test_features_are_raised_and_lowered(kafka: str) -> None:
    async def work(admin: Admin) -> None:
        name = "transaction.version"
        level = (await admin.describe_features()).finalized[name]
        assert level >= 1
        await admin.update_features({name: level - 1}, downgrade="safe", validate_only=True)
        assert (await admin.describe_features()).finalized[name] == level
        with pytest.raises(KafkaError):
            await admin.update_features({name: level - 1})
        with pytest.raises(KafkaError):
            await admin.update_features({"no.such.feature": 1})

    administer(kafka, work)


def test_a_broker_that_was_never_there_cannot_be_unregistered(kafka: str) -> None:
    with pytest.raises(KafkaError) as refused:
        administer(kafka, lambda admin: admin.unregister_broker(77))
    assert refused.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED
