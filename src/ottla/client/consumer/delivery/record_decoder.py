"""Turns a fetched batch into the deserialized records that an application gets.

Plain functions are called while the records are read. Deserializer objects, which take topic and
headers, are called afterwards. If a plain function raises, it is called again afterwards, to find
the failing record and deliver those before it.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.client.consumer.fetching.buffer import FetchedBatch
from ottla.client.errors import RecordDeserializationError
from ottla.client.serializers import Deserialize, deserializer_of, plain_function
from ottla.client.settings.consumer import ConsumerSettings
from ottla.client.values import AnyRecord, ConsumerRecord, TimestampType, TopicPartition
from ottla.records.engine import consumer_records
from ottla.records.errors import InvalidBatch
from ottla.records.reader import payload_of


class Decoded(NamedTuple):
    records: list[AnyRecord]
    failure: RecordDeserializationError | None = None
    """The error of the record after the last of them."""


class RecordDecoder:
    def __init__(self, settings: ConsumerSettings) -> None:
        key, value = settings.key_deserializer, settings.value_deserializer
        self._key_of = plain_function(key, "deserialize", "key_deserializer")
        self._value_of = plain_function(value, "deserialize", "value_deserializer")
        self._deserialize_key = deserializer_of(key, "key_deserializer")
        self._deserialize_value = deserializer_of(value, "value_deserializer")
        self._has_objects = (key is not None and self._key_of is None) or (
            value is not None and self._value_of is None
        )

    def decode(self, batch: FetchedBatch) -> Decoded:
        """Return the records from the batch's `from_offset` on. Raises `InvalidBatch`."""
        header = batch.header
        payload = payload_of(header, batch.data)
        append_time = header.max_timestamp if header.is_log_append_time else None
        arguments = (
            payload,
            header.record_count,
            header.base_offset,
            header.base_timestamp,
            append_time,
            batch.from_offset,
            *batch.partition,
            int(
                TimestampType.CREATE_TIME if append_time is None else TimestampType.LOG_APPEND_TIME
            ),
            header.partition_leader_epoch,
            ConsumerRecord,
        )
        if not self._has_objects:
            try:
                return Decoded(consumer_records(*arguments, self._key_of, self._value_of))
            except InvalidBatch:
                raise
            except Exception:  # raised by a deserializer: found again below, record by record
                pass
        return self._deserialize(batch.partition, consumer_records(*arguments))

    def _deserialize(self, partition: TopicPartition, raw: list[AnyRecord]) -> Decoded:
        done: list[AnyRecord] = []
        for record in raw:
            part = "key"
            try:
                key = _apply(self._deserialize_key, record, record.key)
                part = "value"
                value = _apply(self._deserialize_value, record, record.value)
            except Exception as error:
                failure = RecordDeserializationError(
                    partition, record.offset, part, record.key, record.value, error
                )
                return Decoded(done, failure)
            done.append(record._replace(key=key, value=value))
        return Decoded(done)


def _apply(deserialize: Deserialize | None, record: AnyRecord, data: bytes | None) -> object:
    return data if deserialize is None else deserialize(record.topic, data, record.headers)
