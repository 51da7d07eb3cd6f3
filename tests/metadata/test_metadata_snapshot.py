"""An image as records and back, and what lies between two images."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from metadata_cases import FOLDER, config, partition, topic

from ottla.broker.metadata.difference import difference
from ottla.broker.metadata.image import MetadataImage
from ottla.broker.metadata.records import decode_record, encode_record
from ottla.broker.metadata.snapshot import image_records
from ottla.protocol.metadata_records.access_control_entry_record import AccessControlEntryRecord
from ottla.protocol.metadata_records.client_quota_record import ClientQuotaRecord, EntityData
from ottla.protocol.metadata_records.delegation_token_record import DelegationTokenRecord
from ottla.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from ottla.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from ottla.protocol.metadata_records.producer_ids_record import ProducerIdsRecord
from ottla.protocol.metadata_records.register_broker_record import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
)
from ottla.protocol.metadata_records.register_controller_record import RegisterControllerRecord
from ottla.protocol.metadata_records.remove_access_control_entry_record import (
    RemoveAccessControlEntryRecord,
)
from ottla.protocol.metadata_records.remove_delegation_token_record import (
    RemoveDelegationTokenRecord,
)
from ottla.protocol.metadata_records.remove_topic_record import RemoveTopicRecord
from ottla.protocol.metadata_records.remove_user_scram_credential_record import (
    RemoveUserScramCredentialRecord,
)
from ottla.protocol.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from ottla.protocol.schema import Message


def broker(number: int, *, fenced: bool = False) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=number,
        incarnation_id=number.to_bytes(16, "big"),
        broker_epoch=number * 10,
        end_points=[BrokerEndpoint(name="PLAINTEXT", host="here", port=9000 + number)],
        features=[BrokerFeature(name="metadata.version", max_supported_version=30)],
        rack=f"rack-{number}",
        fenced=fenced,
        log_dirs=[FOLDER],
    )


def history(chance: random.Random) -> list[Message]:
    """Records that a controller could have written, in some order."""
    records: list[Message] = [
        FeatureLevelRecord(name="transaction.version", feature_level=2),
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        RegisterControllerRecord(controller_id=7, incarnation_id=b"c" * 16),
    ]
    alive: list[int] = []
    for number in range(1, chance.randrange(2, 30)):
        records += [topic(number, chance.choice([f"a.{number}", f"b_{number}"]))]
        records += [partition(number, index) for index in range(chance.randrange(1, 4))]
        alive.append(number)
        if chance.random() < 0.3:
            gone = alive.pop(chance.randrange(len(alive)))
            records.append(RemoveTopicRecord(topic_id=gone.to_bytes(16, "big")))
        if alive and chance.random() < 0.5:
            changed = chance.choice(alive).to_bytes(16, "big")
            change = PartitionChangeRecord(partition_id=0, topic_id=changed, isr=[1, 2], leader=2)
            change.adding_replicas, change.removing_replicas = [3], [1]
            records.append(change)
        records.append(config(f"a.{number}", "retention.ms", str(number)))
        records.append(broker(chance.randrange(5), fenced=chance.random() < 0.5))
        records.append(ProducerIdsRecord(next_producer_id=number * 1000))
    return records


def built(records: list[Message]) -> MetadataImage:
    return MetadataImage(cluster_id="c").apply(records, len(records) - 1, 3)


@pytest.mark.parametrize("seed", range(20))
def test_the_records_of_an_image_give_the_image_again(seed: int) -> None:
    image = built(history(random.Random(seed)))
    records = [decode_record(encode_record(record)) for record in image_records(image)]
    again = MetadataImage(cluster_id="c").apply(records, image.offset, image.epoch)
    assert again == image


def test_the_metadata_version_comes_first() -> None:
    first = next(image_records(built(history(random.Random(1)))))
    assert isinstance(first, FeatureLevelRecord)
    assert first.name == "metadata.version"


def test_acls_credentials_tokens_and_quotas_stay_until_they_are_removed() -> None:
    both = [
        EntityData(entity_type="user", entity_name="ann"),
        EntityData(entity_type="client-id", entity_name=None),
    ]
    quota = ClientQuotaRecord(entity=both, key="producer_byte_rate", value=5.0)
    more = ClientQuotaRecord(entity=both[::-1], key="producer_byte_rate", value=6.0)
    other = ClientQuotaRecord(entity=both[::-1], key="consumer_byte_rate", value=1.5)
    acls = [AccessControlEntryRecord(id=bytes([n]) * 16, principal="User:ann") for n in (1, 2)]
    users = [
        UserScramCredentialRecord(
            name="ann", mechanism=n, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
        )
        for n in (1, 2)
    ]
    tokens = [
        DelegationTokenRecord(token_id=name, owner="User:ann", renewers=["User:bo"])
        for name in ("a", "b")
    ]
    image = built([quota, *acls, *users, *tokens, more, other])
    assert list(image_records(image)) == [*acls, *users, *tokens, more, other]
    removed = [
        RemoveAccessControlEntryRecord(id=b"\1" * 16),
        RemoveUserScramCredentialRecord(name="ann", mechanism=2),
        RemoveDelegationTokenRecord(token_id="a"),
        ClientQuotaRecord(entity=both, key="consumer_byte_rate", remove=True),
    ]
    after = image.apply(removed, 20, 3)
    assert list(image_records(after)) == [acls[1], users[0], tokens[1], more]
    assert difference(image, after).security
    gone = after.apply(
        [ClientQuotaRecord(entity=both, key="producer_byte_rate", remove=True)], 21, 3
    )
    assert gone.client_quotas == {}
    assert gone.acls is after.acls


def test_no_secret_of_a_credential_is_shown() -> None:
    record = UserScramCredentialRecord(name="ann", mechanism=1, salt=b"salt", stored_key=b"secret")
    shown = repr(built([record]).scram_credentials)
    assert "secret" not in shown
    assert "salt" not in shown


@pytest.mark.parametrize("seed", range(20))
def test_the_difference_is_what_the_records_between_had_told(seed: int) -> None:
    chance = random.Random(seed)
    records = history(chance)
    cut = chance.randrange(len(records))
    before = built(records[:cut])
    after = replace(before).apply(records[cut:], len(records) - 1, 3)
    delta = difference(before, after)
    assert delta.created.keys() == after.topics_by_id.keys() - before.topics_by_id.keys()
    assert delta.deleted.keys() == before.topics_by_id.keys() - after.topics_by_id.keys()
    for topic_id, change in delta.changed.items():
        assert change.before == before.topics_by_id[topic_id]
        assert change.after == after.topics_by_id[topic_id]
        assert change.partitions
    assert all(before.brokers.get(i) != after.brokers.get(i) for i in delta.brokers)
    assert not difference(after, after)
