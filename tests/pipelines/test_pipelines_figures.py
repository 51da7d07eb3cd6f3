"""Figures from Spark's progress, errors in a line, records found, outputs compared: all pure."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ottla.client.values import TopicPartition
from ottla.pipelines import logs
from ottla.pipelines.comparing import compare
from ottla.pipelines.context import Context
from ottla.pipelines.declared import locate
from ottla.pipelines.explaining import query_error, record_in
from ottla.pipelines.lag import entry, total
from ottla.pipelines.progress import (
    QueryFigures,
    merged_offsets,
    rows_in,
    summed,
    topic_offsets,
)
from ottla.pipelines.reprocess import behind


def batch(number: int, rows: int, end: int, **more: Any) -> dict[str, Any]:
    offsets = {"t": {"0": end}, "@ids": {"t": "abc"}}
    return {
        "batchId": number,
        "numInputRows": rows,
        "inputRowsPerSecond": 50.0,
        "durationMs": {"triggerExecution": 200, "addBatch": 150},
        "sources": [{"endOffset": offsets, "latestOffset": {"t": {"0": end + 3}}}],
        "sink": {"numOutputRows": -1},
        **more,
    }


def test_batches_are_counted_once_however_often_they_are_shown() -> None:
    figures = QueryFigures("q")
    batches = [batch(number, 10, 10 * (number + 1)) for number in range(5)]
    figures.add(batches[:3])
    figures.add(batches[:3])
    figures.add(batches[1:])
    found = figures.as_json()
    assert (found["rows_in"], found["batch"]) == (50, 4)
    assert (found["done_per_s"], found["batch_ms"]) == (50.0, 200.0)
    assert (found["offsets"], found["lag"]) == ({"t": {"0": 50}}, 3)
    assert found["rows_out"] is None


def test_rows_out_are_those_counted_on_the_way_and_state_is_added_up() -> None:
    figures = QueryFigures("q")
    operators = [
        {"numRowsTotal": 5, "memoryUsedBytes": 100, "numRowsDroppedByWatermark": 1},
        {"numRowsTotal": 2, "memoryUsedBytes": 50, "numRowsDroppedByWatermark": 0},
    ]
    counted = {"rows_out": {"rows": 4}}
    figures.add([batch(0, 10, 10, observedMetrics=counted, stateOperators=operators)])
    figures.add([batch(1, 10, 20, observedMetrics=counted, stateOperators=operators)])
    found = figures.as_json()
    assert (found["rows_out"], found["state_rows"], found["state_bytes"]) == (8, 7, 150)
    assert summed([found, {**found, "rows_out": None}])["rows_out"] == 8
    assert summed([])["batch_ms"] is None
    read_twice = QueryFigures("q")
    read_twice.add([batch(0, 10, 10, observedMetrics={"rows_in": {"rows": 5}})])
    assert (read_twice.as_json()["rows_in"], read_twice.as_json()["done_per_s"]) == (5, 25.0)


def test_of_a_topic_that_two_queries_read_the_slower_counts() -> None:
    queries = [{"offsets": {"a": {"0": 5, "1": 9}}}, {"offsets": {"a": {"0": 7}, "b": {"0": 1}}}]
    assert merged_offsets(queries) == {"a": {"0": 5, "1": 9}, "b": {"0": 1}}


@pytest.mark.parametrize("value", [None, 5, "x", "[1]", {"a": 1}])
def test_offsets_of_other_sources_are_not_taken_for_those_of_topics(value: Any) -> None:
    assert topic_offsets(value) == {}


def test_lag_is_counted_in_records_and_in_the_age_of_the_first() -> None:
    place = TopicPartition("t", 0)
    entries = [
        entry(place, 5, 10, 60_000, 90_000),
        entry(place, 5, 5, None, 90_000),
        entry(place, 5, None, None, 90_000),
        entry(place, 5, 6, -1, 90_000),
    ]
    assert [one["lag"] for one in entries] == [5, 0, None, 1]
    assert [one["lag_seconds"] for one in entries] == [30.0, 0.0, None, None]
    assert total(entries) == {"records": 6, "seconds": 30.0}
    assert total([]) == {"records": None, "seconds": None}


def test_the_second_version_is_behind_by_what_the_first_has_and_it_has_not() -> None:
    assert behind({"t": {"0": 10, "1": 5}}, {"t": {"0": 7, "1": 9}}) == 3
    assert behind({"t": {"0": 10}}, {}) is None
    assert behind({"t": {"0": 10}}, {"t": {"0": -2}}) == 10


PYTHON_FAILURE = """[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/x/site-packages/pyspark/worker.py", line 1, in main
  File "/home/me/steps.py", line 12, in convert
    raise ValueError("no such currency: XXX")
ValueError: no such currency: XXX

	at org.apache.spark.api.python.BasePythonRunner
"""


def test_an_error_is_told_in_the_words_of_whoever_raised_it() -> None:
    expected = "ValueError: no such currency: XXX (steps.py line 12, in convert)"
    assert query_error(PYTHON_FAILURE) == expected
    ours = "Traceback (most recent call last):\n  File\nottla.x.ClusterMissing: nobody\n SQLSTATE"
    assert query_error(ours) == "ClusterMissing: nobody"
    raised = "x [USER_RAISED_EXCEPTION] record a-b-0@17: its value is no json SQLSTATE: P0001\n at"
    assert query_error(raised) == "record a-b-0@17: its value is no json"
    assert record_in(query_error(raised)) == "a-b-0@17"
    divided = (
        "[STREAM_FAILED] Query terminated with exception: [DIVIDE_BY_ZERO] No. SQLSTATE: 22012"
    )
    assert query_error(divided) == "[DIVIDE_BY_ZERO] No."
    caused = "Job\nCaused by: java.io.IOException: disk\nCaused by: a.b.OutOfSpace: full\n\tat x"
    assert query_error(caused) == "OutOfSpace: full"
    assert query_error("") == "no reason given"


FAILED_QUERY = """x
Current Committed Offsets: {org.Stream@1: {"t": {"0": 5, "1": 3}, "@ids": {"t": "a"}}}
Current Available Offsets: {org.Stream@1: {"t": {"0": 9, "1": 3, "2": 4}, "@ids": {"t": "a"}}}
"""


def test_the_range_of_a_failed_batch_is_read_from_its_error() -> None:
    ranges = locate.batch_ranges(FAILED_QUERY)
    assert ranges == {("t", 0): (5, 9), ("t", 2): (0, 4)}
    assert locate.in_words(ranges) == "t-0@5..8, t-2@0..3"
    first = locate.batch_ranges(FAILED_QUERY.replace(': {org.Stream@1: {"t": {"0": 5', ": {} #"))
    assert first[("t", 0)] == (0, 9)
    assert locate.batch_ranges("no offsets in here") == {}
    options = locate.as_options({("t", 0): (5, 6)})
    assert options["assign"] == '{"t": [0]}'
    assert (options["startingOffsets"], options["endingOffsets"]) == (
        '{"t": {"0": 5}}',
        '{"t": {"0": 6}}',
    )


def test_the_first_record_that_fails_is_found_wherever_it_is() -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(50):
        ranges = {
            ("t", index): (start := chance.randrange(100), start + chance.randrange(1, 40))
            for index in range(chance.randrange(1, 4))
        }
        everything = [(p, n) for p, (a, b) in sorted(ranges.items()) for n in range(a, b)]
        bad = set(chance.sample(everything, chance.randrange(1, min(4, len(everything) + 1))))

        def fails(some: locate.Ranges, bad: set[Any] = bad) -> bool:
            return any((p, n) in bad for p, (a, b) in some.items() for n in range(a, b))

        place, offset = min(bad)
        assert locate.narrowed(ranges, fails, lambda: False) == {place: (offset, offset + 1)}
        late = iter([False, False, True])
        first, last = locate.narrowed(ranges, fails, late.__next__)[place]
        assert first <= offset < last


def test_outputs_are_compared_by_the_last_value_of_each_key_and_by_meaning() -> None:
    old = [(b"a", b"1"), (b"b", b'{"x":1,"y":2}'), (b"c", b"3"), (b"a", b"2"), (b"d", b"4")]
    new = [(b"a", b"2"), (b"b", b'{"y": 2, "x": 1}'), (b"c", b"9"), (b"d", b"4"), (b"d", None)]
    found = compare(old, [*new, (b"e", b"5")])
    assert (found.same, found.different, found.only_old, found.only_new) == (2, 1, 1, 1)
    assert found.rows == (5, 6)
    assert {"key": "c", "old": "3", "new": "9"} in found.examples
    assert compare(old, old).is_none


def test_records_that_differ_before_the_last_of_their_key_are_differences_too() -> None:
    old = [(b"a", b"1"), (b"a", b"2"), (b"a", b"3")]
    found = compare(old, [(b"a", b"1"), (b"a", b"3")])
    assert (found.same, found.different) == (1, 0)
    assert (found.records.same, found.records.only_old, found.records.only_new) == (2, 1, 0)
    assert found.examples == [{"key": "a", "old": "2", "new": None}]
    assert not found.is_none


def test_outputs_without_keys_are_compared_as_bags() -> None:
    old = [(None, b'{"x":1,"y":2}'), (None, b"b"), (None, b"b"), (None, b"\xff")]
    found = compare(old, [(None, b'{"y":2,"x":1}'), (None, b"b"), (None, b"c")])
    assert (found.by_key, found.same, found.only_old, found.only_new) == (False, 2, 2, 1)


def test_a_context_names_what_a_version_writes() -> None:
    context = Context("p", suffix="-v2", checkpoints="s3a://x/", from_earliest=True)
    assert context.topic("alerts") == "alerts-v2"
    assert context.path("/lake/a/") == "/lake/a-v2"
    assert context.checkpoint("main") == "s3a://x/main"
    assert context.starting("latest") == "earliest"
    assert Context("p").starting("latest") == "latest"
    with pytest.raises(ValueError, match="no name of a checkpoint"):
        context.checkpoint("../x")


def test_logs_are_cut_and_read_from_their_end(tmp_path: Any) -> None:
    file = tmp_path / "output.log"
    file.write_text("".join(f"line {number}\n" for number in range(20_000)))
    assert logs.tail(file, 2) == ["line 19998", "line 19999"]
    assert logs.tail(tmp_path / "none", 2) == []
    with file.open("ab", buffering=0) as appending:
        logs.trim(file, 1000)
        assert file.stat().st_size == 0
        appending.write(b"new\nhalf")
    assert logs.added(file, 5000) == (["new"], 4)
    assert (tmp_path / "output.log.1").exists()


def test_records_that_a_plan_reads_twice_are_counted_once() -> None:
    """As an app of streams with dead letters does."""
    source = {"startOffset": {"t": {"0": 5, "1": 5}}, "endOffset": {"t": {"0": 10, "1": 7}}}
    assert rows_in({"numInputRows": 14, "sources": [source]}) == 7
    assert rows_in({"numInputRows": 6, "sources": [source]}) == 6  # one is a transaction's mark
    first = {**source, "startOffset": None}
    assert rows_in({"numInputRows": 14, "sources": [first]}) == 14
    assert rows_in({"numInputRows": 3, "sources": [{"endOffset": "rate"}]}) == 3
