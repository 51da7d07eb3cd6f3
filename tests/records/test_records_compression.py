"""The four codecs: framings, levels, damage, and bombs."""

import gzip
import json
import random
import struct
import subprocess
import sys
import textwrap

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol.errors import ErrorCode
from ottla.records.compression import Codec, compress, decompress
from ottla.records.errors import InvalidBatch

COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]
DATA = b"".join(b"line %d of some text that repeats itself\n" % i for i in range(6000))


@given(data=st.binary(max_size=5000), codec=st.sampled_from(Codec), repeat=st.integers(1, 50))
@settings(deadline=None)
def test_data_comes_back_and_the_bound_is_exact(data: bytes, codec: Codec, repeat: int) -> None:
    whole = data * repeat
    packed = compress(codec, memoryview(whole))
    assert decompress(codec, packed, len(whole)) == whole
    assert decompress(codec, memoryview(bytearray(packed)), len(whole) + 1) == whole
    if whole:
        with pytest.raises(InvalidBatch) as caught:
            decompress(codec, packed, len(whole) - 1)
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(
    ("codec", "levels"),
    [
        (Codec.GZIP, [-1, 1, 6, 9]),
        (Codec.LZ4, [1, 9, 12, 17]),
        (Codec.ZSTD, [-131072, -1, 3, 19, 22]),
    ],
)
def test_every_level_that_kafka_allows_works(codec: Codec, levels: list[int]) -> None:
    for level in levels:
        assert decompress(codec, compress(codec, DATA, level)) == DATA


