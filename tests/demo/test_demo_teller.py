"""What the process with Spark tells of its batches."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from ottla.demo.driver import Teller


def progress(second: int, batch: int, rows: int) -> dict[str, Any]:
    return {
        "timestamp": f"2026-01-01T00:00:{second:02}.000Z",
        "batchId": batch,
        "numInputRows": rows,
        "durationMs": {"triggerExecution": 100},
        "sources": [{"startOffset": None, "endOffset": {"payments": {"0": rows}}}],
    }


def test_a_batch_is_told_though_an_idle_trigger_had_its_number_or_came_right_behind_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    nobody: Any = SimpleNamespace(progress=dict, queries=[], query=None)
    teller = Teller(nobody, nobody)
    recent = [progress(1, 0, 10), progress(2, 1, 0)]
    teller._report_new("intake", recent)
    teller._report_new("intake", recent)
    teller._report_new("intake", [*recent, progress(3, 1, 7), progress(4, 2, 0)])
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["batch"], one["rows"]) for one in told] == [(0, 10), (1, 0), (1, 7), (2, 0)]
