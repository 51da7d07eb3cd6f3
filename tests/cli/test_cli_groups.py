"""`ottla groups` against a real broker, with groups that confluent-kafka makes."""

from __future__ import annotations

import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bench.brokers import Broker
from cli_tools import Outcome, Run, call, eventually, execute
from confluent_kafka import Consumer, Producer, TopicPartition

HOUR_MS = 3_600_000
PARTITIONS = 3
RECORDS = 10
PROTOCOLS = ("classic", "consumer")

OpenMember = Callable[..., Consumer]


@pytest.fixture
def bootstrap(group_broker: Broker) -> str:
    return group_broker.address


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def hours_ms() -> list[int]:
    """The times of the records of each partition: the first is the oldest, an hour lies between."""
    now_ms = int(time.time() * 1000)
    return [now_ms - (RECORDS - number) * HOUR_MS for number in range(RECORDS)]


@pytest.fixture
def filled(ottla: Run, bootstrap: str, topic: str, hours_ms: list[int]) -> str:
    """A topic with ten records in each of three partitions."""
    assert ottla("topics", "create", topic, "-p", PARTITIONS).code == 0
    producer = Producer({"bootstrap.servers": bootstrap})
    for index in range(PARTITIONS):
        for time_ms in hours_ms:
            producer.produce(topic, b"value", partition=index, timestamp=time_ms)
    assert producer.flush(20) == 0
    return topic


@pytest.fixture
def open_member(bootstrap: str) -> Iterator[OpenMember]:
    """`open_member(group, topic)` joins, and waits until it owns partitions."""
    opened: list[Consumer] = []

    def join(group: str, topic: str, protocol: str = "classic", **more: object) -> Consumer:
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": "test-reader",
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **more,
        }
        consumer = Consumer(settings)
        opened.append(consumer)
        consumer.subscribe([topic])

        def owns() -> bool:
            consumer.poll(0.1)
            return bool(consumer.assignment())

        eventually(owns, within_s=30)
        return consumer

    yield join
    for consumer in opened:
        consumer.close()


