"""What lies under deploy/ does what docs/deployment says, as far as no engine is needed for it.

The commands are those of the files, run here with other folders, hosts and ports.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from bench.brokers import free_port

import ottla
from ottla.blocking import Admin, Consumer, Producer
from ottla.runtime.ports import free_ports

pytestmark = pytest.mark.ottla_only

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent
READY_WITHIN_S = 60
NODES = 3


class Started:
    """A command that starts a broker: it is ready when it says so."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.lines: list[str] = []
        self._is_ready = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if " ready in " in line:
                self._is_ready.set()

    def await_ready(self) -> None:
        until = time.monotonic() + READY_WITHIN_S
        while not self._is_ready.wait(0.2):
            assert self.process.poll() is None, self.lines
            assert time.monotonic() < until, self.lines

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(READY_WITHIN_S) == 0, self.lines

    def remove(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def started(command: list[str], **environment: str) -> Iterator[Started]:
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    running = Started(command, {**os.environ, "PATH": path, **environment})
    try:
        yield running
    finally:
        running.remove()


def send_and_count(address: str, *, before: int = 0) -> int:
    """Send 100 records and read all there are."""
    with Producer(bootstrap_servers=address) as producer:
        for number in range(100):
            producer.send("payments", b"%d" % number)
    with Consumer("payments", bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
        seen = 0
        while seen < before + 100:
            seen += sum(map(len, consumer.poll(timeout_ms=5000).values()))
    return seen


# systemd


def unit() -> dict[str, str]:
    lines = (DEPLOY / "systemd" / "ottla.service").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if re.match(r"\w+=", line))


def test_the_unit_starts_a_node_with_the_properties_beside_it(tmp_path: Path) -> None:
    port = free_port()
    text = (DEPLOY / "systemd" / "server.properties").read_text()
    text = text.replace("broker1.example.com:9092", f"127.0.0.1:{port}")
    text = text.replace("0.0.0.0:9092", f"127.0.0.1:{port}")
    assert unit()["StateDirectory"] == "ottla"
    text = text.replace("/var/lib/ottla", str(tmp_path))
    (tmp_path / "server.properties").write_text(text)
    line = unit()["ExecStart"].replace("/opt/ottla/bin", str(BIN))
    command = shlex.split(line.replace("/etc/ottla", str(tmp_path)))
    with started(command) as node:
        node.await_ready()
        assert send_and_count(f"127.0.0.1:{port}") == 100
        node.stop()
    assert (tmp_path / "data" / "payments-0").is_dir()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "systemd" / "ottla.service").read_text()
    text = text.replace("/opt/ottla/bin", str(BIN)).replace("=ottla\n", "=root\n")
    (tmp_path / "ottla.service").write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "ottla.service")],
        capture_output=True,
        text=True,
    )
    told = [line for line in done.stderr.splitlines() if "ottla.service" in line]
    assert not told, done.stderr


# The container


def instructions() -> list[tuple[str, str]]:
    text = (DEPLOY / "container" / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


def test_the_container_runs_a_broker(tmp_path: Path) -> None:
    port = free_port()
    words = dict(instructions())
    command = [*json.loads(words["ENTRYPOINT"]), *json.loads(words["CMD"])]
    line = shlex.join(command).replace("/var/lib/ottla", str(tmp_path))
    assert words["VOLUME"] == "/var/lib/ottla"
    line = line.replace("0.0.0.0:9092", f"127.0.0.1:{port}")
    line = line.replace("localhost:9092", f"127.0.0.1:{port}")
    with started([str(BIN / "ottla"), *shlex.split(line)[1:]]) as node:
        node.await_ready()
        assert send_and_count(f"127.0.0.1:{port}") == 100
        node.stop()


def test_the_container_is_built_from_files_that_are_there_and_not_ignored() -> None:
    kept = (DEPLOY / "container" / "Dockerfile.dockerignore").read_text().splitlines()
    copied = [text.split()[:-1] for name, text in instructions() if name == "COPY"]
    sources = [one for files in copied for one in files if "--from" not in files[0]]
    assert {"pyproject.toml", "setup.py", "MANIFEST.in", "src"} <= set(sources)
    for source in sources:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in kept, source


# Kubernetes


def manifests() -> dict[tuple[str, str], Any]:
    text = (DEPLOY / "kubernetes" / "ottla.yaml").read_text()
    return {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(text)}


def node_script(folder: Path, ports: list[tuple[int, int]], number: int) -> str:
    """node.sh of the ConfigMap, on this machine: each node with a folder and ports of its own."""
    data = manifests()["ConfigMap", "ottla"]["data"]
    own = folder / f"ottla-{number}"
    config = own / "ottla"
    for one in (config, own / "tmp"):
        one.mkdir(parents=True, exist_ok=True)

    def local(text: str) -> str:
        for one, (clients, controllers) in enumerate(ports):
            text = text.replace(f"ottla-{one}.ottla-nodes:9093", f"127.0.0.1:{controllers}")
            if one == number:
                text = text.replace("$POD_NAME.$NODES_DOMAIN:9092", f"127.0.0.1:{clients}")
                text = text.replace("$POD_NAME.$NODES_DOMAIN:9093", f"127.0.0.1:{controllers}")
                text = text.replace("0.0.0.0:9092", f"127.0.0.1:{clients}")
                text = text.replace("0.0.0.0:9093", f"127.0.0.1:{controllers}")
        folders = re.compile("/var/lib/ottla|/etc/ottla|/tmp(?=/)")
        return folders.sub(lambda found: str(own / Path(found[0]).name), text)

    for name, text in data.items():
        (config / name).write_text(local(text))
    return str(config / "node.sh")


@contextmanager
def pods(folder: Path, ports: list[tuple[int, int]]) -> Iterator[list[Started]]:
    container = manifests()["StatefulSet", "ottla"]["spec"]["template"]["spec"]["containers"][0]
    shell, script = container["command"]
    assert script == "/etc/ottla/node.sh"
    given = {one["name"] for one in container["env"]}
    with ExitStack() as stack:
        nodes = []
        for number in range(NODES):
            environment = {"POD_NAME": f"ottla-{number}", "NODES_DOMAIN": "", "CLUSTER_ID": "abc"}
            assert environment.keys() <= given
            command = [shell, node_script(folder, ports, number)]
            nodes.append(stack.enter_context(started(command, **environment)))
        for node in nodes:
            node.await_ready()
        yield nodes


@pytest.mark.timeout(240)
def test_three_pods_are_a_cluster_that_keeps_its_data_through_a_restart(tmp_path: Path) -> None:
    taken = free_ports(2 * NODES)
    ports = list(zip(taken[:NODES], taken[NODES:], strict=True))
    address = ",".join(f"127.0.0.1:{clients}" for clients, _ in ports)
    with pods(tmp_path, ports) as nodes:
        with Admin(bootstrap_servers=address) as admin:
            cluster = admin.describe_cluster()
            admin.create_topic("payments")
            (topic,) = admin.describe_topics(["payments"]).values()
        assert cluster.cluster_id == "abc"
        assert sorted(cluster.brokers) == [1, 2, 3]
        assert not isinstance(topic, ottla.KafkaError)
        assert all(len(one.replicas) == NODES for one in topic.partitions)
        assert send_and_count(address) == 100
        for node in nodes:
            node.process.send_signal(signal.SIGTERM)
        for node in nodes:
            assert node.process.wait(READY_WITHIN_S) == 0, node.lines
    with pods(tmp_path, ports) as nodes:  # formatted once, and found again
        assert send_and_count(address, before=100) == 200
