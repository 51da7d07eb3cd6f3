"""`ottla dump-log` on files of a broker, whole and damaged."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.brokers import Ottla
from cli_tools import Run, call

from ottla.broker.metadata.records import encode_record
from ottla.broker.storage.producers.snapshot import SnapshotEntry, encode_snapshot
from ottla.cli.logs.dump.contents import metadata_content, plain
from ottla.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from ottla.protocol.metadata_records.config_record import ConfigRecord
from ottla.protocol.metadata_records.user_scram_credential_record import (
    UserScramCredentialRecord,
)
from ottla.protocol.schema import Message
from ottla.records.builder import build_batch
from ottla.records.control import end_txn_marker
from ottla.records.record import Record

SEGMENT = "00000000000000000000.log"
SECRET = b"open sesame"


@pytest.fixture(scope="module")
def written_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data folder of a broker that took 2,000 records in small batches and stopped."""
    folder = tmp_path_factory.mktemp("dumped")
    broker = Ottla(folder, {"log.index.interval.bytes": "512"}).start()
    environment = {"OTTLA_BOOTSTRAP": broker.address}
    lines = folder / "lines"
    lines.write_text("".join(f"key{n}:value{n}\n" for n in range(2000)))
    call("topics", "create", "orders", "-p", 1, environment=environment)
    options = ("-K", ":", "--batch-bytes", 300, "-z", "lz4", "-H", "h=1")
    sent = call("produce", "orders", "--file", lines, *options, environment=environment)
    assert sent.code == 0, sent.err
    broker.stop()
    yield broker.data
    broker.remove()


@pytest.fixture
def written(written_once: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(written_once, tmp_path / "data"))


def dumped(*arguments: object) -> list[dict[str, object]]:
    found: list[dict[str, object]] = call("dump-log", "--json", *arguments).json_lines
    return found


def of_type(items: list[dict[str, object]], kind: str) -> list[dict[str, object]]:
    return [item for item in items if item["type"] == kind]


def complaints(*arguments: object) -> str:
    outcome = call("dump-log", "--verify-only", *arguments)
    assert outcome.code == (0 if " 0 problem(s)" in outcome.text else 1)
    return outcome.text


def test_every_record_of_a_segment_is_shown(written: Path) -> None:
    items = dumped("--records", written / "orders-0" / SEGMENT)
    batches, records = of_type(items, "batch"), of_type(items, "record")
    assert [record["offset"] for record in records] == list(range(2000))
    assert [record["value"] for record in records] == [f"value{n}" for n in range(2000)]
    assert records[7]["key"] == "key7"
    assert records[7]["headers"] == [{"name": "h", "value": "1"}]
    assert sum(int(str(batch["count"])) for batch in batches) == 2000
    assert all(batch["codec"] == "lz4" and batch["valid"] for batch in batches)
    text = call("dump-log", "--records", written / "orders-0" / SEGMENT).text
    assert "offsets=0.." in text
    assert "key=key1999 value=value1999" in text


def test_a_whole_data_folder_is_found_sound(written: Path) -> None:
    assert " 0 problem(s) found" in complaints(written)
    items = dumped(written)
    assert of_type(items, "entry"), "the indexes have entries"
    assert {"epoch", "offset", "property"} <= {str(item["type"]) for item in items}


@pytest.mark.parametrize(
    "record",
    [
        UserScramCredentialRecord(
            name="ann", mechanism=2, salt=SECRET, stored_key=SECRET, server_key=SECRET
        ),
        *(
            ConfigRecord(resource_type=4, resource_name="1", name=name, value=SECRET.decode())
            for name in (
                "listener.name.clients.ssl.key.password",
                "listener.name.sasl_ssl.plain.sasl.jaas.config",
                "some.plugins.own",
            )
        ),
    ],
    ids=repr,
)
def test_secrets_in_the_cluster_metadata_are_hidden(record: Message) -> None:
    item = metadata_content(Record(0, 0, None, encode_record(record), ()))
    assert item is not None
    shown = json.dumps(item)
    assert "(hidden)" in shown
    assert SECRET.decode() not in shown
    assert SECRET.hex() not in shown


def test_other_settings_in_the_cluster_metadata_are_shown() -> None:
    for kind, name in ((4, "log.retention.hours"), (2, "cleanup.policy")):
        record = ConfigRecord(resource_type=kind, resource_name="1", name=name, value="7")
        item = metadata_content(Record(0, 0, None, encode_record(record), ()))
        assert item is not None
        assert item["content"]["value"] == "7"


def test_cluster_metadata_is_spelled_out(written: Path) -> None:
    items = dumped(written / "__cluster_metadata-0" / SEGMENT)
    topics = [item for item in items if item.get("kind") == "TopicRecord"]
    assert [item["content"]["name"] for item in topics] == ["orders"]  # type: ignore[index]
    assert "LEADER_CHANGE" in [item.get("kind") for item in items]
    raw = dumped("--raw", "--records", written / "__cluster_metadata-0" / SEGMENT)
    assert not any(item.get("kind") == "TopicRecord" for item in raw)


def test_a_flipped_byte_is_found(written: Path) -> None:
    segment = written / "orders-0" / SEGMENT
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 0xFF
    segment.write_bytes(data)
    assert "checksum" in complaints(segment) or "no batch here" in complaints(segment)