def commit(bootstrap: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    """From outside of any membership: the group is there, and nobody in it."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    places = [TopicPartition(topic, index, offset) for index, offset in offsets.items()]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def committed(bootstrap: str, group: str, topic: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    wanted = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    found = consumer.committed(wanted, timeout=20)
    consumer.close()
    return {one.partition: one.offset for one in found if one.offset >= 0}


# list


def listed(ottla: Run, *arguments: object) -> dict[str, dict[str, object]]:
    return {one["group"]: one for one in ottla("groups", "list", "--json", *arguments).json}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_live_group_is_listed_with_type_state_and_protocol(
    ottla: Run, filled: str, group: str, open_member: OpenMember, protocol: str
) -> None:
    open_member(group, filled, protocol)
    eventually(lambda: listed(ottla)[group]["state"] == "Stable")
    found = listed(ottla)[group]
    assert set(found) == {"group", "type", "state", "protocol", "coordinator"}
    assert (found["type"], found["protocol"]) == (protocol, "consumer")
    assert group in listed(ottla, "--state", "stable,empty", "--type", protocol)
    assert group not in listed(ottla, "--state", "Empty")
    others = next(name for name in PROTOCOLS if name != protocol)
    assert group not in listed(ottla, "--type", others)
    assert group in ottla("groups", "list").text


def test_names_alone_can_be_piped_on(ottla: Run, bootstrap: str, filled: str, group: str) -> None:
    commit(bootstrap, group, filled, {0: 1})
    assert group in ottla("groups", "list", "--names").text.splitlines()


@pytest.mark.parametrize("option", ["--state", "--type"])
def test_an_unknown_filter_is_a_usage_error_that_names_the_known_ones(
    ottla: Run, option: str
) -> None:
    wrong = ottla("groups", "list", option, "Asleep")
    assert wrong.code == 2
    assert "Asleep" in wrong.err
    assert {"--state": "Stable", "--type": "classic"}[option] in wrong.err


# describe


def described(ottla: Run, group: str, *arguments: object) -> dict[str, object]:
    (found,) = ottla("groups", "describe", group, "--json", *arguments).json
    return found


def partitions(ottla: Run, group: str) -> dict[int, dict[str, object]]:
    found = described(ottla, group)
    return {one["partition"]: one for one in found["partitions"]}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_lag_is_shown_in_records_and_in_seconds_with_the_owner(
    ottla: Run, filled: str, group: str, open_member: OpenMember, protocol: str
) -> None:
    member = open_member(group, filled, protocol)
    offsets = [TopicPartition(filled, 0, 7), TopicPartition(filled, 1, RECORDS)]
    member.commit(offsets=offsets, asynchronous=False)
    eventually(lambda: described(ottla, group)["state"] == "Stable")
    found = described(ottla, group)
    assert (found["type"], found["lag"], found["member_count"]) == (protocol, 3, 1)
    assert found["lag_seconds"] == pytest.approx(3 * 3600, abs=60)
    behind, done, never = (partitions(ottla, group)[index] for index in range(PARTITIONS))
    assert (behind["committed"], behind["log_end"], behind["lag"]) == (7, RECORDS, 3)
    assert behind["lag_seconds"] == pytest.approx(3 * 3600, abs=60)
    assert (done["lag"], done["lag_seconds"]) == (0, 0)
    assert (never["committed"], never["lag"], never["lag_seconds"]) == (None, None, None)
    for one in (behind, done, never):
        assert one["client_id"] == "test-reader"
        assert one["member_id"]
        assert one["host"]
        assert one["error"] is None
    table = ottla("groups", "describe", group, "--offsets").text
    assert "3h 0" in table
    assert f"{group}  {protocol}, Stable, 1 member(s)" in table


def test_a_group_without_members_has_lag_too(
    ottla: Run, bootstrap: str, filled: str, group: str
) -> None:
    commit(bootstrap, group, filled, {2: 4})
    (found,) = partitions(ottla, group).values()
    assert (found["partition"], found["lag"], found["member_id"]) == (2, 6, None)
    assert found["lag_seconds"] == pytest.approx(6 * 3600, abs=60)


def test_the_age_is_that_of_the_record_and_not_of_its_batch(
    ottla: Run, bootstrap: str, topic: str, group: str, hours_ms: list[int]
) -> None:
    ottla("topics", "create", topic)
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 200, "compression.type": "gzip"}
    producer = Producer(settings)
    for time_ms in hours_ms:
        producer.produce(topic, b"value" * 100, partition=0, timestamp=time_ms)
    assert producer.flush(20) == 0
    commit(bootstrap, group, topic, {0: 8})
    assert partitions(ottla, group)[0]["lag_seconds"] == pytest.approx(2 * 3600, abs=60)


def test_batches_larger_than_a_first_look_are_still_dated(
    ottla: Run, bootstrap: str, topic: str, group: str, hours_ms: list[int]
) -> None:
    ottla("topics", "create", topic, "-p", PARTITIONS)
    producer = Producer({"bootstrap.servers": bootstrap})
    for index in range(PARTITIONS):
        producer.produce(topic, bytes(600_000), partition=index, timestamp=hours_ms[index])
    assert producer.flush(20) == 0
    commit(bootstrap, group, topic, dict.fromkeys(range(PARTITIONS), 0))
    for index, found in partitions(ottla, group).items():
        assert found["lag_seconds"] == pytest.approx((RECORDS - index) * 3600, abs=60)


def test_the_marker_of_a_transaction_is_a_lag_of_no_time(
    ottla: Run, bootstrap: str, topic: str, group: str
) -> None:
    ottla("topics", "create", topic)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"one", partition=0, timestamp=1_000)
    producer.commit_transaction(20)
    commit(bootstrap, group, topic, {0: 1})
    found = partitions(ottla, group)[0]
    assert (found["log_end"], found["lag"], found["lag_seconds"]) == (2, 1, 0)


def test_an_offset_before_the_first_record_is_dated_by_that_record(
    ottla: Run, bootstrap: str, filled: str, group: str
) -> None:
    commit(bootstrap, group, filled, {0: 1})
    ottla("topics", "delete-records", filled, "--partition", 0, "--before", 6, "--yes")
    found = partitions(ottla, group)[0]
    assert (found["log_start"], found["lag"]) == (6, 9)
    assert found["lag_seconds"] == pytest.approx(4 * 3600, abs=60)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_are_shown_with_what_they_own(
    ottla: Run, filled: str, group: str, open_member: OpenMember, protocol: str
) -> None:
    open_member(group, filled, protocol, **{"group.instance.id": "left"})
    eventually(lambda: described(ottla, group)["state"] == "Stable")
    found = described(ottla, group, "--members")
    assert "partitions" not in found
    (member,) = found["members"]
    everything = [{"topic": filled, "partition": index} for index in range(PARTITIONS)]
    assert member["assignment"] == everything
    assert member["target"] == (everything if protocol == "consumer" else None)
    assert (member["instance_id"], member["client_id"]) == ("left", "test-reader")
    assert member["topics"] == [filled]
    table = ottla("groups", "describe", group, "--members").text
    assert f"{filled}:0,1,2" in table
    both = described(ottla, group, "--members", "--offsets")
    assert len(both["members"]) == 1
    assert len(both["partitions"]) == PARTITIONS


def test_state_is_one_line_a_group(ottla: Run, bootstrap: str, filled: str, group: str) -> None:
    commit(bootstrap, group, filled, {0: 1})
    found = described(ottla, group, "--state")
    assert (found["state"], found["member_count"], found["error"]) == ("Empty", 0, None)
    assert not {"partitions", "members"} & set(found)
    rows = ottla("groups", "describe", "--all", "--state").text.splitlines()
    (row,) = (row for row in rows if group in row)
    assert "Empty" in row


def test_all_groups_are_described_at_once(
    ottla: Run, bootstrap: str, filled: str, group: str
) -> None:
    groups = [f"{group}-{number}" for number in range(5)]
    for name in groups:
        commit(bootstrap, name, filled, {0: 9})
    found = {one["group"]: one for one in ottla("groups", "describe", "--all", "--json").json}
    assert all(found[name]["lag"] == 1 for name in groups)


def test_a_missing_group_is_one_clear_line_beside_the_others(
    ottla: Run, bootstrap: str, filled: str, group: str
) -> None:
    commit(bootstrap, group, filled, {0: 1})
    result = ottla("groups", "describe", group, "no-such-group")
    assert result.code == 1
    assert filled in result.text
    assert result.err.count("\n") == 1
    assert "there is no group 'no-such-group'" in result.err
    entries = ottla("groups", "describe", "no-such-group", "--json").json
    assert entries == [{"group": "no-such-group", "error": "GROUP_ID_NOT_FOUND"}]


def test_what_to_describe_must_be_said_one_way(ottla: Run, group: str) -> None:
    assert ottla("groups", "describe").code == 2
    assert ottla("groups", "describe", group, "--all").code == 2


# delete


def test_groups_are_deleted_with_their_offsets(
    ottla: Run, bootstrap: str, filled: str, group: str
) -> None:
    commit(bootstrap, group, filled, {0: 1})
    result = ottla("groups", "delete", group, "--json", "--yes")
    assert (result.code, result.json) == (0, [{"group": group, "deleted": True, "error": None}])
    assert group not in listed(ottla)
    assert committed(bootstrap, group, filled) == {}


def test_a_live_group_is_not_deleted(
    ottla: Run, filled: str, group: str, open_member: OpenMember
) -> None:
    open_member(group, filled)
    result = ottla("groups", "delete", group, "--yes")
    assert result.code == 1
    assert "has members" in result.err
    assert ottla("groups", "delete", group, "--json", "--yes").json[0]["error"] == "NON_EMPTY_GROUP"
    assert group in listed(ottla)


def test_deleting_a_missing_group_is_an_error_unless_excused(ottla: Run, group: str) -> None:
    assert ottla("groups", "delete", group, "--yes").code == 1
    assert ottla("groups", "delete", group, "--if-exists", "--yes").code == 0


# delete-offsets


def test_offsets_of_a_topic_or_some_partitions_are_forgotten(
    ottla: Run, bootstrap: str, filled: str, group: str
) -> None:
    commit(bootstrap, group, filled, {0: 1, 1: 2, 2: 3})
    result = ottla("groups", "delete-offsets", group, "--topic", f"{filled}:1", "--json", "--yes")
    assert result.json == [{"topic": filled, "partition": 1, "deleted": True, "error": None}]
    assert committed(bootstrap, group, filled) == {0: 1, 2: 3}
    assert ottla("groups", "delete-offsets", group, "--topic", filled, "--yes").code == 0
    assert committed(bootstrap, group, filled) == {}
    nothing = ottla("groups", "delete-offsets", group, "--topic", filled, "--yes")
    assert nothing.code == 1
    assert "committed nothing" in nothing.err


def test_a_live_group_keeps_the_offsets_of_what_it_reads(
    ottla: Run, bootstrap: str, filled: str, group: str, open_member: OpenMember
) -> None:
    member = open_member(group, filled)
    member.commit(offsets=[TopicPartition(filled, 0, 3)], asynchronous=False)
    result = ottla("groups", "delete-offsets", group, "--topic", filled, "--json", "--yes")
    assert result.code == 1
    assert result.json[0]["error"] == "GROUP_SUBSCRIBED_TO_TOPIC"
    assert committed(bootstrap, group, filled) == {0: 3}


# reset-offsets


def reset(ottla: Run, group: str, *arguments: object) -> Outcome:
    return ottla("groups", "reset-offsets", group, *arguments)


AT_START = {0: 5, 1: 6, 2: 7}
TARGETS = [
    (("--to-earliest",), {0: 0, 1: 0, 2: 0}),
    (("--to-latest",), {0: 10, 1: 10, 2: 10}),
    (("--to-current",), AT_START),
    (("--to-offset", 3), {0: 3, 1: 3, 2: 3}),
    (("--shift-by", -2), {0: 3, 1: 4, 2: 5}),
    (("--shift-by", 3), {0: 8, 1: 9, 2: 10}),
    (("--by-duration", "2h30m"), {0: 8, 1: 8, 2: 8}),
    (("--by-duration", "PT4H30M"), {0: 6, 1: 6, 2: 6}),
    (("--by-duration", "P1D"), {0: 0, 1: 0, 2: 0}),
]


@pytest.mark.parametrize(
    ("target", "expected"), TARGETS, ids=["".join(map(str, target)) for target, _ in TARGETS]
)
def test_each_target_is_planned_and_then_carried_out(
    ottla: Run,
    bootstrap: str,
    filled: str,
    group: str,
    target: tuple[object, ...],
    expected: dict[int, int],
) -> None:
    commit(bootstrap, group, filled, AT_START)
    planned = reset(ottla, group, "--all-topics", *target, "--json")
    assert planned.code == 0
    assert {one["partition"]: one["offset"] for one in planned.json} == expected
    assert {one["partition"]: one["committed"] for one in planned.json} == AT_START
    assert not any(one["executed"] for one in planned.json)
    assert committed(bootstrap, group, filled) == AT_START
    done = reset(ottla, group, "--topic", filled, *target, "--execute", "--json")
    assert all(one["executed"] and not one["error"] for one in done.json)
    assert committed(bootstrap, group, filled) == expected


def test_a_time_is_taken_in_its_zone(
    ottla: Run, bootstrap: str, filled: str, group: str, hours_ms: list[int]
) -> None:
    commit(bootstrap, group, filled, {0: 0})
    moment = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(hours_ms[4] / 1000 + 60))
    (found,) = reset(ottla, group, "--all-topics", "--to-datetime", moment, "--json").json
    assert found["offset"] == 5
    (found,) = reset(
        ottla, group, "--all-topics", "--to-datetime", f"@{hours_ms[3]}", "--json"
    ).json
    assert found["offset"] == 3


def test_a_time_after_the_last_record_is_the_end_with_a_warning(
    ottla: Run, bootstrap: str, filled: str, group: str
) -> None:
    commit(bootstrap, group, filled, {0: 0})
    result = reset(ottla, group, "--all-topics", "--to-datetime", "2999-01-01T00:00")
    assert "the end is taken" in result.err
    assert result.text.split()[-1] == str(RECORDS)


def test_a_dry_run_says_so_and_shows_a_table(
    ottla: Run, bootstrap: str, filled: str, group: str
) -> None:
    commit(bootstrap, group, filled, {0: 4})
    result = reset(ottla, group, "--topic", f"{filled}:0", "--to-earliest", "--dry-run")
    assert result.code == 0
    assert result.text.splitlines()[-1].split() == [group, filled, "0", "4", "0"]
    assert "Dry run" in result.err
    assert committed(bootstrap, group, filled) == {0: 4}


def test_only_the_named_partitions_are_reset(
    ottla: Run, bootstrap: str, filled: str, group: str
) -> None:
    commit(bootstrap, group, filled, AT_START)
    scope = ("--topic", f"{filled}:0", "--topic", f"{filled}:2")
    assert reset(ottla, group, *scope, "--to-offset", 1, "--execute").code == 0
    assert committed(bootstrap, group, filled) == {**AT_START, 0: 1, 2: 1}


@pytest.mark.parametrize(
    ("target", "expected"),
    [(("--to-offset", 99), 10), (("--shift-by", -7), 2), (("--shift-by", 50), 10)],
)
def test_offsets_that_the_log_does_not_hold_are_pulled_in_with_a_warning(
    ottla: Run,
    bootstrap: str,
    filled: str,
    group: str,
    target: tuple[object, ...],
    expected: int,
) -> None:
    ottla("topics", "delete-records", filled, "--partition", 0, "--before", 2, "--yes")
    commit(bootstrap, group, filled, {0: 5})
    result = reset(ottla, group, "--all-topics", *target, "--execute")
    assert result.code == 0
    assert f"{filled}-0" in result.err
    assert f"{expected} is taken" in result.err
    assert committed(bootstrap, group, filled) == {0: expected}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_live_group_is_refused(
    ottla: Run, bootstrap: str, filled: str, group: str, open_member: OpenMember, protocol: str
) -> None:
    member = open_member(group, filled, protocol)
    member.commit(offsets=[TopicPartition(filled, 0, 3)], asynchronous=False)
    eventually(lambda: listed(ottla)[group]["state"] == "Stable")
    result = reset(ottla, group, "--all-topics", "--to-earliest", "--execute")
    assert result.code == 1
    assert "is Stable with 1 member(s); stop its consumers first" in result.err
    assert result.err.count("\n") == 1
    assert committed(bootstrap, group, filled) == {0: 3}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_whose_members_have_left_goes_on_where_it_was_told(
    ottla: Run, bootstrap: str, filled: str, group: str, open_member: OpenMember, protocol: str
) -> None:
    first = open_member(group, filled, protocol)
    first.commit(offsets=[TopicPartition(filled, 0, RECORDS)], asynchronous=False)
    first.close()
    eventually(lambda: listed(ottla)[group]["state"] == "Empty")
    scope = ("--topic", f"{filled}:0", "--to-offset", 6, "--execute")
    assert reset(ottla, group, *scope).code == 0
    assert committed(bootstrap, group, filled)[0] == 6


def test_a_group_that_is_not_there_gets_its_offsets_in_advance(
    ottla: Run, bootstrap: str, filled: str, group: str
) -> None:
    result = reset(ottla, group, "--topic", filled, "--to-latest", "--execute")
    assert result.code == 0
    assert f"there is no group '{group}' yet" in result.err
    assert committed(bootstrap, group, filled) == {0: 10, 1: 10, 2: 10}


def test_without_offsets_there_is_nothing_to_shift_or_to_reset(
    ottla: Run, bootstrap: str, filled: str, group: str
) -> None:
    commit(bootstrap, group, filled, {0: 1})
    shift = reset(ottla, group, "--topic", filled, "--shift-by", 1)
    assert shift.code == 1
    assert f"{filled}-1" in shift.err
    everything = reset(ottla, f"{group}-new", "--all-topics", "--to-earliest")
    assert everything.code == 1
    assert "--topic" in everything.err


def test_current_offsets_of_partitions_without_one_are_their_ends(
    ottla: Run, bootstrap: str, filled: str, group: str
) -> None:
    commit(bootstrap, group, filled, {0: 1})
    result = reset(ottla, group, "--topic", filled, "--to-current", "--json")
    assert [one["offset"] for one in result.json] == [1, 10, 10]
    assert [bool(one["warning"]) for one in result.json] == [False, True, True]


def test_a_topic_or_partition_that_is_not_there_is_one_clear_line(
    ottla: Run, filled: str, group: str
) -> None:
    missing = reset(ottla, group, "--topic", f"{filled}-not", "--to-earliest")
    assert missing.code == 1
    assert "there is no topic" in missing.err
    beyond = reset(ottla, group, "--topic", f"{filled}:7", "--to-earliest")
    assert beyond.code == 1
    assert "has no partition 7" in beyond.err


def test_an_export_can_be_read_back(
    ottla: Run, bootstrap: str, filled: str, group: str, tmp_path: Path
) -> None:
    commit(bootstrap, group, filled, AT_START)
    exported = reset(ottla, group, "--all-topics", "--to-current", "--export")
    assert exported.text == f"{filled},0,5\n{filled},1,6\n{filled},2,7\n"
    file = tmp_path / "offsets.csv"
    file.write_bytes(exported.out)
    reset(ottla, group, "--all-topics", "--to-latest", "--execute")
    some = reset(ottla, group, "--topic", f"{filled}:1", "--from-file", file, "--json")
    assert [(one["partition"], one["offset"]) for one in some.json] == [(1, 6)]
    assert reset(ottla, group, "--from-file", file, "--execute").code == 0
    assert committed(bootstrap, group, filled) == AT_START


def test_an_export_of_several_groups_names_them(
    ottla: Run, bootstrap: str, filled: str, group: str, tmp_path: Path
) -> None:
    other = f"{group}, the other"
    commit(bootstrap, group, filled, {0: 2})
    commit(bootstrap, other, filled, {0: 3})
    exported = reset(ottla, group, other, "--all-topics", "--to-current", "--export")
    assert exported.text == f'{group},{filled},0,2\n"{other}",{filled},0,3\n'
    file = tmp_path / "offsets.csv"
    file.write_bytes(exported.out)
    (alone,) = reset(ottla, other, "--from-file", file, "--json").json
    assert (alone["group"], alone["offset"]) == (other, 3)
    file.write_text(f"{filled},0,2\n")
    unnamed = reset(ottla, group, other, "--from-file", file)
    assert unnamed.code == 2
    assert "names no group" in unnamed.err


def test_offsets_can_come_from_standard_input(bootstrap: str, filled: str, group: str) -> None:
    commit(bootstrap, group, filled, {0: 1})
    result = execute(
        *("groups", "reset-offsets", group, "--from-file", "-", "--execute"),
        stdin=f"{filled},0,9\n\n".encode(),
        environment={"OTTLA_BOOTSTRAP": bootstrap},
    )
    assert result.code == 0
    assert committed(bootstrap, group, filled) == {0: 9}


@pytest.mark.parametrize("line", ["orders,zero,1", "orders,0", "orders,0,-4", "a,b,c,d,e", ",0,1"])
def test_a_line_that_is_no_offset_is_a_usage_error_that_names_it(
    ottla: Run, group: str, tmp_path: Path, line: str
) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(f"orders,0,1\n{line}\n")
    result = reset(ottla, group, "--from-file", file)
    assert result.code == 2
    assert "line 2" in result.err


def test_a_missing_file_is_one_clear_line(ottla: Run, group: str) -> None:
    result = reset(ottla, group, "--from-file", "/nowhere/offsets.csv")
    assert result.code == 2
    assert result.err == "ottla: cannot read /nowhere/offsets.csv: No such file or directory\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--to-earliest",),
        ("--all-topics",),
        ("--all-topics", "--topic", "t", "--to-earliest"),
        ("--all-topics", "--to-earliest", "--to-latest"),
        ("--all-topics", "--to-earliest", "--dry-run", "--execute"),
        ("--all-topics", "--to-earliest", "--export", "--json"),
        ("--all-topics", "--to-offset", "-1"),
        ("--all-topics", "--by-duration", "soon"),
        ("--all-topics", "--by-duration", "PT"),
        ("--all-topics", "--to-datetime", "yesterday"),
        ("--topic", "t:", "--to-earliest"),
        ("--topic", "t:x", "--to-earliest"),
        ("--topic", ":1", "--to-earliest"),
    ],
    ids=" ".join,
)
def test_a_reset_that_is_not_clear_is_a_usage_error(
    ottla: Run, group: str, arguments: tuple[str, ...]
) -> None:
    assert reset(ottla, group, *arguments).code == 2


def test_an_unreachable_broker_is_one_clear_line() -> None:
    result = call("groups", "list", environment={"OTTLA_BOOTSTRAP": "localhost:1"})
    assert result.code == 1
    assert result.err.count("\n") == 1


def test_every_command_shows_examples() -> None:
    for command in ("list", "describe", "delete", "delete-offsets", "reset-offsets"):
        result = call("groups", command, "--help")
        assert result.code == 0
        assert f"ottla groups {command}" in result.text


# Kafka's own tool


def test_kafkas_tool_sees_the_same_and_exchanges_files(
    ottla: Run, bootstrap: str, filled: str, group: str, kafka_libs: Path, tmp_path: Path
) -> None:
    commit(bootstrap, group, filled, AT_START)
    theirs = kafka_tool(kafka_libs, bootstrap, "--describe", "--group", group)
    rows = [line.split()[:6] for line in theirs.splitlines() if filled in line]
    ours = partitions(ottla, group)
    assert sorted(rows) == [
        [group, filled, str(index), str(offset), str(RECORDS), str(ours[index]["lag"])]
        for index, offset in AT_START.items()
    ]
    scope = ("--reset-offsets", "--group", group, "--all-topics")
    exported = kafka_tool(kafka_libs, bootstrap, *scope, "--to-current", "--export")
    file = tmp_path / "offsets.csv"
    file.write_text(exported)
    found = reset(ottla, group, "--from-file", file, "--json").json
    assert {one["partition"]: one["offset"] for one in found} == AT_START


def kafka_tool(libs: Path, bootstrap: str, *arguments: str) -> str:
    tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    done = subprocess.run(
        ["java", "-cp", f"{libs}/*", tool, "--bootstrap-server", bootstrap, *arguments],
        capture_output=True,
        timeout=50,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
