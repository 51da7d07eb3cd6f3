"""`ottla pipeline check --full`: what only Spark finds wrong is told with its file and line."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "pipelines"
OTTLA = Path(sys.executable).parent / "ottla"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The examples, to be changed."""
    return Path(shutil.copytree(EXAMPLES, tmp_path / "pipelines"))


def check_fully(file: Path) -> subprocess.CompletedProcess[str]:
    """Runs the command in the folder of the file."""
    return subprocess.run(
        [OTTLA, "pipeline", "check", "--full", file.name],
        cwd=file.parent,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize("name", ["big_payments.yaml", "alerts.py"])
def test_spark_finds_nothing_wrong_with_an_example(folder: Path, name: str) -> None:
    done = check_fully(folder / name)
    assert (done.returncode, done.stdout) == (0, f"{name}: Spark finds nothing wrong.\n")


@pytest.mark.parametrize(
    ("name", "old", "new", "checked", "told"),
    [
        pytest.param(
            *("big_payments.yaml", "  - drop: [currency]"),
            "  - filter: |\n      euro > 1\n      and acount is not null",
            *("big_payments.yaml", "big_payments.yaml:16: steps[3].filter: "),
            id="a YAML step after a Python step",
        ),
        pytest.param(
            *("big_payments.yaml", "key: account", "key: acount"),
            *("big_payments.yaml", "big_payments.yaml:17: sink: "),
            id="the key of a YAML sink",
        ),
        pytest.param(
            *("conversion.py", 'F.col("amount")', 'F.col("acount")'),
            *("big_payments.yaml", "conversion.py:11: "),
            id="a column of a Python step",
        ),
        pytest.param(
            *("conversion.py", "    rates", "    payments.where('acount > 1')\n    rates"),
            *("big_payments.yaml", "conversion.py:10: "),
            id="an expression of a Python step",
        ),
        pytest.param(
            *("alerts.py", "record.value > 5", "record.value.acount > 5"),
            *("alerts.py", "alerts.py:17: "),
            id="streams",
        ),
    ],
)  # fmt: skip
def test_a_wrong_column_is_told_with_its_file_and_line(
    folder: Path, name: str, old: str, new: str, checked: str, told: str
) -> None:
    file = folder / name
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    done = check_fully(folder / checked)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"ottla: {told}")
    assert "acount" in done.stderr
    assert done.stderr.count("\n") == 1
