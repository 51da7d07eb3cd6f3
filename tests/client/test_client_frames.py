"""Cutting the stream into frames."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.network.frames import SCRATCH_BYTES, FrameReader, FrameTooLarge


def feed(reader: FrameReader, stream: bytes, chunk_bytes: int) -> list[bytes]:
    """Everything that comes out when `stream` arrives in chunks of at most `chunk_bytes`."""
    frames: list[bytes] = []
    while stream:
        space = reader.space()
        count = min(len(space), chunk_bytes, len(stream))
        space[:count] = stream[:count]
        stream = stream[count:]
        frames += [bytes(frame) for frame in reader.received(count)]
    return frames


def framed(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


@given(
    st.lists(st.binary(max_size=300), max_size=20),
    st.integers(min_value=1, max_value=700),
)
def test_frames_come_out_whole_however_the_stream_is_cut(
    contents: list[bytes], chunk_bytes: int
) -> None:
    stream = b"".join(framed(content) for content in contents)
    assert feed(FrameReader(1 << 20), stream, chunk_bytes) == contents


def test_a_frame_larger_than_the_scratch_buffer_does_not_disturb_its_neighbours() -> None:
    large = bytes(range(256)) * (3 * SCRATCH_BYTES // 256)
    contents = [b"before", large, b"after", b""]
    stream = b"".join(framed(content) for content in contents)
    assert feed(FrameReader(1 << 20), stream, SCRATCH_BYTES) == contents


@pytest.mark.parametrize("size", [-1, 101, 2**31 - 1])
def test_a_frame_of_impossible_size_is_refused_before_memory_is_taken(size: int) -> None:
    with pytest.raises(FrameTooLarge, match=str(size)):
        feed(FrameReader(100), size.to_bytes(4, "big", signed=True), 4)


def test_a_large_frame_keeps_its_memory_when_the_next_one_arrives() -> None:
    reader = FrameReader(1 << 20)
    first, second = b"a" * 2 * SCRATCH_BYTES, b"b" * 2 * SCRATCH_BYTES
    stream = memoryview(framed(first) + framed(second))
    kept = []
    while stream:
        space = reader.space()
        count = min(len(space), len(stream))
        space[:count] = stream[:count]
        stream = stream[count:]
        kept += list(reader.received(count))
    assert [bytes(frame) for frame in kept] == [first, second]
