"""A bare `make` explains itself."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_a_bare_make_prints_every_target_and_does_nothing_else() -> None:
    # As a person's make, not as one below the `make test` that runs this.
    env = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    done = subprocess.run(["make"], cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    (phony,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)
    printed = [line.split()[1] for line in done.stdout.splitlines()]
    assert sorted(printed) == sorted(phony.split())
