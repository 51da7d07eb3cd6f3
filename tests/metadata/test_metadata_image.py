from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from metadata_cases import FOLDER, config, partition, topic, topic_id

from ottla.broker.metadata.changes import ImageChange, MetadataInconsistent, apply_records
from ottla.broker.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.broker.metadata.records import decode_record, encode_record
from ottla.broker.metadata.replay import TransactionFilter
from ottla.protocol.metadata_records.abort_transaction_record import AbortTransactionRecord
from ottla.protocol.metadata_records.begin_transaction_record import BeginTransactionRecord
from ottla.protocol.metadata_records.broker_registration_change_record import (
    BrokerRegistrationChangeRecord,
)
from ottla.protocol.metadata_records.end_transaction_record import EndTransactionRecord
from ottla.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from ottla.protocol.metadata_records.fence_broker_record import FenceBrokerRecord
from ottla.protocol.metadata_records.no_op_record import NoOpRecord
from ottla.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from ottla.protocol.metadata_records.producer_ids_record import ProducerIdsRecord
from ottla.protocol.metadata_records.register_broker_record import RegisterBrokerRecord
from ottla.protocol.metadata_records.remove_topic_record import RemoveTopicRecord
from ottla.protocol.metadata_records.unregister_broker_record import UnregisterBrokerRecord
from ottla.protocol.schema import Message


def image_of(*records: Message) -> MetadataImage:
    return EMPTY_IMAGE.apply(records, len(records) - 1, 1)


def test_an_image_knows_its_offset_and_epoch_and_topics_by_name_and_id():
    image = EMPTY_IMAGE.apply([topic(1), partition(1, 0)], 7, 3)
    assert (image.offset, image.epoch) == (7, 3)
    assert image.topic("topic-1") is image.topics_by_id[topic_id(1)]
    assert image.partition("topic-1", 0) == image.topics["topic-1"].partitions[0]
    assert image.partition("topic-1", 1) is None
    assert image.partition("none", 0) is None


def test_an_older_image_never_changes():
    before = image_of(topic(1), partition(1, 0), config("topic-1", "a", "1"))
    copies = dict(before.topics), dict(before.topics["topic-1"].partitions), dict(before.configs)
    before.apply(
        [
            partition(1, 1),
            config("topic-1", "a", "2"),
            topic(2),
            RemoveTopicRecord(topic_id=topic_id(1)),
        ],
        9,
        1,
    )
    assert copies == (
        before.topics,
        before.topics["topic-1"].partitions,
        before.configs,
    )
    assert before.topic_config("topic-1") == {"a": "1"}


def test_topics_that_did_not_change_are_shared_with_the_older_image():
    before = image_of(topic(1), partition(1, 0), topic(2), partition(2, 0))
    after = before.apply([partition(2, 1)], 9, 1)
    assert after.topics["topic-1"] is before.topics["topic-1"]
    assert after.configs is before.configs
    assert after.brokers is before.brokers


def test_partitions_are_in_order_whatever_order_the_records_had():
    image = image_of(topic(1), partition(1, 2), partition(1, 0), partition(1, 1))
    assert list(image.topics["topic-1"].partitions) == [0, 1, 2]


def test_naming_a_leader_starts_a_leader_epoch_and_other_changes_do_not():
    image = image_of(topic(1), partition(1, 0))
    shrunk = image.apply(
        [PartitionChangeRecord(partition_id=0, topic_id=topic_id(1), isr=[2])], 9, 1
    )
    changed = shrunk.topics["topic-1"].partitions[0]
    assert (changed.leader, changed.leader_epoch, changed.partition_epoch) == (1, 0, 1)
    assert changed.isr == (2,)
    again = PartitionChangeRecord(partition_id=0, topic_id=topic_id(1), leader=1)
    led = shrunk.apply([again], 10, 1).topics["topic-1"].partitions[0]
    assert (led.leader, led.leader_epoch, led.partition_epoch) == (1, 1, 2)
    assert led.directories == (FOLDER, FOLDER)


def test_deleting_a_topic_forgets_its_configs():
    image = image_of(topic(1), config("topic-1", "retention.ms", "1"))
    after = image.apply([RemoveTopicRecord(topic_id=topic_id(1))], 5, 1)
    assert not after.topics
    assert not after.topics_by_id
    assert not after.configs


def test_a_config_that_loses_its_last_key_is_gone():
    image = image_of(config("t", "a", "1"), config("t", "b", "2"), config("t", "a", None))
    assert image.topic_config("t") == {"b": "2"}
    assert image.apply([config("t", "b", None)], 9, 1).configs == {}


def register(epoch: int = 0) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(broker_id=1, broker_epoch=epoch, log_dirs=[FOLDER], rack="r")


def test_brokers_are_registered_fenced_and_then_change():
    image = image_of(register())
    assert image.brokers[1].fenced
    unfence = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=0, fenced=-1)
    image = image.apply([unfence], 2, 1)
    assert image.brokers[1].is_active
    assert image.brokers[1].directories == (FOLDER,)
    leaving = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=0, in_controlled_shutdown=1)
    assert not image.apply([leaving], 3, 1).brokers[1].is_active
    assert image.apply([FenceBrokerRecord(id=1, epoch=0)], 3, 1).brokers[1].fenced
    gone = UnregisterBrokerRecord(broker_id=1, broker_epoch=0)
    assert image.apply([gone], 3, 1).brokers == {}


