"""Every Python block of the pages on clients, and every example, runs as it is."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from bench.brokers import Broker

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs" / "clients").glob("*.md")),
    *sorted((ROOT / "docs" / "streams").glob("from-*.md")),
]
# Those of streams are for tests/streams.
EXAMPLES = sorted(set((ROOT / "examples").glob("*.py")) - set(ROOT.glob("examples/streams_*.py")))
HERE = "localhost:9092"
LIMIT_S = 60


def blocks() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.S)):
            if "ottla.spark" not in code and "ottla.streams" not in code:
                found.append((f"{page.stem}-{number}", code))
    return found


def run(code: str, name: str, bootstrap: str) -> None:
    """As a person would: a file of its own, told where the broker is."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code.replace(HERE, bootstrap)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    if done.returncode:
        pytest.fail(f"{name} ended with {done.returncode}:\n{done.stderr}", pytrace=False)


@pytest.fixture(scope="module")
def orders(broker: Broker) -> None:
    """What the pages on reading take for granted."""
    from ottla.blocking import Producer

    with Producer(bootstrap_servers=broker.address) as producer:
        for number in range(20):
            producer.send("orders", b'{"number": %d}' % number, partition=0)


@pytest.mark.parametrize(("name", "code"), blocks(), ids=[name for name, _ in blocks()])
@pytest.mark.usefixtures("orders")
def test_the_python_in_the_pages_runs(name: str, code: str, bootstrap: str) -> None:
    run(code, name, bootstrap)


@pytest.mark.parametrize("example", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_every_example_runs(example: Path, bootstrap: str) -> None:
    run(example.read_text(), example.name, bootstrap)


def test_there_are_examples() -> None:
    assert EXAMPLES
