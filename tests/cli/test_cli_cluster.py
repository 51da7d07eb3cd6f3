"""`ottla cluster status`, `ottla quorum` and moving partitions, against clusters of three nodes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cli_tools import PROGRAM, Run, call, eventually, execute

import ottla.testing
from ottla.cli.cluster.status import (
    NO_LEADER,
    UNDER_MIN_ISR,
    UNDER_REPLICATED,
    broker_states,
    lagging_voters,
    partitions_in_need,
)
from ottla.client.admin.quorum import DescribedQuorum, QuorumMember
from ottla.client.admin.topics import EligibleLeaders
from ottla.client.network.metadata import Broker, Partition, Topic
from ottla.client.values import TopicPartition

pytestmark = pytest.mark.ottla_only

DIRECTORY = "kXSyEMBiQkKj0yEAzPXpRg"


@pytest.fixture(scope="module")
def shared() -> Iterator[Any]:
    """A cluster whose nodes all live."""
    with ottla.testing.cluster(nodes=3) as cluster:
        yield cluster


@pytest.fixture
def on(shared: Any) -> Run:
    return _on(shared)


def _on(cluster: Any) -> Run:
    environment = {"OTTLA_BOOTSTRAP": cluster.bootstrap_servers}
    return lambda *arguments: call(*arguments, environment=environment)


def replicas_of(run: Run, topic: str) -> list[list[int]]:
    (described,) = run("topics", "describe", topic, "--json").json
    return [partition["replicas"] for partition in described["partitions"]]


# --- clusters -----------------------------------------------------------------------------------


def test_a_healthy_cluster_says_so(on: Run, topic: str) -> None:
    on("topics", "create", topic, "-p", 3, "-r", 3)
    eventually(lambda: on("cluster", "status", "--check").code == 0)
    status = on("cluster", "status", "--json").json
    assert status["problems"] == []
    assert [broker["node"] for broker in status["brokers"]] == [1, 2, 3]
    assert not any(broker["fenced"] for broker in status["brokers"])
    assert sum(broker["leads"] for broker in status["brokers"]) == status["partitions"]
    assert status["controllers"]["leader"] in (1, 2, 3)
    text = on("cluster", "status").text
    assert "All is well." in text
    assert "leading controller" in text


def test_the_cluster_is_still_listed_without_a_subcommand(on: Run, shared: Any) -> None:
    listed = on("cluster", "--json").json
    assert [one["id"] for one in listed["brokers"]] == [1, 2, 3]
    assert listed["controller"] == shared.controller


def test_the_quorum_tells_how_far_each_controller_is(on: Run, shared: Any) -> None:
    described = on("quorum", "describe", "--json").json
    assert described["leader"] == shared.controller
    assert [(m["node"], m["votes"]) for m in described["members"]] == [
        (1, True),
        (2, True),
        (3, True),
    ]
    assert all(member["at"][0].startswith("CONTROLLER://") for member in described["members"])
    assert "largest lag of a voter" in on("quorum", "describe").text


def test_a_voter_that_is_none_cannot_be_removed(on: Run) -> None:
    outcome = on("quorum", "remove-voter", "--yes", 9)
    assert outcome.code == 2
    assert "no voter 9; voters are [1, 2, 3]" in outcome.err.replace("\n", " ")


def controllers_of(run: Run) -> dict[int, str]:
    members = run("quorum", "describe", "--json").json["members"]
    return {one["node"]: one["at"][0].partition("://")[2] for one in members if one["votes"]}


def test_any_controller_can_be_asked_itself(on: Run, shared: Any) -> None:
    for address in controllers_of(on).values():
        asked = ("--bootstrap-controller", address)
        assert call("quorum", "describe", *asked, "--json").json["leader"] == shared.controller
        none = call("quorum", "remove-voter", "--yes", 9, *asked)
        assert "no voter 9; voters are [1, 2, 3]" in none.err.replace("\n", " ")
        fixed = call("quorum", "remove-voter", "--yes", 1, "--directory-id", DIRECTORY, *asked)
        assert fixed.code == 1
        assert "kraft.version" in fixed.err  # the leader's own words: these voters cannot change


def test_an_address_of_the_other_kind_is_told_with_what_to_do(on: Run, shared: Any) -> None:
    controller = controllers_of(on)[1]
    for command in (
        ("quorum", "describe"),
        ("cluster", "status"),
        ("cluster",),
        ("topics", "list"),
    ):
        outcome = on(*command, "--bootstrap", controller)
        assert outcome.code == 1
        assert "--bootstrap wants the address of a broker" in outcome.err
    broker = shared.bootstrap_servers.split(",")[0]
    outcome = on("quorum", "describe", "--bootstrap-controller", broker)
    assert outcome.code == 1
    assert "goes with --bootstrap-controller" in outcome.err
    bad = on("quorum", "describe", "--bootstrap-controller", "nowhere:x")
    assert bad.code == 2


def test_a_dead_node_is_named_with_the_partitions_that_miss_it() -> None:
    with ottla.testing.cluster(nodes=3) as cluster:
        run = _on(cluster)
        run("topics", "create", "orders", "-p", 3, "-r", 3, "-c", "min.insync.replicas=3")
        run("topics", "create", "clicks", "-p", 3, "-r", 1)
        dead = next(node for node in cluster.nodes if node != cluster.controller)
        cluster.kill(dead)

        def status() -> Any:
            return run("cluster", "status", "--json").json

        eventually(lambda: any(broker["fenced"] for broker in status()["brokers"]))
        eventually(lambda: status()["under_min_isr"] == 3)
        found = status()
        (broker,) = (one for one in found["brokers"] if one["fenced"])
        assert broker["node"] == dead
        assert broker["why"]
        assert found["without_leader"] == 1
        problems = {one["topic"]: one["problem"] for one in found["in_need"]}
        assert problems == {"orders": UNDER_MIN_ISR, "clicks": NO_LEADER}
        assert all(one["missing"] == [dead] for one in found["in_need"] if one["topic"] == "orders")
        checked = run("cluster", "status", "--check")
        assert checked.code == 1
        assert f"! broker {dead} is fenced" in checked.text


def test_without_a_majority_what_is_known_is_told_soon_and_counts_as_an_error() -> None:
    with ottla.testing.cluster(nodes=3) as cluster:
        run = _on(cluster)
        run("topics", "create", "orders", "-p", 1, "-r", 3)
        cluster.kill(1)
        cluster.kill(2)
        eventually(lambda: run("quorum", "describe").code == 1)  # the leader has to notice first
        began = time.monotonic()
        status = run("cluster", "status")
        assert time.monotonic() - began < 5
        assert status.code == 1
        assert "! no majority of the controllers" in status.text
        assert re.search(r"node 3 \(.*\): answers; quorum epoch \d+, (no|last) leader", status.text)
        assert re.search(r"node 1 \(.*\): .*refused", status.text)
        described = run("quorum", "describe")
        assert described.code == 1
        assert "node 3" in described.text
        told = run("cluster", "status", "--json").json["nodes_without_majority"]
        assert [(one["node"], one["answers"]) for one in told] == [
            (1, False),
            (2, False),
            (3, True),
        ]


def test_a_voter_that_is_no_broker_is_named_when_it_does_not_answer() -> None:
    with ottla.testing.cluster(nodes=3) as cluster:
        run = _on(cluster)
        where = controllers_of(run)
        asked = ("--bootstrap-controller", where[3])
        eventually(lambda: run("cluster", "--json").json["controller"] is not None)
        cluster.stop(1)
        eventually(lambda: run("cluster", "--json").json["brokers"][0]["fenced"])
        assert run("cluster", "unregister", "--yes", 1).code == 0
        eventually(lambda: run("cluster", "--json").json["brokers"][0]["id"] == 2)
        cluster.kill(2)
        eventually(lambda: run("quorum", "describe").code == 1)
        for command in (
            ("quorum", "describe"),
            ("cluster", "status"),
            ("quorum", "describe", *asked),
        ):
            outcome = run(*command)
            assert outcome.code == 1
            assert re.search(rf"node 1 \({where[1]}\): .*refused", outcome.text)
            assert re.search(r"node 3 \(.*\): answers; quorum epoch \d+", outcome.text)
        assert run("cluster", "--json").json["controller"] is None


# --- moves --------------------------------------------------------------------------------------


def test_a_plan_is_shown_kept_and_carried_out(on: Run, topic: str, tmp_path: Path) -> None:
    on("topics", "create", topic, "--assign", "1:2,1:2,1:2")
    shown = on("topics", "reassign", topic, "--brokers", "2,3")
    assert f"{topic}-0" in shown.text
    assert "--execute" in shown.err
    plan = on("topics", "reassign", topic, "--brokers", "2,3", "--json").json
    assert replicas_of(on, topic) == [[1, 2]] * 3
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    done = on(
        *("topics", "reassign", "--plan", file, "--execute", "--throttle", 10_000_000, "--json")
    )
    assert done.json["done"]
    eventually(lambda: all(set(ids) == {2, 3} for ids in replicas_of(on, topic)))
    for resource in (("--topic", topic), ("--broker", 2)):
        assert "throttled" not in on("configs", "describe", *resource).text
    assert on("topics", "reassign", "--list", "--json").json == []
    again = on("topics", "reassign", "--plan", file, "--execute")
    assert again.text == "Everything is where it should be.\n"


def test_what_was_begun_without_waiting_is_throttled_until_it_is_watched_to_its_end(
    on: Run, topic: str
) -> None:
    on("topics", "create", topic, "--assign", "1:2,1:2")
    begun = ("topics", "reassign", topic, "--brokers", "2,3", "--execute", "--no-wait")
    assert "--progress" in on(*begun, "--throttle", 10_000_000).text
    assert "0:1,0:2,1:1,1:2" in on("configs", "describe", "--topic", topic).text
    assert "throttled.rate" in on("configs", "describe", "--broker", 3).text
    assert on("topics", "reassign", "--progress", topic).code == 0
    assert "throttled" not in on("configs", "describe", "--topic", topic).text
    assert "throttled" not in on("configs", "describe", "--broker", 3).text
    eventually(lambda: all(set(ids) == {2, 3} for ids in replicas_of(on, topic)))


def test_a_new_broker_takes_over_from_one_that_retires() -> None:
    with ottla.testing.cluster(nodes=3) as cluster:
        run = _on(cluster)
        run("topics", "create", "orders", "-p", 4, "-r", 3)
        new = cluster.add_node()
        eventually(lambda: len(run("cluster", "--json").json["brokers"]) == 4)
        retiring = next(node for node in cluster.nodes if node != cluster.controller)
        staying = [node for node in cluster.nodes if node != retiring]
        moved = run(
            *("topics", "reassign", "orders", "--brokers", ",".join(map(str, staying))),
            *("--execute", "--throttle", 50_000_000),
        )
        assert moved.code == 0, moved.err
        assert all(set(ids) == set(staying) for ids in replicas_of(run, "orders"))
        leads = {b["node"]: b["leads"] for b in run("cluster", "status", "--json").json["brokers"]}
        assert leads[retiring] == 0
        eventually(lambda: run("cluster", "status", "--json").json["brokers"][-1]["leads"] > 0)
        refused = run("cluster", "unregister", "--yes", retiring)
        assert refused.code == 2
        assert "still runs" in refused.err
        cluster.stop(retiring)
        assert run("cluster", "unregister", "--yes", retiring, "--json").json == {
            "unregistered": retiring
        }
        eventually(
            lambda: retiring not in [b["id"] for b in run("cluster", "--json").json["brokers"]]
        )
        assert new in [b["id"] for b in run("cluster", "--json").json["brokers"]]


def test_a_broker_that_keeps_replicas_is_forgotten_only_by_force() -> None:
    with ottla.testing.cluster(nodes=3) as cluster:
        run = _on(cluster)
        run("topics", "create", "orders", "-p", 1, "-r", 3)
        gone = next(node for node in cluster.nodes if node != cluster.controller)
        cluster.stop(gone)
        eventually(lambda: run("cluster", "--json").json["brokers"][gone - 1]["fenced"])
        refused = run("cluster", "unregister", "--yes", gone)
        assert refused.code == 2
        said = " ".join(refused.err.replace("│", " ").split())
        assert "keeps replicas of 1 topic(s)" in said
        assert "3 copies need 3 other brokers, and 2 run: add 1 first" in said
        assert run("cluster", "unregister", "--yes", gone, "--force").code == 0
        forgotten = f"! broker {gone} is not registered any more, but 1 partition(s) still name it"
        eventually(lambda: forgotten in run("cluster", "status").text)
        assert "unregistered" in run("cluster", "status").text


def test_a_topic_gets_more_copies(on: Run, topic: str) -> None:
    on("topics", "create", topic, "-p", 2, "-r", 1)
    assert on("topics", "reassign", topic, "-r", 3, "--execute").code == 0
    eventually(lambda: all(len(ids) == 3 for ids in replicas_of(on, topic)))


def test_a_move_that_waits_for_a_dead_broker_is_listed_and_cancelled() -> None:
    with ottla.testing.cluster(nodes=3) as cluster:
        run = _on(cluster)
        run("topics", "create", "orders", "--assign", "1")
        run("topics", "create", "clicks", "--assign", "1")
        cluster.kill(3)
        eventually(lambda: run("cluster", "--json").json["brokers"][2]["fenced"])
        plan = {"partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 3]}]}
        file = Path(cluster.nodes[1].folder) / "plan.json"
        file.write_text(json.dumps(plan))
        begun = run("topics", "reassign", "--plan", file, "--execute", "--no-wait", "--json")
        assert not begun.json["done"]
        another = run("topics", "reassign", "orders", "--brokers", "2")
        assert another.code == 2
        assert "orders-0 is moving already" in " ".join(another.err.replace("│", " ").split())
        (move,) = run("topics", "reassign", "--list", "--json").json
        assert (move["topic"], move["adding"]) == ("orders", [3])
        assert "orders-0" in run("topics", "reassign", "--list").text
        assert run("topics", "reassign", "--list", "clicks", "--json").json == []
        cancelled = run("topics", "reassign", "--cancel", "orders", "--json")
        assert cancelled.json == {"cancelled": ["orders-0"]}
        eventually(lambda: replicas_of(run, "orders") == [[1]])

        with ThreadPoolExecutor(1) as pool:
            address = {"OTTLA_BOOTSTRAP": cluster.bootstrap_servers}
            arguments = ("topics", "reassign", "--plan", file, "--execute")
            waiting = pool.submit(lambda: execute(*arguments, environment=address))
            eventually(lambda: run("topics", "reassign", "--list", "--json").json)
            run("topics", "reassign", "--cancel")
            outcome = waiting.result()
        assert outcome.code == 1
        assert "somebody cancelled the move" in outcome.err

        watching = subprocess.Popen(
            [PROGRAM, *map(str, arguments)],
            env={**os.environ, **address},
            stderr=subprocess.PIPE,
            text=True,
        )
        eventually(lambda: run("topics", "reassign", "--list", "--json").json)
        assert watching.stderr is not None
        assert any("moving" in line for line in watching.stderr)
        watching.send_signal(signal.SIGINT)
        _, said = watching.communicate(timeout=10)
        assert watching.returncode == 130
        assert "The move goes on without this command" in said
        assert run("topics", "reassign", "--list", "--json").json


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("--brokers", "1"), "name topics"),
        (("t",), "--brokers or --replication-factor"),
        (("t", "--brokers", "x"), "broker ids like 1,2,3"),
        (("--list", "--cancel"), "only one of"),
    ],
)
def test_what_makes_no_sense_is_said(on: Run, arguments: tuple[str, ...], wanted: str) -> None:
    outcome = on("topics", "reassign", *arguments)
    assert outcome.code == 2
    assert wanted in " ".join(outcome.err.replace("│", " ").split())


def test_the_first_replica_leads_after_a_move(on: Run, topic: str, tmp_path: Path) -> None:
    on("topics", "create", topic, "--assign", "1:2,2:1")
    plan = {"partitions": [{"topic": topic, "partition": 0, "replicas": [2, 1]}]}
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    assert on("topics", "reassign", "--plan", file, "--execute").code == 0

    def leaders() -> list[int]:
        (described,) = on("topics", "describe", topic, "--json").json
        return [partition["leader"] for partition in described["partitions"]]

    eventually(lambda: leaders() == [2, 2])  # --execute sees to it
    outcome = on("topics", "elect-leaders", f"{topic}:0-1", "--json")
    assert outcome.code == 0
    assert [row["elected"] for row in outcome.json] == [False, False]
    assert [row["error"] for row in outcome.json] == [None, None]


def test_an_unclean_election_wants_its_partitions_named(on: Run) -> None:
    assert on("topics", "elect-leaders", "--unclean").code == 2


# --- what is said of whom -----------------------------------------------------------------------


def member(node: int, end: int, fetched_ms: int | None = 1000) -> QuorumMember:
    return QuorumMember(node, end, fetched_ms, fetched_ms)


def test_the_reason_for_fencing_is_read_from_the_controllers() -> None:
    quorum = DescribedQuorum(
        1, 1, 100, (member(1, 100, None), member(2, 90), member(3, 100)), (member(4, 100, 900_000),)
    )
    brokers = [Broker(n, "h", 9092, is_fenced=n > 1) for n in (1, 2, 3, 4, 5)]
    now_ms = 1_000 + 900_000
    why = {s.node: s.why for s in broker_states(brokers, [], quorum, now_ms)}
    assert why[1] is None
    assert why[2] == "not heard of for 900 s: stopped, or not reached"
    assert why[3] == "not heard of for 900 s: stopped, or not reached"
    assert why[4] is not None
    assert "heartbeats do not arrive" in why[4]
    assert why[5] is not None
    assert "does not follow" in why[5]
    behind = {s.node: s.why for s in broker_states(brokers, [], quorum, 1_500)}
    assert behind[2] == "catching up with the metadata, 10 offsets behind"
    assert [line.split()[1] for line in lagging_voters(quorum, now_ms)] == ["2", "3"]


def test_who_was_gone_before_the_controller_took_over_is_not_said_to_catch_up() -> None:
    quorum = DescribedQuorum(1, 2, 100, (member(1, 100), member(2, -1, None)), ())
    (state,) = broker_states([Broker(2, "h", 9092, is_fenced=True)], [], quorum, 2_000)
    assert state.why == "not heard of since controller 1 took over: stopped, or not reached"
    assert "since controller 1 took over" in lagging_voters(quorum, 2_000)[0]


def test_who_is_not_told_of_is_unregistered_only_where_fenced_brokers_are_told() -> None:
    quorum = DescribedQuorum(1, 1, 100, (member(1, 100),), ())
    topic = Topic("t", bytes(16), False, (Partition(0, 1, 0, (1, 5), (1,), (5,)),))
    one = [Broker(1, "h", 9092)]
    state = broker_states(one, [topic], quorum, 2_000, tells_fenced=True)[1]
    assert not state.registered
    assert state.why == "not registered any more, but 1 partition(s) still name it: reassign them"
    old = broker_states(one, [topic], quorum, 2_000)[1]
    assert old.registered
    assert old.why is not None
    assert "does not follow" in old.why


def test_partitions_are_sorted_by_their_need() -> None:
    topic = Topic(
        "t",
        bytes(16),
        False,
        (
            Partition(0, 1, 0, (1, 2, 3), (1, 2, 3), ()),
            Partition(1, 1, 0, (1, 2, 3), (1, 2), (3,)),
            Partition(2, 1, 0, (1, 2, 3), (1,), (2, 3)),
            Partition(3, -1, 0, (1, 2, 3), (3,), (3,)),
        ),
    )
    found = {one.partition: one.problem for one in partitions_in_need([topic], {"t": 2})}
    assert found == {1: UNDER_REPLICATED, 2: UNDER_MIN_ISR, 3: NO_LEADER}


def test_a_partition_that_nobody_leads_names_whom_it_waits_for() -> None:
    topic = Topic("t", bytes(16), False, tuple(Partition(n, -1, 0, (1, 2), (), ()) for n in (0, 1)))
    known = {
        TopicPartition("t", 0): EligibleLeaders((2,), (1,)),
        TopicPartition("t", 1): EligibleLeaders((), (1,)),
    }
    found = partitions_in_need([topic], {"t": 2}, known)
    assert [one.waits_for for one in found] == [(2,), (1,)]
