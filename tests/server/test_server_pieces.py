"""A request in pieces asks for the same, and the pieces of its answer add up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from largest_requests import Filler, array_paths, requests_of

from ottla.broker.server.contract import SERVED
from ottla.broker.server.pieces import SPLITS, Gathered, cut, split_of, weight_of
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.codec import (
    decoder,
    decoder_in_steps,
    encoder,
    encoder_in_steps,
)
from ottla.protocol.errors import TooManyElements
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.runtime.pace import at_once

topics = st.lists(st.tuples(st.text(max_size=3), st.integers(0, 8)), max_size=12)


def pieces(request: object, size: int) -> list[object]:
    key = ApiKey(request.API_KEY)  # type: ignore[attr-defined]
    split = split_of(key, type(request), api(key).latest_stable)  # type: ignore[arg-type]
    assert split is not None
    return [piece for piece in cut(request, split, lambda: size) if piece is not None]  # type: ignore[arg-type]


@given(topics, st.integers(1, 10))
def test_pieces_ask_for_the_same_partitions_in_the_same_order(
    named: list[tuple[str, int]], size: int
) -> None:
    request = ListOffsetsRequest(
        isolation_level=1,
        topics=[
            ListOffsetsTopic(
                name=name,
                partitions=[ListOffsetsPartition(partition_index=n) for n in range(count)],
            )
            for name, count in named
        ],
    )
    asked = [(t.name, p.partition_index) for t in request.topics for p in t.partitions]
    found = pieces(request, size)
    assert asked == [
        (topic.name, partition.partition_index)
        for piece in found
        for topic in piece.topics  # type: ignore[attr-defined]
        for partition in topic.partitions
    ]
    for piece in found:
        assert piece.isolation_level == 1  # type: ignore[attr-defined]
        assert sum(max(1, len(topic.partitions)) for topic in piece.topics) <= size  # type: ignore[attr-defined]


@given(topics, st.integers(1, 10))
def test_the_answers_of_pieces_add_up_to_one_answer(
    named: list[tuple[str, int]], size: int
) -> None:
    request = ListOffsetsRequest(
        topics=[
            ListOffsetsTopic(
                name=name,
                partitions=[ListOffsetsPartition(partition_index=n) for n in range(count)],
            )
            for name, count in named
            if count
        ]
    )
    count = len(request.topics)
    asked = [(t.name, p.partition_index) for t in request.topics for p in t.partitions]
    gathered = Gathered(SPLITS[ApiKey.LIST_OFFSETS][0])
    for piece in pieces(request, size):
        gathered.add(
            ListOffsetsResponse(
                topics=[
                    ListOffsetsTopicResponse(
                        name=topic.name,
                        partitions=[
                            ListOffsetsPartitionResponse(partition_index=p.partition_index)
                            for p in topic.partitions
                        ],
                    )
                    for topic in piece.topics  # type: ignore[attr-defined]
                ]
            )
        )
    told = gathered.response.topics if gathered.response else []
    assert [(t.name, p.partition_index) for t in told for p in t.partitions] == asked
    if len({name for name, _ in named}) == len(named):
        assert len(told) == count, "a topic that was cut is one topic again"


def test_what_is_named_twice_stays_in_one_piece_and_is_named_twice_at_most() -> None:
    names = ["a", "b", "a", "c", "a", "b"]
    request = CreateTopicsRequest(topics=[CreatableTopic(name=name) for name in names])
    found = pieces(request, 2)
    assert [[topic.name for topic in piece.topics] for piece in found] == [  # type: ignore[attr-defined]
        ["a", "a"],
        ["b", "b"],
        ["c"],
    ]


def test_a_group_that_wants_all_of_its_offsets_keeps_wanting_all() -> None:
    wanted = OffsetFetchRequestTopics(name="t", partition_indexes=[1, 2, 2, 3])
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(group_id="all", topics=None),
            OffsetFetchRequestGroup(group_id="some", topics=[wanted]),
        ]
    )
    every, first, rest = (piece.groups for piece in pieces(request, 2))  # type: ignore[attr-defined]
    assert (every[0].group_id, every[0].topics) == ("all", None)
    assert first[0].topics[0].partition_indexes == [1, 2]
    assert rest[0].topics[0].partition_indexes == [3]


def test_one_thing_that_is_too_much_is_refused() -> None:
    replicas = [CreatableReplicaAssignment(partition_index=n) for n in range(20_001)]
    topic = CreatableTopic(name="t", assignments=replicas)
    with pytest.raises(TooManyElements):
        pieces(CreateTopicsRequest(topics=[topic]), 10)


def test_what_is_refused_is_freed_step_by_step() -> None:
    """With whatever else is in the request."""
    others = [CreatableReplicaAssignment(partition_index=n) for n in range(3_000)]
    replicas = [CreatableReplicaAssignment(partition_index=n) for n in range(20_001)]
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(name="t", assignments=replicas),
            CreatableTopic(name="other", assignments=others),
        ]
    )
    split = split_of(ApiKey.CREATE_TOPICS, CreateTopicsRequest, 7)
    assert split is not None
    found: list[object] = []
    with pytest.raises(TooManyElements):
        found.extend(cut(request, split, lambda: 100))
    assert not replicas
    assert not others
    assert len(found) > 23_000
    assert not any(found)


def test_weights_are_of_all_that_is_inside() -> None:
    replicas = [
        CreatableReplicaAssignment(partition_index=n, broker_ids=[1, 2, 3]) for n in range(5)
    ]
    configs = [CreatableTopicConfig(name=str(n), value="") for n in range(7)]
    topic = CreatableTopic(name="t", assignments=replicas, configs=configs)
    assert weight_of(topic) == 1 + 5 * 4 + 7
    assert weight_of(topic, 4) == 1 + 5 + 7  # five are too many already
    assert weight_of("name") == 1


@pytest.mark.parametrize("key", sorted(SERVED), ids=lambda key: key.name)
def test_codecs_in_steps_do_what_codecs_do(key: ApiKey) -> None:
    version = api(key).latest_stable
    for _, request in requests_of(key, version, 20, bytes(16)):
        frame = b"".join(map(bytes, encoder(type(request), version)(request)))
        at_once_decoded = decoder(type(request), version)(frame, 0)
        assert at_once(decoder_in_steps(type(request), version)(frame, 0)) == at_once_decoded
    response_class = api(key).response_class()
    filler = Filler(version, known=False, topic_id=bytes(16))
    for path in list(array_paths(response_class, version)) or [()]:
        if key is ApiKey.FETCH_SNAPSHOT:
            continue  # its records have no default
        response = filler.struct(response_class, path, 5_000 if key is ApiKey.METADATA else 100)
        whole = b"".join(map(bytes, encoder(response_class, version)(response)))
        stepwise = at_once(encoder_in_steps(response_class, version)(response))
        assert b"".join(map(bytes, stepwise)) == whole