def test_features_and_producer_ids_are_kept():
    image = image_of(
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name="group.version", feature_level=1),
        ProducerIdsRecord(next_producer_id=1000),
        NoOpRecord(),
    )
    assert image.features == {"metadata.version": 30, "group.version": 1}
    assert image.next_producer_id == 1000
    off = image.apply([FeatureLevelRecord(name="group.version", feature_level=0)], 9, 1)
    assert off.features == {"metadata.version": 30}


@pytest.mark.parametrize(
    "records",
    [
        [partition(1, 0)],
        [RemoveTopicRecord(topic_id=topic_id(1))],
        [topic(1), PartitionChangeRecord(partition_id=0, topic_id=topic_id(1))],
        [topic(1), topic(2, "topic-1")],
        [register(), BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=9)],
        [FenceBrokerRecord(id=7)],
        [ProducerIdsRecord(next_producer_id=0)],
    ],
)
def test_records_that_do_not_fit_the_image_are_refused(records: list[Message]):
    with pytest.raises(MetadataInconsistent):
        image_of(*records)


def test_a_delta_tells_what_was_created_deleted_and_changed():
    before = image_of(
        topic(1), partition(1, 0), topic(2), partition(2, 0), topic(3), partition(3, 0)
    )
    records = [
        RemoveTopicRecord(topic_id=topic_id(1)),
        topic(4, "topic-1"),
        partition(4, 0),
        partition(2, 1),
        PartitionChangeRecord(partition_id=0, topic_id=topic_id(2), leader=2),
        config("topic-3", "a", "b"),
        topic(5),
        RemoveTopicRecord(topic_id=topic_id(5)),
    ]
    after, delta = apply_records(before, records, 20, 1)
    assert list(delta.deleted) == [topic_id(1)]
    assert list(delta.created) == [topic_id(4)]
    assert delta.created[topic_id(4)] is after.topics["topic-1"]
    assert [(c.before.name, c.partitions) for c in delta.changed.values()] == [("topic-2", (0, 1))]
    assert delta.topics_reconfigured() == ["topic-3"]
    assert delta


def test_records_that_change_nothing_make_an_empty_delta():
    assert not apply_records(EMPTY_IMAGE, [NoOpRecord()], 0, 1)[1]


def test_records_of_a_transaction_count_only_with_its_end():
    passed = TransactionFilter()

    def admitted(*records: Message) -> list[Message]:
        return list(passed.admit(records))

    assert admitted(topic(1), BeginTransactionRecord(), topic(2)) == [topic(1)]
    assert admitted(topic(3), EndTransactionRecord(), topic(4)) == [topic(2), topic(3), topic(4)]
    assert admitted(BeginTransactionRecord(), topic(5), AbortTransactionRecord(), topic(6)) == [
        topic(6)
    ]
    assert admitted(BeginTransactionRecord(), topic(7)) == []


class _Writer:
    """Makes records that fit what was written before, as a controller would."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.topics: dict[int, int] = {}
        self.made = 0
        self.epoch = 0
        self.producer_ids = 0

    def record(self) -> Message:
        kinds = ["topic", "config", "producer", "feature", "broker"]
        kinds += ["partition", "change", "remove"] if self.topics else []
        kind = self.data.draw(st.sampled_from(kinds))
        made: Message = getattr(self, kind)()
        return made

    def _number(self) -> int:
        return self.data.draw(st.sampled_from(sorted(self.topics)))

    def topic(self) -> Message:
        self.made += 1
        self.topics[self.made] = 0
        return topic(self.made, f"t{'._'[self.made % 2]}{self.made // 2}")

    def partition(self) -> Message:
        number = self._number()
        self.topics[number] += 1
        return partition(number, self.topics[number] - 1)

    def change(self) -> Message:
        number = self._number()
        if not self.topics[number]:
            return NoOpRecord()
        index = self.data.draw(st.integers(0, self.topics[number] - 1))
        leader = self.data.draw(st.sampled_from([-2, -1, 1, 2]))
        isr = self.data.draw(st.sampled_from([None, [1], [1, 2]]))
        return PartitionChangeRecord(
            partition_id=index, topic_id=topic_id(number), leader=leader, isr=isr
        )

    def remove(self) -> Message:
        number = self._number()
        del self.topics[number]
        return RemoveTopicRecord(topic_id=topic_id(number))

    def config(self) -> Message:
        value = self.data.draw(st.sampled_from([None, "1", "2"]))
        name = self.data.draw(st.sampled_from(["a", "t_1", ""]))
        return config(name, self.data.draw(st.sampled_from("xy")), value, kind=4 if not name else 2)

    def producer(self) -> Message:
        self.producer_ids += 1000
        return ProducerIdsRecord(next_producer_id=self.producer_ids)

    def feature(self) -> Message:
        level = self.data.draw(st.integers(0, 2))
        return FeatureLevelRecord(name="group.version", feature_level=level)

    def broker(self) -> Message:
        self.epoch += 1
        return register(self.epoch)


@given(st.data())
def test_replaying_the_log_gives_the_image_that_was_live(data: st.DataObject):
    writer = _Writer(data)
    live = MetadataImage(cluster_id="c")
    replayed = ImageChange(live)
    offset = -1
    for _ in range(data.draw(st.integers(0, 12), label="batches")):
        batch = [writer.record() for _ in range(data.draw(st.integers(1, 6), label="records"))]
        offset += len(batch)
        live = live.apply(batch, offset, 1)
        replayed.apply([decode_record(encode_record(record)) for record in batch])
    image, delta = replayed.finish(offset, 1 if offset >= 0 else -1)
    assert image == live
    assert {t.name for t in delta.created.values()} == set(live.topics)
    assert set(live.topics) == {t.name for t in live.topics_by_id.values()}
    assert sorted(n for names in live.names_unified.values() for n in names) == sorted(live.topics)
