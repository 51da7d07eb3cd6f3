"""`ottla start` on a folder that somebody or something has damaged: one sentence, nothing moved."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest
from cli_tools import Outcome, call, execute, started

pytestmark = pytest.mark.ottla_only

METADATA = "__cluster_metadata-0"
FIRST_SEGMENT = "00000000000000000000.log"


@pytest.fixture(scope="module")
def used_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a single node, with a topic and a record, closed properly."""
    folder = tmp_path_factory.mktemp("used")
    with started("--listener", "127.0.0.1:0", "--data", folder / "data", cwd=folder) as (node, at):
        bootstrap = at["places"]
        assert call("topics", "create", "kept", "-b", bootstrap).code == 0
        assert execute("produce", "kept", "-b", bootstrap, stdin=b"one\n").code == 0
        node.send_signal(signal.SIGTERM)
        assert node.wait(20) == 0
    return folder / "data"


@pytest.fixture
def data(used_folder: Path, tmp_path: Path) -> Path:
    return shutil.copytree(used_folder, tmp_path / "data")


def refused(data: Path) -> str:
    """What `ottla start` says: one line."""
    outcome: Outcome = execute("start", "--listener", "127.0.0.1:0", "--data", data)
    assert outcome.code == 1, outcome
    (*warnings, line) = outcome.err.splitlines()
    assert line.startswith("ottla: "), outcome.err
    assert not any("Traceback" in each for each in warnings), outcome.err
    return line


def folders(data: Path) -> set[str]:
    return {each.name for each in data.iterdir() if each.is_dir()}


def files(data: Path) -> dict[str, bytes]:
    """All that is stored."""
    return {
        str(each.relative_to(data)): each.read_bytes()
        for each in data.rglob("*")
        if each.is_file() and each.name != ".lock"
    }


def test_a_damaged_quorum_state_is_told_in_one_sentence(data: Path) -> None:
    state = data / METADATA / "quorum-state"
    state.write_bytes(state.read_bytes()[:20])
    before = files(data)
    line = refused(data)
    assert files(data) == before
    assert f"{state}: damaged (it is not JSON). Restore it from a copy" in line
    state.unlink()  # as the sentence says
    with started("--listener", "127.0.0.1:0", "--data", data, cwd=data.parent) as (_, at):
        assert "kept" in call("topics", "list", "-b", at["places"]).text


def test_an_emptied_metadata_log_is_refused_and_no_topic_is_set_aside(data: Path) -> None:
    (data / METADATA / FIRST_SEGMENT).write_bytes(b"")
    before = files(data)
    line = refused(data)
    assert "it ends at offset 0, and offsets up to" in line
    assert f"Restore {data / METADATA} from a copy" in line
    assert files(data) == before


def test_a_cut_metadata_log_is_refused_and_the_sentence_says_how_to_go_on(data: Path) -> None:
    segment = data / METADATA / FIRST_SEGMENT
    segment.write_bytes(segment.read_bytes()[:-200])
    before = files(data)
    line = refused(data)
    assert "were committed" in line
    assert files(data) == before
    for name in (f"{METADATA}/committed-offset", ".kafka_cleanshutdown"):
        assert str(data / name) in line
        (data / name).unlink()
    with started("--listener", "127.0.0.1:0", "--data", data, cwd=data.parent) as (_, at):
        assert call("topics", "list", "-b", at["places"]).code == 0


def damaged(data: Path) -> tuple[Path, int]:
    """Flip a bit of the record that creates the topic; the segment and position of its batch."""
    logs = sorted((data / METADATA).glob("*.log"))
    segment = next(each for each in logs if b"kept" in each.read_bytes())
    content = segment.read_bytes()
    at = content.index(b"kept")
    segment.write_bytes(content[:at] + b"K" + content[at + 1 :])
    position = 0
    while (after := position + 12 + int.from_bytes(content[position + 8 : position + 12])) <= at:
        position = after
    return segment, position


@pytest.mark.parametrize("was_clean", [True, False], ids=["clean", "killed"])
def test_a_damaged_batch_in_the_metadata_log_is_refused_and_nothing_changes(
    data: Path, was_clean: bool
) -> None:
    segment, position = damaged(data)
    offset = int.from_bytes(segment.read_bytes()[position:][:8])
    if not was_clean:
        (data / ".kafka_cleanshutdown").unlink()
    before = files(data)
    line = refused(data)
    assert f"{segment}: no valid batch at byte {position}, where offset {offset} begins" in line
    assert f"Restore {data / METADATA} from a copy. To go on with what is left, remove" in line
    assert files(data) == before
    (data / METADATA / "committed-offset").unlink()
    (data / ".kafka_cleanshutdown").unlink(missing_ok=True)
    with started("--listener", "127.0.0.1:0", "--data", data, cwd=data.parent) as (_, at):
        assert "kept" not in call("topics", "list", "-b", at["places"]).text


def test_a_damaged_log_with_a_later_snapshot_goes_on_from_the_snapshot(tmp_path: Path) -> None:
    often = ("-o", "metadata.log.max.record.bytes.between.snapshots=300")
    data, listener = tmp_path / "data", ("--listener", "127.0.0.1:0")
    with started(*listener, "--data", data, *often, cwd=tmp_path) as (_, at):
        for name in ("kept", "second", "third"):
            assert call("topics", "create", name, "-b", at["places"]).code == 0
    assert list((data / METADATA).glob("*.checkpoint"))
    damaged(data)
    before = files(data)
    line = refused(data)
    assert "no valid batch at byte" in line
    assert files(data) == before
    (data / METADATA / "committed-offset").unlink()
    (data / ".kafka_cleanshutdown").unlink()
    with started(*listener, "--data", data, *often, cwd=tmp_path) as (_, at):
        assert "kept" in call("topics", "list", "-b", at["places"]).text
        assert call("topics", "create", "fourth", "-b", at["places"]).code == 0


def test_a_damaged_snapshot_is_refused_with_what_to_do(tmp_path: Path) -> None:
    often = ("-o", "metadata.log.max.record.bytes.between.snapshots=300")
    data, listener = tmp_path / "data", ("--listener", "127.0.0.1:0")
    with started(*listener, "--data", data, *often, cwd=tmp_path) as (_, at):
        assert call("topics", "create", "kept", "-b", at["places"]).code == 0
    snapshot = max((data / METADATA).glob("*.checkpoint"))
    snapshot.write_bytes(snapshot.read_bytes()[:-20])
    before = files(data)
    line = refused(data)
    assert str(snapshot) in line
    assert "Restore it from a copy, or move it away" in line
    assert files(data) == before
    snapshot.unlink()
    with started(*listener, "--data", data, cwd=tmp_path) as (_, at):
        assert "kept" in call("topics", "list", "-b", at["places"]).text


def test_a_node_that_was_killed_knows_what_it_had_committed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with started("--listener", "127.0.0.1:0", "--data", data, cwd=tmp_path) as (node, _):
        node.kill()
        node.wait(20)
    (data / METADATA / FIRST_SEGMENT).write_bytes(b"")
    assert "were committed" in refused(data)


def test_data_without_a_metadata_log_is_refused(data: Path) -> None:
    shutil.rmtree(data / METADATA)
    before = files(data)
    line = refused(data)
    assert files(data) == before
    assert (
        f"the metadata log is empty, and there is data of partitions, as in {data}/kept-0" in line
    )
    assert "kept-0" in folders(data)
