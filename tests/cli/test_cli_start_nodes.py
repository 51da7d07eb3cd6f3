"""`ottla start --nodes`: a cluster on one machine, as its users see it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import signal
import socket
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cli_tools import PROGRAM, Outcome, call, eventually, execute

from ottla.cli.nodes.child_node import LINE_BYTES_MAX, ChildNode, Lines, reason_of
from ottla.cli.nodes.folder import (
    FolderUnusable,
    client_addresses,
    node_settings,
    prepare,
    read,
    with_another,
    without,
    write_settings,
)
from ottla.cli.nodes.start import HEALTHY_S, RESTART_PAUSES_S, Restarts
from ottla.runtime.ports import free_ports, is_free

pytestmark = pytest.mark.ottla_only

READY = re.compile(
    r"Ottla \S+ ready in \d+\.\d\d s: (?P<places>.+), data in (?P<folder>.+) \(3 nodes\)\n"
)


class Running:
    def __init__(self, process: subprocess.Popen[str], places: list[str], errors: Path) -> None:
        self.process = process
        self.places = places
        self._errors = errors

    @property
    def errors(self) -> str:
        return self._errors.read_text()

    def children(self) -> list[int]:
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(one) for one in listed.split()]

    def cluster(self) -> dict[str, object]:
        found: dict[str, object] = call("cluster", "-b", ",".join(self.places), "--json").json
        return found


@contextmanager
def three_nodes(folder: Path, *options: str) -> Iterator[Running]:
    errors = folder / "errors"
    with errors.open("w") as target:
        process = subprocess.Popen(
            [PROGRAM, "start", "--nodes", "3", "--data", str(folder / "data"), *options],
            stdout=subprocess.PIPE,
            stderr=target,
            text=True,
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        ready = READY.fullmatch(line)
        assert ready, line + errors.read_text()
        yield Running(process, ready["places"].split(", "), errors)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise


def free_run_of_ports(count: int) -> int:
    """A port that is free, and so are those behind it."""
    for first in free_ports(100):
        if all(is_free(port) for port in range(first + 1, first + count)):
            return first
    raise AssertionError("no free ports")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks at /proc")
def test_a_cluster_starts_survives_a_death_and_ends_properly(tmp_path: Path) -> None:
    first = free_run_of_ports(3)
    with three_nodes(tmp_path, "--listener", f"127.0.0.1:{first}") as running:
        assert running.places == [f"127.0.0.1:{first + n}" for n in range(3)]
        found = running.cluster()
        assert [one["id"] for one in found["brokers"]] == [1, 2, 3]  # type: ignore[attr-defined]
        before = running.children()
        assert len(before) == 3
        os.kill(before[0], signal.SIGKILL)
        eventually(lambda: "node 1 killed by SIGKILL" in running.errors)
        eventually(lambda: len(set(running.children()) - set(before)) == 1)
        eventually(lambda: call("cluster", "-b", running.places[0]).code == 0, 20)
        eventually(lambda: all(not one["fenced"] for one in running.cluster()["brokers"]), 20)  # type: ignore[attr-defined]
        assert len(running.cluster()["brokers"]) == 3  # type: ignore[arg-type]
        ended = running.children()
        began = time.monotonic()
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(60) == 0, running.errors
        assert time.monotonic() - began < 20
        assert not any(Path(f"/proc/{pid}").exists() for pid in ended)
    for number in (1, 2, 3):
        assert (tmp_path / "data" / f"node{number}" / ".kafka_cleanshutdown").exists()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks at /proc")
@pytest.mark.parametrize("whom", ["the command", "every process"])
def test_a_whole_cluster_stops_quickly_and_says_nothing_alarming(tmp_path: Path, whom: str) -> None:
    with three_nodes(tmp_path, "--listener", "127.0.0.1:0", "--log-level", "info") as running:
        created = call("topics", "create", "t", "--partitions", "6", "-b", running.places[0])
        assert created.code == 0
        pids = [running.process.pid]
        before = len(running.errors)
        if whom == "every process":
            pids = [*running.children(), *pids]
        began = time.monotonic()
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        assert running.process.wait(60) == 0, running.errors
        taken_s = time.monotonic() - began
        said = running.errors[before:]
    assert not re.search(r"WARNING|ERROR|CRITICAL|Traceback|led by -1", said), said
    assert taken_s < 5, said


@pytest.mark.usefixtures("hangs_up")
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks at /proc")
def test_a_terminal_that_closes_ends_all_nodes_properly(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [PROGRAM, "start", "--nodes", "3", "--data", str(tmp_path), "--listener", "127.0.0.1:0"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    try:
        said = ""
        while "ready in" not in said:
            said += os.read(ours, 10_000).decode()
        listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        os.close(ours)  # the kernel tells the session that its terminal is gone
        assert process.wait(60) == 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in listed.split())
    finally:
        process.kill()  # its nodes end with it
        process.wait()
    for number in (1, 2, 3):
        assert (tmp_path / f"node{number}" / ".kafka_cleanshutdown").exists()


def test_a_restart_finds_the_same_cluster(tmp_path: Path) -> None:
    with three_nodes(tmp_path, "--listener", "127.0.0.1:0") as running:
        before, places = running.cluster()["cluster_id"], running.places
        assert call("topics", "create", "kept", "-b", places[0]).code == 0
    with three_nodes(tmp_path, "--listener", "127.0.0.1:0") as running:
        assert running.places == places
        assert running.cluster()["cluster_id"] == before
        assert "kept" in call("topics", "list", "-b", places[0]).text


# The folder


def test_the_first_nodes_stay_the_voters(tmp_path: Path) -> None:
    made = prepare(tmp_path, 3, 9092)
    assert read(tmp_path) == made
    assert prepare(tmp_path, 3, 9092) == made
    grown = prepare(tmp_path, 4, 9092)
    assert grown.controller_ports == made.controller_ports
    assert grown.cluster_id == made.cluster_id
    fourth = node_settings(grown, 4, "127.0.0.1", {})
    assert fourth["process.roles"] == "broker"
    assert fourth["listeners"] == "PLAINTEXT://127.0.0.1:9095"
    assert fourth["controller.quorum.voters"].count("@") == 3
    with pytest.raises(FolderUnusable, match="holds 4 nodes: give --nodes 4"):
        prepare(tmp_path, 3, 9092)


def test_the_folder_knows_where_its_brokers_are(tmp_path: Path) -> None:
    made = prepare(tmp_path, 3, 9092)
    assert client_addresses(made) == "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
    for host, told in (
        ("0.0.0.0", "127.0.0.1"),
        ("::1", "[::1]"),
        ("node.example", "node.example"),
    ):
        write_settings(made, host, {})
        assert client_addresses(without(made, 1)) == f"{told}:9093,{told}:9094"


def test_a_controller_port_that_was_taken_is_replaced(tmp_path: Path) -> None:
    made = prepare(tmp_path, 3, 9092)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", made.controller_ports[1]))
        taken.listen()
        again = prepare(tmp_path, 3, 9092)
    assert again.controller_ports[0::2] == made.controller_ports[0::2]
    assert again.controller_ports[1] != made.controller_ports[1]


def test_folders_are_not_mixed_up(tmp_path: Path) -> None:
    prepare(tmp_path / "several", 3, 9092)
    single = execute("start", "--data", tmp_path / "several", "--listener", "127.0.0.1:0")
    assert single.code == 2
    assert "start them with --nodes" in single.err
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "meta.properties").touch()
    several = execute("start", "--nodes", "3", "--data", tmp_path / "one")
    assert several.code == 2
    assert "start it without --nodes" in several.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-o", "node.id=7"], "every node has its own node.id"),
        (["-o", "num.partitions=many"], "num.partitions"),
        (["-l", "127.0.0.1:1", "-l", "127.0.0.1:2"], "one --listener"),
        (["-l", "127.0.0.1:65534"], "only 65535 ports"),
    ],
)
def test_wishes_that_do_not_fit_are_told(tmp_path: Path, options: list[str], words: str) -> None:
    outcome = execute("start", "--nodes", "3", "--data", tmp_path / "data", *options)
    assert outcome.code == 2
    assert words in outcome.err
    assert "Traceback" not in outcome.err


# Supervision


def test_pauses_grow_until_a_node_is_left_alone() -> None:
    restarts = Restarts()
    assert [restarts.after(1.0) for _ in RESTART_PAUSES_S] == list(RESTART_PAUSES_S)
    assert restarts.after(1.0) is None
    healthy = Restarts()
    assert [healthy.after(HEALTHY_S) for _ in range(20)] == [RESTART_PAUSES_S[0]] * 20


def test_a_node_that_was_ready_in_between_is_started_again_after_the_first_pause() -> None:
    restarts = Restarts()
    assert [restarts.after(0.0), restarts.after(3.0)] == [1.0, 2.0]
    assert restarts.after(19.0) == 1.0
    assert restarts.after(0.0) == 2.0


@pytest.mark.parametrize(("first_line", "healthy_s"), [("Ottla 1 ready in 0.1 s", 19), ("no", 0)])
def test_a_node_is_healthy_from_its_ready_line_on(
    tmp_path: Path, first_line: str, healthy_s: float
) -> None:
    now = 100.0

    def said(number: int, line: str) -> None:
        nonlocal now
        if line == "later":
            now += 19

    child = ChildNode(1, tmp_path / "none.properties", [], said, lambda: now)
    child._command = ["/bin/sh", "-c", f"echo '{first_line}'; echo later"]
    assert child.healthy_s == 0
    asyncio.run(child.run())
    assert child.healthy_s == healthy_s


def test_reasons_are_in_words() -> None:
    assert reason_of(-9, "whatever") == "killed by SIGKILL"
    assert reason_of(1, "ottla: the disk is full") == "ended with code 1: the disk is full"
    assert reason_of(0, "") == "ended with code 0"


def test_lines_come_out_whole_and_bounded() -> None:
    lines = Lines()
    assert lines.feed(b"a\nb") == ["a"]
    assert lines.feed(b"c\n\xff\n") == ["bc", "\ufffd"]
    assert lines.feed(b"x" * (LINE_BYTES_MAX + 1)) == ["x" * (LINE_BYTES_MAX + 1)]
    assert lines.feed(b"rest") == []
    assert lines.end() == ["rest"]


def test_a_signal_to_a_node_that_has_just_ended_does_not_change_its_exit_code(
    tmp_path: Path,
) -> None:
    child = ChildNode(
        1, tmp_path / "none.properties", [], lambda number, line: None, time.monotonic
    )
    process: Any = subprocess.Popen(["/bin/sh", "-c", "exit 3"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended: nobody was told yet
    child._process = process
    child.kill()
    assert os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1]) == 3
    process.returncode = 3


# Brokers that come and go


def test_a_broker_is_added_and_one_retired_while_the_cluster_runs(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with three_nodes(tmp_path, "--listener", "127.0.0.1:0") as running:
        environment = {"OTTLA_BOOTSTRAP": ",".join(running.places)}

        def run(*arguments: object) -> Outcome:
            return call(*arguments, environment=environment)

        run("topics", "create", "orders", "-p", 2, "-r", 3)
        early = call("cluster", "retire", 1, "--yes", "--data", data)
        assert "add 1 first" in " ".join(early.err.replace("│", " ").split())
        added = call("cluster", "add-node", "--data", data, "--json")  # its address: by the folder
        assert added.json == {"added": 4}
        keeps = run("cluster", "retire", 1, "--yes", "--data", data)
        assert keeps.code == 2
        assert "topics reassign orders --brokers 2,3,4 --execute" in " ".join(
            keeps.err.replace("│", " ").split()
        )
        assert run("topics", "reassign", "orders", "--brokers", "2,3,4", "--execute").code == 0
        assert call("cluster", "retire", 1, "--yes", "--data", data, "--json").json == {
            "retired": 1
        }
        assert [one["id"] for one in run("cluster", "--json").json["brokers"]] == [2, 3, 4]
        assert "node 1 retires as a broker and only votes from now on" in running.errors

        def voters_up() -> bool:
            described = run("cluster", "status", "--json").json
            return not described["problems"]

        eventually(voters_up, 20)
        assert run("quorum", "describe", "--json").json["leader"] in (1, 2, 3)
    folder = read(tmp_path / "data")
    assert (folder.brokers, folder.running) == ([2, 3, 4], [1, 2, 3, 4])
    again = prepare(tmp_path / "data", 4, 0)
    assert again.brokers == [2, 3, 4]
    first = node_settings(again, 1, "127.0.0.1", {})
    assert (first["process.roles"], "PLAINTEXT" in first["listeners"]) == ("controller", False)


def test_a_node_that_does_not_vote_is_not_started_once_it_has_retired(tmp_path: Path) -> None:
    prepare(tmp_path, 3, 9092)
    grown = with_another(read(tmp_path))
    assert without(grown, 4).running == [1, 2, 3]
    assert read(tmp_path).retired == {4}
    with pytest.raises(FolderUnusable, match="no broker 4"):
        without(read(tmp_path), 4)


def test_only_the_folder_of_the_same_cluster_is_changed(tmp_path: Path, bootstrap: str) -> None:
    prepare(tmp_path, 3, 9092)
    other = call("cluster", "retire", 1, "--yes", "--data", tmp_path, "-b", bootstrap)
    assert other.code == 2
    assert f"{bootstrap} leads to" in " ".join(other.err.replace("│", " ").split())
    none = call("cluster", "add-node", "--data", tmp_path / "nothing", "-b", bootstrap)
    assert none.code == 2
    assert not read(tmp_path).retired
