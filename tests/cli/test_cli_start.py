"""`ottla start` as its users see it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from cli_tools import PROGRAM, call, eventually, execute, started

from ottla.cli.start import UsageError, gathered, listener_settings
from ottla.runtime.ports import free_ports

pytestmark = pytest.mark.ottla_only


def test_the_ready_line_tells_address_folder_and_time(tmp_path: Path) -> None:
    before = time.monotonic()
    with started("--listener", "127.0.0.1:0", "--data", "there", cwd=tmp_path) as (process, ready):
        taken_s = time.monotonic() - before
        assert ready["folder"] == str(tmp_path / "there")
        assert not ready["places"].endswith(":0")
        assert 0 < float(ready["seconds"]) <= taken_s + 0.1
        assert call("cluster", "--bootstrap", ready["places"]).code == 0
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


@pytest.mark.usefixtures("hangs_up")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with started("--listener", "127.0.0.1:0", cwd=tmp_path) as (process, _):
        process.send_signal(number)
        assert process.wait(20) == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_a_broker_under_nohup_outlives_its_terminal(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # what nohup does, and children inherit
    try:
        with started("--listener", "127.0.0.1:0", cwd=tmp_path) as (process, ready):
            process.send_signal(signal.SIGHUP)
            assert call("cluster", "--bootstrap", ready["places"]).code == 0
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_it_serves_though_nobody_reads_its_ready_line(tmp_path: Path) -> None:
    """As with `| head -0`, or a terminal that closes while the line is written to it."""
    ours, theirs = os.pipe()
    os.close(ours)
    address = f"127.0.0.1:{free_ports(1)[0]}"
    process = subprocess.Popen(
        [PROGRAM, "start", "--data", str(tmp_path), "--listener", address],
        stdout=theirs,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(theirs)
    try:
        eventually(lambda: call("cluster", "--bootstrap", address).code == 0)
        time.sleep(0.3)  # the line is written once it serves
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in errors
    assert process.returncode == 0


@pytest.mark.parametrize("arguments", [("start",), ("start", "--nodes", "3"), ("topics", "list")])
def test_an_interrupt_while_modules_are_imported_ends_it_without_a_traceback(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """Slowed down by a module that waits, as imports do on a cold disk."""
    (tmp_path / "typer.py").write_text(_SLOW_MODULE)
    (tmp_path / "uvloop.py").write_text(_SLOW_MODULE)
    (tmp_path / "argparse.py").write_text(_SLOW_MODULE)
    process = subprocess.Popen(
        [PROGRAM, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        text=True,
    )
    eventually((tmp_path / "importing").exists)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=20)
    assert (out, errors, process.returncode) == ("", "", -signal.SIGINT)


@pytest.mark.parametrize("module", ["ottla", "ottla.cli.main"])
def test_ctrl_c_while_the_package_is_imported_ends_the_command_without_a_traceback(
    module: str,
) -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    entry, _, function = project["project"]["scripts"]["ottla"].partition(":")
    # As the script that pip writes, with a Ctrl-C when the import reaches `module`.
    script = f"""
import sys
class Interrupting:
    def find_spec(self, name, *_):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
from {entry} import {function}
sys.exit({function}())
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("", "", 130)


_SLOW_MODULE = """\
import pathlib, time
pathlib.Path("importing").touch()
time.sleep(20)
"""


def test_several_listeners_are_served(tmp_path: Path) -> None:
    listeners = ("--listener", "127.0.0.1:0", "--listener", "127.0.0.1:0")
    with started(*listeners, cwd=tmp_path) as (_, ready):
        places = ready["places"].split(", ")
        assert len(set(places)) == 2
        for place in places:
            (broker,) = call("cluster", "-b", place, "--json").json["brokers"]
            assert f"{broker['host']}:{broker['port']}" == place


