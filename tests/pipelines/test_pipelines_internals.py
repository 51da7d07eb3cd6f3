"""What a pipeline keeps in the cluster for itself goes with it; the list of pipelines is narrow."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ottla.blocking import Admin
from ottla.cli.pipelines.output import print_list
from ottla.cli.root import app
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.pipelines import control, reprocess
from ottla.pipelines.application import StreamsApplication
from ottla.pipelines.context import BOOTSTRAP, Context
from ottla.pipelines.folders import PipelineFolder, PipelineState, Spec
from ottla.streams import App


def a_pipeline(root: Path, bootstrap: str, internal: list[str], ids: list[str]) -> PipelineFolder:
    folder = PipelineFolder(root, "fraud")
    folder.write_state(PipelineState(current=1))
    write_version(folder, 1, bootstrap, internal, ids)
    return folder


def write_version(
    folder: PipelineFolder, number: int, bootstrap: str, internal: list[str], ids: list[str]
) -> None:
    """A version that has run: one query id is in its figures, the others in its checkpoints."""
    version = folder.version(number)
    version.write_spec(Spec("fraud", number, "fraud.py", "fraud.py", "local[1]"))
    version.write_outputs(
        {
            "topics": {},
            "paths": {},
            "inputs": [],
            "internal": internal,
            "connection": {BOOTSTRAP: bootstrap, "kafka.default.api.timeout.ms": "2000"},
        }
    )
    version.write_progress({"queries": [{"name": "one", "id": ids[0]}]})
    for number, one in enumerate(ids[1:]):
        checkpoint = version.path / "checkpoints" / "streams" / str(number)
        checkpoint.mkdir(parents=True)
        (checkpoint / "metadata").write_text(json.dumps({"id": one}))


def test_internal_topics_and_groups_go_with_their_pipeline(
    bootstrap: str, topic: str, tmp_path: Path
) -> None:
    ids = [str(uuid.uuid4()) for _ in range(3)]
    own = [f"ottla-sink-{ids[0]}", f"ottla-sink-fraud-{ids[1]}"]
    others = [f"ottla-sink-{ids[2]}", f"ledger-{ids[0]}"]
    with Admin(bootstrap_servers=bootstrap) as admin:
        for name in (topic, f"{topic}-counts-changelog"):
            admin.create_topic(name, partitions=1)
        for group in (*own, *others):
            admin.alter_group_offsets(group, {TopicPartition(topic, 0): OffsetAndMetadata(0)})
        folder = a_pipeline(tmp_path, bootstrap, [f"{topic}-counts-changelog"], ids[:2])
        gone = control.delete(folder)
        left = {one.group_id for one in admin.list_consumer_groups()}
        assert left.isdisjoint(own)
        assert left.issuperset(others)
        assert topic in admin.list_topics()
        assert f"{topic}-counts-changelog" not in admin.list_topics()
        admin.delete_groups(others)
    assert gone == {"topics": [f"{topic}-counts-changelog"], "groups": sorted(own), "left": []}
    assert not folder.exists


def test_a_pipeline_is_deleted_also_where_no_cluster_answers(tmp_path: Path) -> None:
    folder = a_pipeline(tmp_path, "127.0.0.1:1", ["between"], [str(uuid.uuid4())])
    gone = control.delete(folder)
    assert "no Kafka broker answers at 127.0.0.1:1" in gone["left"][0]
    assert not folder.exists


def test_a_cancelled_version_takes_its_own_internal_topics_and_groups_along(
    bootstrap: str, topic: str, tmp_path: Path
) -> None:
    ids = [str(uuid.uuid4()) for _ in range(3)]
    first, second = f"{topic}-counts-changelog", f"{topic}-v2-counts-changelog"
    groups = [f"ottla-sink-{one}" for one in ids]
    with Admin(bootstrap_servers=bootstrap) as admin:
        for name in (topic, first, second):
            admin.create_topic(name, partitions=1)
        for group in groups:
            admin.alter_group_offsets(group, {TopicPartition(topic, 0): OffsetAndMetadata(0)})
        folder = a_pipeline(tmp_path, bootstrap, [first], ids[:1])
        write_version(folder, 2, bootstrap, [second], ids[1:])
        folder.change(candidate=2, latest=2)
        done = reprocess.cancel(folder, delete_outputs=False)
        assert second not in admin.list_topics()
        assert {topic, first} <= set(admin.list_topics())
        left = {one.group_id for one in admin.list_consumer_groups()}
        assert left & set(groups) == {groups[0]}
        admin.delete_groups(groups[:1])
    assert done["internal"] == {"topics": [second], "groups": sorted(groups[1:]), "left": []}
    assert folder.candidate() is None


def test_a_cancel_says_that_internal_topics_and_groups_are_left(
    tmp_path: Path,
) -> None:
    folder = a_pipeline(tmp_path, "127.0.0.1:1", [], [str(uuid.uuid4())])
    write_version(folder, 2, "127.0.0.1:1", ["between"], [str(uuid.uuid4())])
    folder.change(candidate=2, latest=2)
    result = CliRunner().invoke(
        app, ["pipeline", "reprocess", "cancel", "fraud", "--state-dir", str(tmp_path)]
    )
    assert result.exit_code == 0
    assert "may be left in the cluster: no Kafka broker answers at 127.0.0.1:1" in result.stderr


def test_outputs_of_a_second_version_that_never_started_are_deleted_with_it(
    bootstrap: str, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "fraud.yaml"
    file.write_text(f"source: payments\nsink: {{topic: {topic}}}\n")
    folder = a_pipeline(tmp_path / "pipelines", bootstrap, [], [str(uuid.uuid4())])
    outputs = folder.version(1).outputs()
    folder.version(1).write_outputs({**outputs, "topics": {topic: topic}})
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(topic, partitions=3)
        reprocess.begin(folder, file, {})
        assert f"{topic}-v2" in admin.list_topics()
        done = reprocess.cancel(folder, delete_outputs=True)
        assert f"{topic}-v2" not in admin.list_topics()
        assert topic in admin.list_topics()
    assert done["topics"] == [f"{topic}-v2"]


def test_the_internal_topics_of_an_app_are_those_of_its_version() -> None:
    shop = App("shop")
    shop.stream("payments").group_by_key().count(store="counts").to_stream().group_by_key().count(
        store="again"
    ).to("out")
    second = Context("shop", version=2, suffix="-v2")
    first = StreamsApplication(shop).internal_topics(Context("shop"))
    assert first == ["shop-KTABLE-TOSTREAM-0000000002-repartition"]
    assert StreamsApplication(shop).internal_topics(second) == [
        "shop-v2-KTABLE-TOSTREAM-0000000002-repartition"
    ]


def test_the_list_fits_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    one = {
        "name": "payments-by-merchant",
        "version": 2,
        "state": "running",
        "since": time.time() - 90_000,
        "rows_in": 123_456_789,
        "in_per_s": 12_345.6,
        "lag": {"records": 1_234_567},
        "batch_ms": 1234.0,
        "error": None,
    }
    failed = {**one, "version": 1, "state": "failed", "error": "step 1 failed: " + "x" * 500}
    print_list([one, failed])
    *table, error = capsys.readouterr().out.splitlines()
    assert max(map(len, table)) <= 80
    assert error.startswith("payments-by-merchant: step 1 failed")
