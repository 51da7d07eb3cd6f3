"""The measurement of compaction, in small: it works, and memory stays within the map's bounds."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.compaction import MAP_BYTES, measure_speed

INTERPRETER_BYTES = 80_000_000


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_a_small_log_is_measured(tmp_path: Path) -> None:
    speed = measure_speed(tmp_path, megabytes=5, record_bytes=500)
    assert speed.records == 10_016
    assert 0.2 * speed.bytes_read < speed.bytes_written < 0.3 * speed.bytes_read
    assert speed.peak_bytes < MAP_BYTES + INTERPRETER_BYTES