def test_a_cut_tail_is_found(written: Path) -> None:
    segment = written / "orders-0" / SEGMENT
    segment.write_bytes(segment.read_bytes()[:-1])
    assert "the last batch is cut" in complaints(segment)
    segment.write_bytes(segment.read_bytes() + b"\0" * 30)
    assert call("dump-log", segment).code == 1


def test_an_offset_index_that_lies_is_found(written: Path) -> None:
    index = (written / "orders-0" / SEGMENT).with_suffix(".index")
    good = index.read_bytes()
    offset, position = struct.unpack_from(">ii", good, 8)
    for wrong, complaint in (
        ((offset, position + 1), "no batch begins at position"),
        ((0, position), "does not come after"),
    ):
        index.write_bytes(good[:8] + struct.pack(">ii", *wrong) + good[16:])
        assert complaint in complaints(index)
        checked = call("dump-log", "--verify-index-only", written / "orders-0")
        assert (checked.code, complaint in checked.text) == (1, True)


def test_a_time_index_that_lies_is_found(written: Path) -> None:
    index = (written / "orders-0" / SEGMENT).with_suffix(".timeindex")
    timestamp, offset = struct.unpack_from(">qi", index.read_bytes())
    index.write_bytes(struct.pack(">qi", timestamp + 5, offset))
    assert "the latest time up to offset" in complaints(index)
    index.write_bytes(struct.pack(">qi", timestamp, 1_000_000))
    assert "no batch ends with offset 1000000" in complaints(index)


def test_an_index_without_its_segment_can_still_be_seen(written: Path, tmp_path: Path) -> None:
    alone = tmp_path / "00000000000000000000.index"
    alone.write_bytes((written / "orders-0" / SEGMENT).with_suffix(".index").read_bytes())
    items = dumped(alone)
    assert of_type(items, "entry")
    assert "is not there to compare with" in str(of_type(items, "problem")[0]["message"])


def test_room_kept_for_entries_to_come_is_no_entry(tmp_path: Path) -> None:
    (tmp_path / SEGMENT).write_bytes(b"")
    index = tmp_path / "00000000000000000000.index"
    index.write_bytes(bytes(800))
    assert of_type(dumped(index), "entry") == []


def test_producer_snapshots_and_their_damage_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000042.snapshot"
    entry = SnapshotEntry(7, 1, 30, 41, 0, 1234, 0, -1)
    path.write_bytes(encode_snapshot([entry]))
    (shown,) = dumped(path)
    assert shown["producer_id"] == 7
    assert shown["last_sequence"] == 30
    path.write_bytes(encode_snapshot([entry])[:-1])
    assert call("dump-log", path).code == 1


def test_transaction_markers_and_aborted_transactions_are_shown(tmp_path: Path) -> None:
    segment = tmp_path / SEGMENT
    segment.write_bytes(
        build_batch(
            [Record(0, 5, None, b"v")],
            producer_id=9,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        + end_txn_marker(
            committed=False,
            coordinator_epoch=3,
            producer_id=9,
            producer_epoch=0,
            timestamp_ms=6,
            base_offset=1,
        )
    )
    items = dumped("-r", segment)
    assert items[-1]["kind"] == "ABORT"
    assert items[-1]["content"] == {"coordinator_epoch": 3}
    assert "transactional control" in call("dump-log", segment).text
    index = tmp_path / "00000000000000000000.txnindex"
    index.write_bytes(struct.pack(">hqqqq", 0, 9, 0, 1, 2))
    (aborted,) = dumped(index)
    assert (aborted["producer_id"], aborted["first_offset"], aborted["last_offset"]) == (9, 0, 1)


def test_checkpoints_are_shown_and_checked(tmp_path: Path) -> None:
    epochs = tmp_path / "leader-epoch-checkpoint"
    epochs.write_text("0\n2\n0 0\n3 17\n")
    assert [(item["epoch"], item["start_offset"]) for item in dumped(epochs)] == [(0, 0), (3, 17)]
    epochs.write_text("0\n2\n3 17\n0 0\n")
    assert "does not come after" in complaints(epochs)
    offsets = tmp_path / "recovery-point-offset-checkpoint"
    offsets.write_text("0\n1\norders 0 17\n")
    assert dumped(offsets)[0]["offset"] == 17
    offsets.write_text("0\n5\norders 0 17\n")
    assert call("dump-log", offsets).code == 1
    offsets.write_text("")
    assert call("dump-log", offsets).code == 0


def test_what_is_not_there_or_not_ours_is_said(tmp_path: Path) -> None:
    assert call("dump-log", tmp_path / "none").code == 2
    (tmp_path / "notes.txt").write_text("x")
    outcome = call("dump-log", tmp_path / "notes.txt")
    assert outcome.code == 1
    assert "not a kind of file" in outcome.text
    assert call("dump-log", tmp_path).code == 0, "strangers in a folder are passed over"


def test_messages_become_plain_values() -> None:
    message = MetadataResponse(topics=[MetadataResponseTopic(name="t", topic_id=bytes(16))])
    shown = plain(message)
    assert shown["topics"][0]["name"] == "t"
    assert shown["topics"][0]["topic_id"] == "AAAAAAAAAAAAAAAAAAAAAA"


def test_the_folder_of_a_running_broker_can_be_looked_at(ottla: Run, broker, topic: str) -> None:
    ottla("perf", "produce", topic, "-n", 1000)
    assert of_type(dumped(broker.data / f"{topic}-0" / SEGMENT), "batch")
