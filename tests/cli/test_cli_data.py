"""`ottla produce`, `consume`, `offsets` and the rest against a real broker."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest
from cli_tools import PROGRAM, Run, call, execute

from broker_harness import MakeBroker


@pytest.fixture
def produced(ottla: Run, topic: str, tmp_path: Path) -> str:
    """A topic of two partitions with values 0 to 9, timestamps 1000, 2000, ... in partition 0."""
    ottla("topics", "create", topic, "-p", 2)
    lines = "".join(f'{{"value":"{n}","timestamp":{1000 * (n + 1)}}}\n' for n in range(10))
    (tmp_path / "lines").write_text(lines)
    sent = ottla("produce", topic, "-p", 0, "-f", "json", "--file", tmp_path / "lines")
    assert sent.code == 0, sent.err
    return topic


def consumed(ottla: Run, topic: str, *options: object) -> list[bytes]:
    outcome = ottla("consume", topic, "--exit-at-end", *options)
    assert outcome.code == 0, outcome.err
    return outcome.out.splitlines()


def test_lines_go_in_and_come_out(ottla: Run, program: Run, topic: str) -> None:
    sent = program("produce", topic, stdin=b"one\ntwo\n\nlast without newline")
    assert (sent.code, sent.out, sent.err) == (0, b"", f"4 record(s) sent to {topic}.\n")
    assert consumed(ottla, topic) == [b"one", b"two", b"", b"last without newline"]


def test_keys_headers_nulls_and_times_go_in(ottla: Run, program: Run, topic: str) -> None:
    program(
        *("produce", topic, "-K", ":", "--null", "NULL", "-H", "a=1", "-H", "b=x=y"),
        *("--timestamp", "@1234", "--quiet"),
        stdin=b"k:v\nk:NULL\nNULL:v\n",
    )
    found = [
        (r["key"], r["value"], r["timestamp"], [(h["name"], h["value"]) for h in r["headers"]])
        for r in ottla("consume", topic, "-e", "--json").json_lines
    ]
    headers = [("a", "1"), ("b", "x=y")]
    assert found == [
        ("k", "v", 1234, headers),
        ("k", None, 1234, headers),
        (None, "v", 1234, headers),
    ]


def test_json_lines_copy_a_topic_exactly(
    ottla: Run, program: Run, topic: str, tmp_path: Path
) -> None:
    ottla("topics", "create", topic, f"{topic}.copy", "-p", 2)
    source = b"""\
{"key_base64":"/w==","value":"a","partition":1,"headers":[{"name":"h","value_base64":"/w=="}]}
{"value":null,"timestamp":5}
"""
    program("produce", topic, "-f", "json", stdin=source)
    dump = ottla("consume", topic, "-e", "--json")
    copy = tmp_path / "dump.jsonl"
    copy.write_bytes(dump.out)
    assert ottla("produce", f"{topic}.copy", "-f", "json", "--file", copy, "-z", "zstd").code == 0
    again = ottla("consume", f"{topic}.copy", "-e", "--json")
    # Between partitions there is no order.
    assert sorted(again.out.replace(b".copy", b"").splitlines()) == sorted(dump.out.splitlines())
    assert {r["partition"] for r in dump.json_lines if "key_base64" in r} == {1}


def test_a_binary_file_is_one_record(ottla: Run, topic: str, tmp_path: Path) -> None:
    content = bytes(range(256)) * 1000
    (tmp_path / "blob").write_bytes(content)
    sent = ottla("produce", topic, "-f", "raw", "--file", tmp_path / "blob", "--json")
    assert sent.json == {"topic": topic, "records": 1}
    assert ottla("consume", topic, "-e", "-f", "%v").out == content


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_each_codec_goes_through(ottla: Run, topic: str, tmp_path: Path, codec: str) -> None:
    lines = [b"line %d " % n + b"x" * 50 for n in range(500)]
    (tmp_path / "lines").write_bytes(b"\n".join(lines))
    assert ottla("produce", topic, "--file", tmp_path / "lines", "-z", codec).code == 0
    assert consumed(ottla, topic) == lines


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--from", "7"], "789"),
        (["--from", "-3"], "789"),
        (["--from", "@7500"], "789"),
        (["--from", "1970-01-01T00:00:08Z"], "789"),
        (["--from", "latest"], ""),
        (["--from", "1h"], ""),
        (["--until", "3"], "012"),
        (["--from", "2", "--until", "@4500"], "23"),
        (["-n", "4"], "0123"),
        (["--partition", "1"], ""),
        (["--partition", "0-1", "--from", "9"], "9"),
    ],
)
def test_reading_begins_and_ends_where_it_is_told(
    ottla: Run, produced: str, options: list[str], expected: str
) -> None:
    assert b"".join(consumed(ottla, produced, *options)).decode() == expected


def test_templates_print_records(ottla: Run, produced: str) -> None:
    found = ottla("consume", produced, "-e", "-n", 2, "-f", "%t:%p:%o:%T=%v;").text
    assert found == f"{produced}:0:0:1000=0;{produced}:0:1:2000=1;"


def test_an_offset_that_is_not_there_is_an_error(ottla: Run, produced: str) -> None:
    outcome = ottla("consume", produced, "-p", 0, "--from", 99, "-n", 1)
    assert outcome.code == 1
    assert "holds no offset 99" in outcome.err


def test_offsets_tell_both_ends_and_a_time(ottla: Run, produced: str) -> None:
    rows = ottla("offsets", produced, "--at", "@4500", "--json").json
    assert [(r["partition"], r["earliest"], r["latest"], r["records"], r["at"]) for r in rows] == [
        (0, 0, 10, 10, 4),
        (1, 0, 0, 0, 0),
    ]
    assert "earliest" in ottla("offsets", produced).text


def test_records_are_deleted_up_to_an_offset_or_a_time(ottla: Run, produced: str) -> None:
    cut = ottla("topics", "delete-records", "--yes", produced, "--before", "@3500", "--json").json
    assert [(row["partition"], row["earliest"]) for row in cut] == [(0, 3), (1, 0)]
    assert b"".join(consumed(ottla, produced)) == b"3456789"
    ottla("topics", "delete-records", "--yes", produced, "-p", 0, "--before", "end")
    assert consumed(ottla, produced) == []


def test_log_dirs_tell_what_a_topic_takes(ottla: Run, produced: str) -> None:
    (folder,) = ottla("log-dirs", "--topic", produced, "--json").json
    assert [p["partition"] for p in folder["partitions"]] == [0, 1]
    assert folder["partitions"][0]["size_bytes"] > 0
    assert folder["usable_bytes"] > 0
    assert produced in ottla("log-dirs", "--topic", produced).text


def test_cluster_names_broker_and_apis(ottla: Run, bootstrap: str) -> None:
    found = ottla("cluster", "--apis", "--json").json
    (broker,) = found["brokers"]
    assert f"{broker['host']}:{broker['port']}" == bootstrap
    assert found["controller"] == broker["id"]
    assert {"key": 0, "api": "Produce", "min": 0, "max": 13} in found["apis"]
    assert found["cluster_id"] in ottla("cluster", "--apis").text


def test_perf_measures_both_ways(ottla: Run, topic: str) -> None:
    sent = ottla("perf", "produce", topic, "--partitions", 2, "-n", 5000, "-s", 50, "--json").json
    assert sent["records"] == 5000
    assert sent["records_per_s"] > 0
    assert 0 < sent["latency_p50_ms"] <= sent["latency_p99_ms"] <= sent["latency_max_ms"]
    for options in ([], ["--decode"]):
        got = ottla("perf", "consume", topic, *options, "--json").json
        assert got["records"] == 5000
    assert "records per s" in ottla("perf", "consume", topic).text
    assert consumed(ottla, topic, "-n", 1, "-f", "%S")[0] == b"50"


def test_perf_keeps_a_fixed_rate(ottla: Run, topic: str) -> None:
    sent = ottla(
        "perf", "produce", topic, "-n", 300, "--throughput", 1000, "--acks", 1, "--json"
    ).json
    assert 0.25 < sent["seconds"] < 1.5


def test_a_follower_prints_at_once_and_stops_on_ctrl_c(
    program: Run, bootstrap: str, topic: str
) -> None:
    program("produce", topic, stdin=b"before\n")
    follower = subprocess.Popen(
        [PROGRAM, "consume", topic, "--bootstrap", bootstrap],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert follower.stdout is not None
        assert follower.stdout.readline() == b"before\n"
        program("produce", topic, stdin=b"after\n")
        assert follower.stdout.readline() == b"after\n"
        follower.send_signal(signal.SIGINT)
        out, err = follower.communicate(timeout=10)
    finally:
        follower.kill()
    assert (follower.returncode, out, err) == (130, b"", b"")


def test_a_follower_whose_cluster_is_gone_says_so_after_a_while(
    fresh_broker: MakeBroker, topic: str
) -> None:
    broker = fresh_broker()
    execute("produce", topic, "--bootstrap", broker.address, stdin=b"before\n")
    follower = subprocess.Popen(
        [PROGRAM, "consume", topic, "-b", broker.address, "-X", "default.api.timeout.ms=1000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert follower.stdout is not None
        assert follower.stdout.readline() == b"before\n"
        broker.kill()
        _, err = follower.communicate(timeout=30)
    finally:
        follower.kill()
    assert follower.returncode == 1
    assert f"cannot connect to {broker.address}" in err.decode()


@pytest.mark.parametrize("member", [(), ("--group", "idlers")], ids=["alone", "group"])
def test_a_follower_ends_when_no_record_has_come_for_its_timeout(
    ottla: Run, program: Run, topic: str, member: tuple[str, ...]
) -> None:
    """Kafka's console consumer ends so: with 0, and with the number of records on stderr."""
    program("produce", topic, stdin=b"one\ntwo\n")
    read = ottla("consume", topic, "--timeout-ms", 5_000, *member)
    assert (read.code, read.out) == (0, b"one\ntwo\n")
    assert "No record arrived within --timeout-ms; 2 record(s) printed." in read.err
    if member:
        assert ottla("groups", "describe", "idlers", "--json").json[0]["lag"] == 0


