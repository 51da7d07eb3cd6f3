"""How messages behave in the hands of those who build, encode and decode them."""

from __future__ import annotations

import pytest
from protocol_samples import joined

from ottla.protocol.codec import decode_source, decoder, encode_source, encoder
from ottla.protocol.encoding import JOINED_RECORDS_BYTES_MAX
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
    ReplicaState,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.protocol.wire import write_uvarint


class Slice:
    """Stands in for a part of a file: it has a length and cannot be read."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count


def produce(records: object) -> ProduceRequest:
    partition = PartitionProduceData(index=1, records=records)  # type: ignore[arg-type]
    return ProduceRequest(
        acks=-1, timeout_ms=5, topic_data=[TopicProduceData(name="t", partition_data=[partition])]
    )


def fetched(*records: object) -> FetchResponse:
    partitions = [
        PartitionData(partition_index=index, records=entry)  # type: ignore[arg-type]
        for index, entry in enumerate(records)
    ]
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("version", [3, 9])
def test_decoded_records_are_a_view_of_the_input(kind: type, version: int) -> None:
    data = bytearray(joined(encoder(ProduceRequest, version)(produce(b"r" * 1000))))
    source = kind(data)
    message, _ = decoder(ProduceRequest, version)(source, 0)
    records = message.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is (data if kind is memoryview else source)
    assert records == b"r" * 1000


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_every_kind_of_buffer_decodes_from_any_position(kind: type) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="ä")])
    data = joined(encoder(MetadataRequest, 9)(request))
    buffer = kind(bytearray(b"head" + data + b"tail"))
    assert decoder(MetadataRequest, 9)(buffer, 4) == (request, 4 + len(data))


def test_large_records_leave_as_chunks_of_their_own() -> None:
    large = b"x" * (JOINED_RECORDS_BYTES_MAX + 1)
    chunks = encoder(FetchResponse, 12)(fetched(large, b"small", large))
    assert len(chunks) == 5
    assert chunks[1] is large
    assert chunks[3] is large
    message, _ = decoder(FetchResponse, 12)(joined(chunks), 0)
    assert message == fetched(large, b"small", large)


def test_a_part_of_a_file_is_passed_through_unread() -> None:
    part = Slice(10)
    chunks = encoder(FetchResponse, 12)(fetched(part))
    assert chunks[1] is part
    length = write_uvarint(11)
    assert bytes(chunks[0]).endswith(length)  # type: ignore[arg-type]
    chunks[1] = b"0123456789"
    message, _ = decoder(FetchResponse, 12)(joined(chunks), 0)
    assert message == fetched(b"0123456789")


def test_an_empty_part_of_a_file_adds_no_chunk() -> None:
    chunks = encoder(FetchResponse, 12)(fetched(Slice(0)))
    assert len(chunks) == 1


def test_a_version_outside_the_range_is_refused() -> None:
    with pytest.raises(ValueError, match="ProduceRequest has versions 3 to 13, not 2"):
        decoder(ProduceRequest, 2)
    with pytest.raises(ValueError, match="not 14"):
        encoder(ProduceRequest, 14)


def test_a_value_the_version_cannot_carry_is_refused() -> None:
    request = FetchRequest(replica_state=ReplicaState(replica_id=3))
    with pytest.raises(ValueError, match="FetchRequest v12 replica_state: version 12 cannot"):
        encoder(FetchRequest, 12)(request)


def test_an_ignorable_value_is_left_out_in_silence() -> None:
    data = joined(encoder(FetchRequest, 10)(FetchRequest(rack_id="r1")))
    assert decoder(FetchRequest, 10)(data, 0)[0] == FetchRequest()


@pytest.mark.parametrize(
    "request_",
    [
        CreateTopicsRequest(topics=[CreatableTopic(name=None)]),  # type: ignore[arg-type]
        CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1 << 31)]),
        CreateTopicsRequest(topics=[CreatableTopic(name="t" * 0x8000)]),
        CreateTopicsRequest(topics=None),  # type: ignore[arg-type]
        CreateTopicsRequest(timeout_ms="soon"),  # type: ignore[arg-type]
    ],
    ids=["null", "too large", "too long", "null array", "not a number"],
)
def test_a_value_that_does_not_fit_its_field_is_a_value_error(
    request_: CreateTopicsRequest,
) -> None:
    with pytest.raises(ValueError, match=r"encode CreateTopicsRequest v5|at most 32767"):
        encoder(CreateTopicsRequest, 5)(request_)


@pytest.mark.parametrize("size", [15, 17])
def test_a_uuid_of_the_wrong_size_is_refused(size: int) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=bytes(size))])
    with pytest.raises(ValueError, match="topic_id: a uuid is 16 bytes"):
        encoder(MetadataRequest, 12)(request)


def test_unknown_tagged_fields_are_skipped() -> None:
    data = joined(encoder(MetadataRequest, 9)(MetadataRequest()))
    extended = data[:-1] + b"\x02\x05\x03abc\x90\x01\x00"
    assert decoder(MetadataRequest, 9)(extended, 0) == (MetadataRequest(), len(extended))


def test_unknown_tagged_fields_beside_known_ones_are_skipped() -> None:
    data = joined(encoder(FetchRequest, 12)(FetchRequest(cluster_id="c")))
    assert data.endswith(b"\x01\x00\x02\x02c")
    extended = data[:-5] + b"\x02\x00\x02\x02c\x63\x03abc"
    assert decoder(FetchRequest, 12)(extended, 0) == (FetchRequest(cluster_id="c"), len(extended))


def test_construction_takes_keywords_and_kafkas_defaults() -> None:
    request = FetchRequest(max_wait_ms=3)
    assert (request.max_wait_ms, request.max_bytes, request.session_epoch) == (3, 0x7FFFFFFF, -1)
    assert request.cluster_id is None
    with pytest.raises(TypeError, match="no_such_field"):
        FetchRequest(no_such_field=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        FetchRequest(3)  # type: ignore[misc]
    with pytest.raises(AttributeError):
        request.no_such_field = 1  # type: ignore[attr-defined]


def test_default_arrays_are_not_shared() -> None:
    first, second = FetchRequest(), FetchRequest()
    first.topics.append(None)  # type: ignore[arg-type]
    assert second.topics == []


def test_a_default_struct_is_shared_and_cannot_be_changed() -> None:
    partition = PartitionData()
    assert partition.current_leader is PartitionData().current_leader
    assert isinstance(partition.current_leader, LeaderIdAndEpoch)
    assert partition.current_leader == LeaderIdAndEpoch()
    assert LeaderIdAndEpoch() == partition.current_leader
    with pytest.raises(AttributeError, match="shared default of LeaderIdAndEpoch"):
        partition.current_leader.leader_id = 5
    partition.current_leader = LeaderIdAndEpoch(leader_id=5)
    assert PartitionData().current_leader.leader_id == -1


def test_equality_looks_at_every_field_and_at_the_class() -> None:
    assert FetchRequest(max_wait_ms=1) != FetchRequest(max_wait_ms=2)
    assert LeaderIdAndEpoch(leader_id=1) == LeaderIdAndEpoch(leader_id=1)
    assert FetchRequest() != FetchResponse()
    assert LeaderIdAndEpoch() != "text"


def test_a_message_shows_its_fields() -> None:
    assert repr(LeaderIdAndEpoch(leader_id=1)) == "LeaderIdAndEpoch(leader_id=1, leader_epoch=-1)"
    assert "current_leader=LeaderIdAndEpoch(" in repr(PartitionData())


def test_codecs_are_compiled_once() -> None:
    assert decoder(FetchRequest, 12) is decoder(FetchRequest, 12)
    assert encoder(FetchRequest, 12) is encoder(FetchRequest, 12)


def test_the_compiled_source_can_be_read() -> None:
    assert "def decode(data, pos=0, left=" in decode_source(FetchRequest, 12)
    assert "def encode(message):" in encode_source(FetchRequest, 12)