def test_a_properties_file_is_taken_and_options_win(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("log.dirs=from-file\nlog.retention.hours=7\nnode.id=5\nnum.partitions=2\n")
    options = ("--config", file, "-o", "num.partitions=4", "-l", "127.0.0.1:0")
    with started(*options, cwd=tmp_path) as (_, ready):
        assert ready["folder"] == str(tmp_path / "from-file")
        place = ready["places"]
        assert call("cluster", "-b", place, "--json").json["brokers"][0]["id"] == 5
        made = call("topics", "create", "t", "-b", place, "--json").json
        assert made[0]["partitions"] == 4
        (topic,) = [
            entry
            for entry in call(
                "configs", "describe", "--topic", "t", "-a", "-b", place, "--json"
            ).json
            if entry["name"] == "retention.ms"
        ]
        assert topic["value"] == str(7 * 3_600_000)


def test_kafkas_own_file_needs_no_formatting_and_keeps_its_controller(tmp_path: Path) -> None:
    """A dynamic quorum whose only server is the node itself, twice: founded, and found again."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        controller = free.getsockname()[1]
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=1\n"
        f"controller.quorum.bootstrap.servers=localhost:{controller}\n"
        f"listeners=PLAINTEXT://:9092,CONTROLLER://:{controller}\n"
        "inter.broker.listener.name=PLAINTEXT\n"
        f"advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:{controller}\n"
        "controller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
        f"log.dirs={tmp_path / 'logs'}\n"
    )
    for _ in range(2):
        with started("-c", file, "--listener", "127.0.0.1:0", cwd=tmp_path) as (_, ready):
            found = call("quorum", "describe", "--json", "--bootstrap", ready["places"])
            assert [(one["node"], one["votes"]) for one in found.json["members"]] == [(1, True)]
            assert found.json["leader"] == 1


def test_all_problems_of_a_configuration_are_listed(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("# a comment\nlog.segment.bytes=large\n")
    outcome = execute("start", "--config", file, "-o", "no.such.key=1", "-o", "num.partitions=-3")
    assert outcome.code == 2
    assert f"{file}:2" in outcome.err
    for word in ("log.segment.bytes", "large", "no.such.key", "num.partitions", "-3"):
        assert word in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--listener", "nowhere"], "'nowhere' is not HOST:PORT"),
        (["--config", "missing.properties"], "cannot read missing.properties"),
        (["-o", "novalue"], "KEY=VALUE"),
        (["--log-level", "loud"], "'loud' is no log level"),
        (["--log-format", "xml"], "'xml' is none of human, json"),
        (["--data", "a", "-o", "log.dirs=b"], "say the same twice"),
        (["--no-such-option"], "--no-such-option"),
        (["--nodes", "0"], "--nodes: 1 or more"),
        (["--nodes", "3", "--data", "/dev/null"], "/dev/null cannot be used"),
    ],
)
def test_usage_errors_have_exit_code_2(arguments: list[str], words: str) -> None:
    outcome = execute("start", *arguments)
    assert outcome.code == 2
    assert words in outcome.err


def test_a_port_in_use_is_told_with_what_to_do(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        outcome = execute("start", "-l", place, "-d", tmp_path / "data")
    assert outcome.code == 1
    assert place in outcome.err
    assert "Address already in use" in outcome.err
    assert "--listener HOST:0" in outcome.err
    assert "Traceback" not in outcome.err


def test_a_folder_in_use_is_told(tmp_path: Path) -> None:
    with started("-l", "127.0.0.1:0", cwd=tmp_path):
        outcome = execute("start", "-l", "127.0.0.1:0", "-d", tmp_path / "data")
    assert outcome.code == 1
    assert "used by another broker" in outcome.err
    assert "Traceback" not in outcome.err


def test_a_folder_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    outcome = execute("start", "-l", "127.0.0.1:0", "-d", tmp_path / "file")
    assert outcome.code == 1
    assert str(tmp_path / "file") in outcome.err
    assert "Traceback" not in outcome.err


def test_logs_can_be_json(tmp_path: Path) -> None:
    import json

    options = ("-l", "127.0.0.1:0", "--log-format", "json", "--log-level", "info")
    with started(*options, "-o", "log.cleaner.threads=3", cwd=tmp_path) as (process, _):
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    for line in err.splitlines():
        assert {"time", "level", "logger", "event"} <= json.loads(line).keys()


def test_start_does_not_load_what_only_the_tools_need() -> None:
    code = (
        "import sys; sys.argv = ['ottla', 'start', '-o', 'no.such.key=1']\n"
        "from ottla.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(sorted({m.partition('.')[0] for m in sys.modules}), 'ottla.client' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    for module in ("typer", "rich", "pydantic", "click"):
        assert f"'{module}'" not in done.stdout
    assert done.stdout.rstrip().endswith("False")


def test_without_options_the_defaults_are_local() -> None:
    assert gathered(None, [], False, {}) == {
        "log.dirs": "data",
        "listeners": "PLAINTEXT://localhost:9092",
    }


def test_with_a_file_nothing_is_added_to_it() -> None:
    assert gathered(None, [], True, {"a": "b"}) == {"a": "b"}


def test_options_become_settings() -> None:
    assert gathered("/d", [":9092", "[::1]:0"], False, {"a": "b"}) == {
        "log.dirs": "/d",
        "listeners": "PLAINTEXT://:9092,PLAINTEXT_2://[::1]:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PLAINTEXT_2:PLAINTEXT",
        "a": "b",
    }


def test_a_named_listener_is_passed_on() -> None:
    assert listener_settings(["OUTSIDE://0.0.0.0:9092"]) == {"listeners": "OUTSIDE://0.0.0.0:9092"}
    with pytest.raises(UsageError):
        listener_settings(["OUTSIDE://0.0.0.0"])