def test_a_record_lets_a_follower_wait_for_the_next_one_anew(
    bootstrap: str, ottla: Run, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "line").write_text("again\n")
    ottla("produce", topic, "--file", tmp_path / "line")
    follower = subprocess.Popen(
        [PROGRAM, "consume", topic, "--bootstrap", bootstrap, "--timeout-ms", "5000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert follower.stdout is not None
        for _ in range(2):  # together longer than the timeout
            assert follower.stdout.readline() == b"again\n"
            time.sleep(3)
            ottla("produce", topic, "--file", tmp_path / "line")
        out, err = follower.communicate(timeout=30)
    finally:
        follower.kill()
    assert (follower.returncode, out) == (0, b"again\n")
    assert b"3 record(s) printed." in err


def test_a_timeout_while_the_cluster_is_gone_is_an_error(
    fresh_broker: MakeBroker, topic: str
) -> None:
    broker = fresh_broker()
    execute("produce", topic, "--bootstrap", broker.address, stdin=b"before\n")
    follower = subprocess.Popen(
        [PROGRAM, "consume", topic, "--bootstrap", broker.address, "--timeout-ms", "3000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert follower.stdout is not None
        assert follower.stdout.readline() == b"before\n"
        broker.kill()
        _, err = follower.communicate(timeout=30)
    finally:
        follower.kill()
    assert follower.returncode == 1
    assert f"cannot connect to {broker.address}" in err.decode()


def test_a_follower_whose_topic_is_deleted_says_so(ottla: Run, bootstrap: str, topic: str) -> None:
    ottla("topics", "create", topic)
    follower = subprocess.Popen(
        [PROGRAM, "consume", topic, "--bootstrap", bootstrap],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        time.sleep(1)
        ottla("topics", "delete", topic, "--yes")
        _, err = follower.communicate(timeout=30)
    finally:
        follower.kill()
    assert follower.returncode == 1
    assert f"there is no topic '{topic}'" in err.decode()


def test_a_reader_that_closes_the_pipe_gets_no_traceback(
    ottla: Run, bootstrap: str, topic: str
) -> None:
    ottla("perf", "produce", topic, "-n", 50_000)
    done = subprocess.run(
        f"'{PROGRAM}' consume {topic} -e --bootstrap {bootstrap} | head -n 2",
        shell=True,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr == b""


def test_produce_stops_on_ctrl_c_while_it_waits_for_a_line(bootstrap: str, topic: str) -> None:
    waiting = subprocess.Popen(
        [PROGRAM, "produce", topic, "--bootstrap", bootstrap],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert waiting.stdin is not None
        waiting.stdin.write(b"typed\n")
        waiting.stdin.flush()
        deadline = time.monotonic() + 10
        while call("consume", topic, "-e", "-b", bootstrap).out != b"typed\n":
            assert time.monotonic() < deadline
        waiting.send_signal(signal.SIGINT)
        _, err = waiting.communicate(timeout=10)
    finally:
        waiting.kill()
    assert (waiting.returncode, err) == (130, b"")


@pytest.mark.parametrize(
    "arguments",
    [
        ["produce", "t", "--acks", "2"],
        ["produce", "t", "-z", "brotli"],
        ["produce", "t", "-f", "xml"],
        ["produce", "t", "-D", ""],
        ["produce", "t", "-H", "novalue"],
        ["consume", "t", "--from", "someday"],
        ["consume", "t", "-f", "xml"],
        ["consume", "t", "-p", "x"],
        ["consume"],
        ["nonsense"],
    ],
)
def test_usage_errors_have_exit_code_2(ottla: Run, arguments: list[str]) -> None:
    outcome = ottla(*arguments)
    assert outcome.code == 2
    assert outcome.err


def test_a_record_too_large_is_one_line_of_error(ottla: Run, topic: str, tmp_path: Path) -> None:
    ottla("topics", "create", topic, "-c", "max.message.bytes=1000")
    (tmp_path / "large").write_bytes(b"x" * 3000)
    outcome = ottla("produce", topic, "-f", "raw", "--file", tmp_path / "large")
    assert outcome.code == 1
    assert "MESSAGE_TOO_LARGE" in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_bad_line_of_input_is_named(program: Run, topic: str) -> None:
    outcome = program("produce", topic, "-K", ":", stdin=b"a:1\noops\n")
    assert outcome.code == 1
    assert "line 2 has no key separator" in outcome.err


def test_a_broker_that_is_not_there_is_named_with_what_to_do() -> None:
    outcome = execute("topics", "list", "--bootstrap", "127.0.0.1:1")
    assert outcome.code == 1
    assert outcome.err.startswith("ottla: cannot connect to 127.0.0.1:1: connection refused")
    assert "ottla start" in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_file_that_is_not_there_is_named(ottla: Run, topic: str, tmp_path: Path) -> None:
    outcome = ottla("produce", topic, "--file", tmp_path / "none")
    assert outcome.code == 2
    assert str(tmp_path / "none") in outcome.err


@pytest.mark.parametrize(
    "command",
    [
        "",
        "start",
        "produce",
        "consume",
        "topics",
        "topics create",
        "configs alter",
        "offsets",
        "cluster",
        "log-dirs",
        "dump-log",
        "perf",
        "perf produce",
    ],
)
def test_every_command_helps(command: str) -> None:
    outcome = execute(*command.split(), "--help")
    assert outcome.code == 0
    assert "Usage" in outcome.text or "usage" in outcome.text


def test_a_mistyped_command_gets_a_proposal() -> None:
    assert "topics" in call("topisc").err


def test_a_record_for_a_partition_that_does_not_exist_is_named(program: Run, topic: str) -> None:
    lines = b'{"value": "a", "partition": 0}\n{"value": "b", "partition": 7}\n'
    refused = program("produce", topic, "--format", "json", stdin=lines)
    assert refused.code == 1
    assert f"record 2: topic '{topic}' has no partition 7; 1 record(s) before it were sent" in (
        refused.err
    )
