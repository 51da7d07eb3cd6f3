"""`ottla storage`: formatting data folders and looking at them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from bench.brokers import run_java
from cli_tools import call, execute

from ottla.broker.metadata.bootstrap import read_bootstrap
from ottla.broker.storage.dirs.meta_properties import read_meta_properties
from ottla.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from ottla.protocol.uuids import from_text
from ottla.runtime.os_disk import OsDisk

pytestmark = pytest.mark.ottla_only

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
BOOTSTRAP = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"


def properties(folder: Path, **changes: str) -> Path:
    lines = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        "log.dirs": f"{folder}/a,{folder}/b",
        **{key.replace("_", "."): value for key, value in changes.items()},
    }
    file = folder / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    return file


def test_a_random_uuid_is_one() -> None:
    text = call("storage", "random-uuid").text.strip()
    assert len(from_text(text)) == 16
    assert not text.startswith("-")


def test_formatted_folders_say_whose_they_are(tmp_path: Path) -> None:
    file = properties(tmp_path)
    before = call("storage", "info", "-c", file)
    assert before.code == 1
    assert f"{tmp_path}/a does not exist" in before.text
    done = call("storage", "format", "-c", file, "-t", CLUSTER, "--standalone")
    assert done.code == 0, done.err
    assert (tmp_path / "a" / BOOTSTRAP).exists()
    assert not (tmp_path / "b" / BOOTSTRAP).exists()
    told = call("storage", "info", "-c", file, "--json")
    assert told.code == 0
    assert [(one["cluster_id"], one["node_id"]) for one in told.json["folders"]] == [
        (CLUSTER, 1),
        (CLUSTER, 1),
    ]
    assert told.json["problems"] == []


@pytest.mark.parametrize("cluster_id", ["sometext", "x#y=z:k", r"back\slash", "end\\"])
def test_a_cluster_id_may_be_any_text_as_with_kafka(tmp_path: Path, cluster_id: str) -> None:
    file = properties(tmp_path)
    options = ("storage", "format", "-c", file, "-N", "-g", "-t", cluster_id)
    assert call(*options).code == 0
    told = call("storage", "info", "-c", file, "--json").json["folders"]
    assert [one["cluster_id"] for one in told] == [cluster_id, cluster_id]
    assert call(*options).code == 0, "it is the same cluster"


@pytest.mark.parametrize("cluster_id", ["", "some text", "tab\t"])
def test_an_empty_cluster_id_or_one_with_blanks_is_refused(tmp_path: Path, cluster_id: str) -> None:
    refused = call("storage", "format", "-c", properties(tmp_path), "-N", "-t", cluster_id)
    assert refused.code == 2
    assert "is no id" in refused.err
    assert not (tmp_path / "a").exists()


def test_what_is_formatted_is_left_alone(tmp_path: Path) -> None:
    file = properties(tmp_path)
    options = ("storage", "format", "-c", file, "-N")
    assert call(*options, "-t", CLUSTER).code == 0
    again = call(*options, "-t", CLUSTER)
    assert again.code == 1
    assert "--ignore-formatted" in again.err
    before = read_meta_properties(OsDisk(), f"{tmp_path}/a")
    (tmp_path / "b" / "meta.properties").unlink()
    assert call(*options, "-t", CLUSTER, "--ignore-formatted").code == 0
    assert read_meta_properties(OsDisk(), f"{tmp_path}/a") == before
    assert read_meta_properties(OsDisk(), f"{tmp_path}/b") is not None
    other = call(*options, "-t", "other", "--ignore-formatted")
    assert other.code == 1
    assert f"belongs to cluster {CLUSTER}" in other.err


def test_initial_controllers_decide_the_id_of_the_metadata_folder(tmp_path: Path) -> None:
    file = properties(tmp_path)
    ids = [call("storage", "random-uuid").text.strip() for _ in range(3)]
    voters = ",".join(f"{n}@127.0.0.1:{9090 + n}:{one}" for n, one in enumerate(ids))
    done = call("storage", "format", "-c", file, "-t", CLUSTER, "-I", voters)
    assert done.code == 0, done.err
    found = read_meta_properties(OsDisk(), f"{tmp_path}/a")
    assert found is not None
    assert found.directory_id == from_text(ids[1])
    other = read_meta_properties(OsDisk(), f"{tmp_path}/b")
    assert other is not None
    assert other.directory_id not in map(from_text, ids)


def test_a_quorum_must_be_told(tmp_path: Path) -> None:
    outcome = call("storage", "format", "-c", properties(tmp_path), "-t", CLUSTER)
    assert outcome.code == 1
    assert "--standalone, --initial-controllers or --no-initial-controllers" in outcome.err
    fixed = properties(
        tmp_path,
        controller_quorum_voters="1@127.0.0.1:9093",
        controller_quorum_bootstrap_servers="",
    )
    assert call("storage", "format", "-c", fixed, "-t", CLUSTER).code == 0
    assert not (tmp_path / "a" / BOOTSTRAP).exists()


def test_features_have_levels(tmp_path: Path) -> None:
    file = properties(tmp_path)
    options = ("storage", "format", "-c", file, "-t", CLUSTER, "-s", "--feature")
    for wrong, words in (
        ("transaction.version=9", "levels are 0 to 2"),
        ("transaction.version=two", "the level is a number"),
        ("no.such=1", "not one of eligible.leader.replicas.version, group.version, kraft.version"),
        ("kraft.version=0", "leave it out"),
        ("share.version=1", "Ottla does not have it; give share.version=0"),
    ):
        outcome = call(*options, wrong)
        assert outcome.code == 1
        assert words in outcome.err
    served = ("transaction.version=1", "--feature", "share.version=0")
    assert call(*options, *served).code == 0
    wanted = FeatureLevelRecord(name="transaction.version", feature_level=1)
    assert wanted in read_bootstrap(OsDisk(), f"{tmp_path}/a")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-s", "-N"], "exclude each other"),
        (["-I", "1@host:x:y"], "is no id@host:port:directory"),
        (["-I", "rubbish"], "is no id@host:port:directory"),
    ],
)
def test_mistakes_are_told_before_anything_is_written(
    tmp_path: Path, options: list[str], words: str
) -> None:
    outcome = call("storage", "format", "-c", properties(tmp_path), "-t", CLUSTER, *options)
    assert outcome.code in (1, 2)
    assert words in outcome.err
    assert not (tmp_path / "a").exists()


def test_problems_of_the_file_are_told(tmp_path: Path) -> None:
    assert "cannot read" in call("storage", "info", "-c", tmp_path / "none").err
    bad = properties(tmp_path, num_partitions="many")
    assert "num.partitions" in call("storage", "info", "-c", bad).err


def test_kafka_reads_what_was_formatted(tmp_path: Path, kafka_libs: Path) -> None:
    file = properties(tmp_path)
    assert call("storage", "format", "-c", file, "-t", CLUSTER, "-s").code == 0
    told = run_java(kafka_libs, "kafka.tools.StorageTool", "info", "-c", str(file)).stdout
    assert f"cluster.id={CLUSTER}" in told
    assert "problem" not in told
    decoder = "org.apache.kafka.tools.DumpLogSegments"
    for name in ("bootstrap.checkpoint", BOOTSTRAP):
        place = str(tmp_path / "a" / name)
        dumped = run_java(kafka_libs, decoder, "--cluster-metadata-decoder", "--files", place)
        assert "SnapshotFooter" in dumped.stdout
        assert "isvalid: false" not in dumped.stdout


def test_a_folder_that_kafka_formatted_for_share_groups_is_refused_with_how_to_format(
    tmp_path: Path, kafka_libs: Path
) -> None:
    ports = "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"
    file = properties(tmp_path, log_dirs=f"{tmp_path}/a", listeners=ports)
    tool = ("kafka.tools.StorageTool", "format", "--standalone", "-t", CLUSTER, "-c", str(file))
    run_java(kafka_libs, *tool)
    refused = execute("start", "-c", file)
    assert refused.code == 1
    (line,) = refused.err.splitlines()
    assert "has share.version=1, streams.version=1, which Ottla does not support" in line
    options = "--feature share.version=0 --feature streams.version=0"
    assert line.endswith(f"format ... {options}")
    shutil.rmtree(tmp_path / "a")
    run_java(kafka_libs, *tool, *options.split())
    names = {each.name for each in read_bootstrap(OsDisk(), f"{tmp_path}/a")}  # type: ignore[attr-defined]
    assert "metadata.version" in names


def test_a_controller_among_others_does_not_start_unformatted(tmp_path: Path) -> None:
    several = "127.0.0.1:9093,127.0.0.1:9094"
    file = properties(tmp_path, controller_quorum_bootstrap_servers=several)
    outcome = execute("start", "--config", file)
    assert outcome.code == 1
    assert "run `ottla storage format`" in outcome.err
