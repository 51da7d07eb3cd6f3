"""What `ottla pipeline` shows of pipelines that have nothing to show yet."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from ottla.cli.root import app
from ottla.pipelines.folders import PipelineFolder, PipelineState, Spec
from ottla.pipelines.progress import QueryFigures
from ottla.pipelines.states import Record, State


def shown(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["pipeline", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_no_pipelines_are_told_in_a_line(tmp_path: Path) -> None:
    assert shown("list", "--state-dir", str(tmp_path)) == (
        f"No pipelines in {tmp_path}. Start one with `ottla pipeline run FILE`.\n"
    )
    assert shown("list", "--state-dir", str(tmp_path), "--json").strip() == "[]"


@pytest.mark.parametrize("queries", [[], [QueryFigures("main").as_json()]])
def test_a_pipeline_before_its_first_batch_has_not_started(
    tmp_path: Path, queries: list[object]
) -> None:
    folder = PipelineFolder(tmp_path, "copy")
    folder.write_state(PipelineState(1))
    version = folder.version(1)
    version.write_spec(Spec("copy", 1, "copy.yaml", "copy.yaml"))
    version.write_record(Record(State.STOPPED, 1.0))
    version.write_progress({"at": 1.0, "queries": queries})
    text = shown("status", "copy", "--state-dir", str(tmp_path))
    (lag,) = [line for line in text.splitlines() if line.startswith("lag")]
    assert lag.split(maxsplit=1)[1] == "not started: no batch has ended yet"
    assert "?" not in text


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("notes.txt", "to do", "wants a file that ends with .py, .yaml or .yml"),
        ("words.py", "no Python", "is no Python"),
        ("empty.py", "x = 1\n", "has neither `app = App(...)`"),
        ("wrong.yaml", "source: a\nsink: {topc: b}\n", "sink: wants either"),
        ("absent.py", None, "No such file or directory"),
        ("absent.yaml", None, "No such file or directory"),
    ],
)
def test_a_file_without_a_pipeline_is_a_wrong_call(
    tmp_path: Path, name: str, text: str | None, told: str
) -> None:
    file = tmp_path / name
    if text is not None:
        file.write_text(text)
    pipelines = tmp_path / "pipelines"
    result = CliRunner().invoke(app, ["pipeline", "run", str(file), "--state-dir", str(pipelines)])
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith(f"ottla: {file}")
    assert told in result.stderr
    assert not pipelines.exists()
