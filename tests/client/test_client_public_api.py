"""What `from ottla import ...` offers: complete, light, typed."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from importlib import import_module, resources
from pathlib import Path

import pytest

import ottla
import ottla.blocking
import ottla.testing
from ottla.client import errors

SAMPLE = Path(__file__).with_name("typed_sample.py")
FACES = [ottla, ottla.blocking]
PACKAGES = [*FACES, ottla.testing]
CLIENTS = ("Admin", "Consumer", "Producer")

OTHERS = {
    *("Any", "AsyncIterator", "Awaitable", "Callable", "Collection", "Exception", "Iterable"),
    *("Iterator", "Literal", "Mapping", "None", "Pattern", "Self", "Sequence", "Unpack"),
    *("BaseException", "TracebackType"),
}
"""Python's own."""
ALIASES = {
    *("Changes", "CommitCallback", "Handler", "Headers", "IsolationLevel", "Name", "OnDelivery"),
    *("Offsets", "RecordBatch"),
}
"""Names for types that an application writes out, and pyarrow's."""
INSIDE = {"Runtime", "Cluster"}


def typed_names(package: object) -> dict[str, str]:
    """Name to module, as type checkers see the package."""
    tree = ast.parse(inspect.getsource(package))  # type: ignore[arg-type]
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module != "ottla.lazy":
            for alias in node.names:
                if alias.asname == alias.name:
                    found[alias.name] = node.module
    return found


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_type_checkers_and_the_interpreter_see_the_same(package: object) -> None:
    typed = typed_names(package)
    assert sorted(typed) == package.__all__  # type: ignore[attr-defined]
    for name, module in typed.items():
        assert getattr(package, name) is getattr(import_module(module), name)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_every_name_is_there_and_a_wrong_one_is_not(package: object) -> None:
    for name in package.__all__:  # type: ignore[attr-defined]
        assert getattr(package, name) is not None
        assert name in dir(package)
    with pytest.raises(AttributeError, match="Prodcer"):
        package.Prodcer  # type: ignore[attr-defined]  # noqa: B018


def test_every_error_of_the_clients_can_be_caught_by_name() -> None:
    kinds = {
        name
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, Exception) and kind.__module__ == errors.__name__
    }
    assert kinds <= set(ottla.__all__)


@pytest.mark.parametrize(
    "client",
    [*(getattr(package, name) for package in FACES for name in ("Admin", "Consumer", "Producer"))],
    ids=lambda client: client.__module__,
)
def test_every_type_in_a_signature_is_public(client: type) -> None:
    names: set[str] = set()
    for name, method in inspect.getmembers(client, inspect.isfunction):
        if not name.startswith("_") or name == "__init__":
            signature = inspect.signature(method)
            texts = [str(one.annotation) for one in signature.parameters.values()]
            for text in (*texts, str(signature.return_annotation)):
                names |= set(re.findall(r"\b[A-Z]\w*[a-z]\w*\b", re.sub(r"'.*?'", "", text)))
    assert names - OTHERS - ALIASES - INSIDE <= set(ottla.__all__)


def test_the_package_says_that_it_is_typed() -> None:
    assert resources.files("ottla").joinpath("py.typed").is_file()


def test_importing_the_package_brings_nothing_heavy_along() -> None:
    program = (
        "import sys, ottla; heavy = [name for name in sys.modules if name.startswith(("
        "'ottla.client', 'ottla.protocol', 'ottla.blocking', 'ottla.records', 'asyncio', "
        "'typer', 'rich', 'uvloop', 'pyarrow'))]; sys.exit(', '.join(heavy) or None)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stderr.decode()) == (0, "")


def test_an_admin_alone_does_not_bring_the_consumer_along() -> None:
    program = (
        "import sys; from ottla import Admin; "
        "sys.exit('ottla.client.consumer.consumer' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def mypy(program: Path, cache: Path) -> str:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--config-file=",
            f"--cache-dir={cache}",
            program,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


WRONG = """
import ottla
from ottla import Admin, Consumer, Producer
from ottla.blocking import Producer as BlockingProducer

Producer(bootstrap_server="localhost:9092")
Producer(linger_ms="5")
Producer(acks="some")
Consumer("payments", group="ledger")
Consumer("payments", enable_auto_commit="yes")
Admin("localhost:9092")
BlockingProducer(buffer_memory="much")
ottla.Produzer
"""


@pytest.mark.timeout(300)
def test_type_checkers_pass_a_right_program_and_find_what_is_wrong(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    assert mypy(SAMPLE, tmp_path / "cache").startswith("Success")
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG)
    told = mypy(wrong, tmp_path / "cache")
    expected = {number for number, line in enumerate(WRONG.splitlines(), 1) if "(" in line}
    expected.add(len(WRONG.splitlines()))
    assert {int(line) for line in re.findall(r"wrong\.py:(\d+): error", told)} == expected, told
