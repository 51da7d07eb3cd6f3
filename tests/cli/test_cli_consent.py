"""Nothing is destroyed without consent."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_tools import Run, call, execute, on_terminal

from ottla.cli.nodes.folder import prepare
from ottla.pipelines.folders import PipelineFolder, PipelineState


@pytest.fixture
def topic(ottla: Run, request: pytest.FixtureRequest) -> str:
    name = f"consent-{abs(hash(request.node.name))}"
    assert ottla("topics", "create", name).code == 0
    return name


def names(ottla: Run) -> list[str]:
    return ottla("topics", "list", "--names").text.split()


@pytest.mark.parametrize(
    ("answer", "code", "is_deleted"),
    [
        pytest.param(b"n\n", 1, False, id="n"),
        pytest.param(b"\n", 1, False, id="empty"),
        pytest.param(b"orders\n", 1, False, id="nonsense"),
        pytest.param(b"", 2, False, id="none"),
        pytest.param(b"y\n", 0, True, id="y"),
    ],
)
def test_a_piped_answer_counts(
    topic: str, ottla: Run, program: Run, answer: bytes, code: int, is_deleted: bool
) -> None:
    done = program("topics", "delete", topic, stdin=answer)
    assert done.code == code, done.err
    assert (topic in names(ottla)) != is_deleted
    if not answer:
        assert "--yes" in done.err
    if not is_deleted:
        assert "othing was done" in done.err


@pytest.mark.parametrize(("typed", "code"), [(b"n\n", 1), (b"\x04", 1), (b"y\n", 0)])
def test_at_a_terminal_it_asks(
    topic: str, ottla: Run, bootstrap: str, typed: bytes, code: int
) -> None:
    where = {"OTTLA_BOOTSTRAP": bootstrap}
    done, shown = on_terminal("topics", "delete", topic, typed=typed, environment=where)
    assert (done, f"Delete {topic} with all records? [y/N]:" in shown) == (code, True)
    assert (topic in names(ottla)) == bool(code)


@pytest.mark.parametrize(
    "command",
    [
        ("topics", "delete", "t"),
        ("topics", "delete-records", "t", "--before", "end"),
        ("topics", "elect-leaders", "t", "--unclean"),
        ("groups", "delete", "g"),
        ("groups", "delete-offsets", "g", "--topic", "t"),
        ("transactions", "abort", "id"),
        ("transactions", "abort", "--topic", "t", "--partition", "0", "--start-offset", "0"),
        ("cluster", "unregister", "1"),
        ("cluster", "unregister", "1", "--force"),
        ("quorum", "remove-voter", "1"),
    ],
)
def test_every_destructive_command_wants_consent(command: tuple[str, ...]) -> None:
    """Before anything else: nobody listens there."""
    refused = call(*command, "--bootstrap", "127.0.0.1:1")
    assert refused.code == 2
    assert "--yes" in refused.err
    agreed = call(*command, "--yes", "--bootstrap", "127.0.0.1:1")
    assert "connection refused" in agreed.err


def test_what_a_folder_holds_is_kept_without_consent(tmp_path: Path) -> None:
    pipeline = PipelineFolder(tmp_path / "pipelines", "fraud")
    pipeline.write_state(PipelineState(1))
    nodes = prepare(tmp_path / "nodes", 3, 9092)
    kept = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    state_dir = ("--state-dir", tmp_path / "pipelines")
    for command in (
        ("pipeline", "delete", "fraud", *state_dir),
        ("pipeline", "reprocess", "cancel", "fraud", "--delete-outputs", *state_dir),
        ("cluster", "retire", "1", "--data", nodes.path),
    ):
        refused = call(*command)
        assert refused.code == 2, refused.err
        assert "--yes" in refused.err
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == kept


def test_an_answer_is_not_waited_for_without_end(bootstrap: str) -> None:
    """A script whose stdin is open and silent is told what to do."""
    import subprocess

    from cli_tools import PROGRAM

    process = subprocess.Popen(
        [PROGRAM, "topics", "delete", "t", "--bootstrap", bootstrap],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.wait(30) == 2
    finally:
        process.kill()
        process.communicate()


def test_reset_offsets_only_shows_unless_told_to_execute(ottla: Run) -> None:
    """Its consent is --execute, as in Kafka's tool."""
    assert "--yes" not in execute("groups", "reset-offsets", "--help").text
