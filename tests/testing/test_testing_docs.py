"""The examples of the page on secured clusters and simulated applications run as they are."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
_, _, SECTION = PAGE.read_text().partition("## Users, ACLs and TLS")
BLOCKS = re.findall(r"```python\n(.*?)```", SECTION, re.S)


def test_the_section_has_its_examples() -> None:
    assert len(BLOCKS) == 3


@pytest.mark.timeout(120)
@pytest.mark.parametrize("code", BLOCKS, ids=range(len(BLOCKS)))
def test_an_example_runs_as_a_program(code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code.replace("runs=10", "runs=2")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_every_verb_is_on_the_page() -> None:
    from ottla.testing import SimulatedCluster

    internal = {"open", "check", "is_waited_for", "own_processes"}
    verbs = {name for name in vars(SimulatedCluster) if not name.startswith("_")} - internal
    page = PAGE.read_text()
    assert not [verb for verb in sorted(verbs) if not re.search(rf"`{verb}\b|, `{verb}\b", page)]


def test_every_kind_of_trouble_is_on_the_page() -> None:
    from ottla.testing import SimulatedCluster, simulate

    async def app(cluster: SimulatedCluster) -> str:
        with pytest.raises(ValueError, match="there are") as raised:
            cluster.storm(["none"])
        return str(raised.value).partition("there are ")[2]

    page = PAGE.read_text()
    assert not [kind for kind in simulate(app, nodes=1).split(", ") if f"`{kind}`" not in page]