def test_snappy_is_written_in_xerial_blocks_of_32_kilobytes() -> None:
    packed = compress(Codec.SNAPPY, DATA)
    assert packed[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    position, plain = 16, []
    while position < len(packed):
        (size,) = struct.unpack_from(">i", packed, position)
        position += 4 + size
        plain.append(len(cramjam.snappy.decompress_raw(packed[position - size : position])))
    assert plain == [32768] * (len(DATA) // 32768) + [len(DATA) % 32768]


def test_lz4_is_written_as_kafkas_reader_demands() -> None:
    packed = compress(Codec.LZ4, DATA)
    assert packed[:4] == b"\x04\x22\x4d\x18"
    flags, block_descriptor = packed[4], packed[5]
    assert flags >> 6 == 1, "version"
    assert flags >> 5 & 1 == 1, "blocks must not depend on each other"
    assert flags & 3 == 0, "reserved bits and dictionary"
    assert block_descriptor >> 4 & 7 in (4, 5, 6, 7)
    assert packed[-4:] == bytes(4), "end mark, no content checksum"


def test_lz4_blocks_that_do_not_shrink_are_stored_as_they_are() -> None:
    noise = random.Random(4).randbytes(150_000)
    packed = compress(Codec.LZ4, noise)
    assert len(packed) == 7 + 3 * 4 + len(noise) + 4
    assert decompress(Codec.LZ4, packed) == noise
    assert bytes(cramjam.lz4.decompress(packed)) == noise


@pytest.mark.parametrize("level", [None, 1, 9, 17])
@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 300_000])
def test_any_reader_of_lz4_frames_reads_what_is_written(size: int, level: int | None) -> None:
    data = (DATA * (size // len(DATA) + 1))[:size]
    assert bytes(cramjam.lz4.decompress(compress(Codec.LZ4, data, level))) == data


@pytest.mark.parametrize(
    ("codec", "packed"),
    [
        pytest.param(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(DATA)), id="raw snappy"),
        pytest.param(
            Codec.SNAPPY,
            compress(Codec.SNAPPY, DATA).replace(
                struct.pack(">ii", 1, 1), struct.pack("<ii", 1, 1), 1
            ),
            id="xerial with little-endian versions",
        ),
        pytest.param(Codec.LZ4, bytes(cramjam.lz4.compress(DATA)), id="lz4 with linked blocks"),
        pytest.param(Codec.GZIP, gzip.compress(DATA), id="gzip of the standard library"),
    ],
)
def test_other_framings_are_read(codec: Codec, packed: bytes) -> None:
    assert decompress(codec, packed) == DATA


@pytest.mark.parametrize("codec", COMPRESSED)
def test_concatenated_streams_are_read_as_one(codec: Codec) -> None:
    packed = compress(codec, DATA) + compress(codec, b"tail")
    assert decompress(codec, packed) == DATA + b"tail"


@pytest.mark.parametrize("codec", COMPRESSED)
def test_cut_data_is_an_invalid_record(codec: Codec) -> None:
    packed = compress(codec, DATA)
    for cut in (18, len(packed) // 2, len(packed) - 5):
        with pytest.raises(InvalidBatch, match="damaged") as caught:
            decompress(codec, packed[:cut])
        assert caught.value.code is ErrorCode.INVALID_RECORD


@given(
    codec=st.sampled_from(COMPRESSED),
    changes=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=6),
    cut=st.none() | st.integers(0, 400),
    tail=st.binary(max_size=40),
)
@settings(deadline=None, max_examples=400)
def test_damaged_data_is_read_or_refused_and_nothing_else(
    codec: Codec, changes: list[tuple[int, int]], cut: int | None, tail: bytes
) -> None:
    packed = bytearray(compress(codec, DATA[:1500]))
    for position, byte in changes:
        packed[position % len(packed)] = byte
    try:
        result = decompress(codec, bytes(packed[:cut]) + tail, 1 << 20)
    except InvalidBatch:
        return
    assert len(result) <= 1 << 20


@given(codec=st.sampled_from(COMPRESSED), noise=st.binary(max_size=200))
def test_noise_is_read_or_refused_and_nothing_else(codec: Codec, noise: bytes) -> None:
    try:
        decompress(codec, noise, 1 << 20)
    except InvalidBatch:
        return


BOMBS = """
    import cramjam, gc, json, struct, sys, zlib
    from ottla.records.compression import Codec, decompress
    from ottla.records.errors import InvalidBatch

    MAX_BYTES = 16 << 20

    def zstd(window_log):
        # Blocks that say "this byte, 131072 times" in 4 bytes: 10 GB in 320 KB.
        block = struct.pack("<I", 131072 << 3 | 1 << 1)[:3] + b"x"
        return b"\\x28\\xb5\\x2f\\xfd\\x00" + bytes([window_log - 10 << 3]) + block * 80_000

    def gzip():
        packer = zlib.compressobj(9, wbits=31)
        zeros = bytes(1 << 20)
        member = b"".join(packer.compress(zeros) for _ in range(64)) + packer.flush()
        return member * 20

    def lz4():
        block = bytes(cramjam.lz4.compress_block(bytes(4 << 20), store_size=False))
        frame = b"\\x04\\x22\\x4d\\x18\\x60\\x70\\x73"
        return frame + (struct.pack("<I", len(block)) + block) * 300 + bytes(4)

    def xerial():
        block = bytes(cramjam.snappy.compress_raw(bytes(32768)))
        head = b"\\x82SNAPPY\\x00" + struct.pack(">ii", 1, 1)
        return head + (struct.pack(">i", len(block)) + block) * 40_000

    raw_snappy = bytes(cramjam.snappy.compress_raw(bytes(MAX_BYTES + 1)))
    bombs = [
        (Codec.ZSTD, zstd(17), "MESSAGE_TOO_LARGE"),
        (Codec.ZSTD, zstd(27), "MESSAGE_TOO_LARGE"),
        (Codec.ZSTD, zstd(31), "INVALID_RECORD"),
        (Codec.GZIP, gzip(), "MESSAGE_TOO_LARGE"),
        (Codec.LZ4, lz4(), "MESSAGE_TOO_LARGE"),
        (Codec.SNAPPY, xerial(), "MESSAGE_TOO_LARGE"),
        (Codec.SNAPPY, raw_snappy, "MESSAGE_TOO_LARGE"),
        (Codec.SNAPPY, b"\\xff\\xff\\xff\\xff\\x0f" + bytes(100), "INVALID_RECORD"),
    ]

    def memory_kb(name):
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith(name))

    grown_kb = []
    for number, (codec, bomb, expected) in enumerate(bombs):
        gc.collect()
        with open("/proc/self/clear_refs", "w") as control:
            control.write("5")  # the peak counts from here
        before = memory_kb("VmRSS")
        try:
            decompress(codec, bomb, MAX_BYTES)
        except InvalidBatch as refused:
            if refused.code.name != expected:
                sys.exit(f"bomb {number}: {refused}")
        else:
            sys.exit(f"bomb {number} went off")
        grown_kb.append(memory_kb("VmHWM") - before)
    print(json.dumps(grown_kb))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")
def test_bombs_are_refused_within_the_memory_of_the_bound() -> None:
    script = textwrap.dedent(BOMBS)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    grown_kb = json.loads(done.stdout)
    assert max(grown_kb) < 2.5 * (16 << 10), f"16 MB were allowed, taken (KB): {grown_kb}"
    assert max(grown_kb) > 8 << 10, f"the measurement does not work: {grown_kb}"


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_bound_on_the_result_ends_the_work_and_changes_nothing_below_it(codec: Codec) -> None:
    data = random.Random(5).randbytes(3 << 20) + bytes(5 << 20)
    within = compress(codec, data, None, len(data) * 2)
    assert decompress(codec, within) == data
    cut = compress(codec, data, None, 100_000)
    assert 100_000 < len(cut) < 2 << 20
    assert compress(codec, DATA, None, len(DATA) * 2) == compress(codec, DATA)
