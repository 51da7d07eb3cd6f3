"""Kafka's own tools move, elect, change features and retire a broker on a cluster."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import ottla.testing

pytestmark = pytest.mark.ottla_only

Tool = Callable[..., str]


def tools(libs: Path, servers: str) -> Tool:
    at = ("--bootstrap-server", servers)

    def run(name: str, *arguments: str) -> str:
        # Tools with subcommands differ in whose argument the address is.
        words = (*arguments, *at) if name == "ClusterTool" else (*at, *arguments)
        done = subprocess.run(
            [
                *("java", "-XX:TieredStopAtLevel=1", "-cp", f"{libs}/*"),
                f"org.apache.kafka.tools.{name}",
                *words,
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_kafkas_tools_administer_a_cluster(tmp_path: Path, kafka_libs: Path):
    plan = tmp_path / "plan.json"
    partitions = [{"topic": "t", "partition": 0, "replicas": [3, 2]}]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    with ottla.testing.cluster(nodes=3) as cluster:
        tool = tools(kafka_libs, cluster.bootstrap_servers)
        tool("TopicCommand", "--create", "--topic", "t", "--replica-assignment", "1:2")
        move = ("reassign.ReassignPartitionsCommand", "--reassignment-json-file", str(plan))
        assert "Successfully started" in tool(*move, "--execute", "--throttle", "10000000")
        cluster.wait_in_sync()
        assert "partition t-0 is completed" in tool(*move, "--verify")
        cluster.restart(3)
        cluster.wait_in_sync()
        assert cluster.leader_of("t") == 2
        tool("LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
        assert "Leader: 3" in tool("TopicCommand", "--describe", "--topic", "t")
        tool("FeatureCommand", "downgrade", "--feature", "transaction.version=1")
        features = tool("FeatureCommand", "describe")
        level = next(line for line in features.splitlines() if "transaction.version" in line)
        assert "FinalizedVersionLevel: 1" in level
        cluster.stop(3)
        assert "no longer registered" in tool("ClusterTool", "unregister", "--id", "3")
        assert cluster.leader_of("t") == 2
