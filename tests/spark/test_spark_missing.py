"""What is said where PySpark cannot be imported: that it is missing only where it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = "from ottla.spark import spark_session\nspark_session('any')\n"


def last_line(folder: Path, program: str) -> str:
    file = folder / "program.py"
    file.write_text(program)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]


def test_pyspark_that_is_not_installed_is_told_with_how_to_get_it(tmp_path: Path) -> None:
    told = last_line(tmp_path, f"import sys\nsys.modules['pyspark'] = None\n{PROGRAM}")
    assert told.endswith("PySpark is not installed. Get it by `pip install 'ottla[spark]'`")


def test_another_package_that_is_missing_is_told_by_its_name(tmp_path: Path) -> None:
    told = last_line(tmp_path, f"import sys\nsys.modules['py4j'] = None\n{PROGRAM}")
    assert "PySpark is installed, but importing it failed: " in told
    assert "py4j" in told


def test_a_file_that_hides_a_module_of_python_is_named(tmp_path: Path) -> None:
    """The first program of README, saved beside others as copy.py."""
    hiding = tmp_path / "copy.py"
    hiding.write_text(PROGRAM)
    for program in (PROGRAM, f"from pyspark.sql import functions as F\n{PROGRAM}"):
        told = last_line(tmp_path, program)
        assert f"{hiding} hides Python's own module of that name: rename it" in told
