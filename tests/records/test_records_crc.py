"""The checksum of a batch."""

import subprocess
import sys

import pytest

from ottla.records.crc import crc32c


def test_the_check_value_of_the_castagnoli_polynomial() -> None:
    assert crc32c(b"123456789") == 0xE3069283


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_and_any_split_give_the_same_sum(kind: type) -> None:
    data = bytes(range(256)) * 40
    whole = crc32c(kind(data))
    for split in (0, 1, 7, 4096, len(data)):
        assert crc32c(kind(data)[split:], crc32c(kind(data)[:split])) == whole


def test_the_checksum_comes_without_the_rest_of_its_package() -> None:
    script = "import sys, ottla.records.crc; print('importlib.metadata' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
