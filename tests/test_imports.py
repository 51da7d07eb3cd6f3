"""The plan of the house, checked: imports point one way, and only runtime/ reaches the system.

What is read here is the source, not the running program, so that an import inside a function counts
too. Imports for type checkers alone do not: they bind nothing at run time.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "ottla"

# From the ground up: a room may use the rooms of the floors below its own, and itself.
FLOORS = (
    {"buffers", "counters", "durations", "lazy", "logs", "rate"},
    {"runtime", "security"},
    {"config", "protocol"},
    {"records"},
    {"network", "raft"},
    {"peers"},
    {"storage"},
    {"quorum"},
    {"metadata"},
    {"controller", "quotas", "replication"},
    {"coordinator", "membership"},
    {"server", "client"},
    {"blocking"},
    {"spark", "registry", "console", "metrics"},
    {"streams"},
    {"pipelines"},
    {"node"},
    {"sim"},
    {"testing"},
    {"demo"},
    {"cli"},
)

# Pure rooms decide and do nothing else. The modules named drive one: they own its tasks and logs.
PURE_ROOMS = {
    "config",
    "controller",
    "coordinator",
    "metadata",
    "protocol",
    "quotas",
    "raft",
    "records",
}
DRIVERS = {
    "broker/controller/controller.py",
    "broker/controller/duties.py",
    "broker/controller/tokens/tokens.py",
    "broker/coordinator/hosted_shard.py",
    "broker/coordinator/runtime.py",
    "broker/coordinator/service.py",
    "broker/coordinator/internal_topics.py",
    "broker/coordinator/broker_batcher.py",
    "broker/coordinator/producer_ids.py",
    "broker/coordinator/replaying.py",
    "broker/coordinator/transactions/local_markers.py",
    "broker/coordinator/transactions/markers.py",
    "broker/coordinator/transactions/service.py",
    "broker/metadata/formatting.py",
    "broker/metadata/bootstrap.py",
    "broker/metadata/catch_up.py",
    "broker/metadata/decision_queue.py",
    "broker/metadata/follower.py",
    "broker/metadata/leadership_logger.py",
    "broker/metadata/log.py",
    "broker/metadata/replay.py",
    "broker/metadata/snapshotter.py",
    "broker/metadata/waiters.py",
    "broker/metadata/completeness.py",
}
BEYOND_PURE = {"storage", "server", "client", "node", "replication"}

# Rooms with a window: the real system, the simulated one, and those that face a person or a test.
WINDOWS = {"runtime", "sim", "testing", "cli", "blocking", "spark", "streams", "pipelines", "demo"}
EFFECTS = {
    *("concurrent", "fcntl", "mmap", "multiprocessing", "pathlib", "resource", "secrets", "select"),
    *("selectors", "shutil", "signal", "socket", "ssl", "subprocess", "tempfile", "threading"),
    *("time", "uuid", "uvloop"),
}
# Of these modules only the named parts work on their arguments alone.
HARMLESS = {
    "os": {"path", "strerror", "fspath", "PathLike"},
    "random": {"Random"},
}


@dataclass(frozen=True)
class Import:
    """`module` as imported by the file `where`, at `line`."""

    where: str
    line: int
    module: str

    def __str__(self) -> str:
        return f"src/ottla/{self.where}:{self.line} imports {self.module}"


def sources() -> list[str]:
    return sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))


def tree(where: str) -> ast.Module:
    return ast.parse((SOURCE / where).read_text())


def room_of(where: str) -> str:
    """The folder below src/ottla, or below the broker's roof."""
    return where.removeprefix("broker/").partition("/")[0].removesuffix(".py")


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def running_code(node: ast.AST) -> Iterator[ast.AST]:
    """Every node below, but for what only a type checker sees."""
    for child in ast.iter_child_nodes(node):
        if is_type_checking(child):
            continue
        yield child
        yield from running_code(child)


def imports(where: str) -> Iterator[Import]:
    for node in running_code(tree(where)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(where, node.lineno, alias.name)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"src/ottla/{where}:{node.lineno}: write the full module name"
            for alias in node.names:
                yield Import(where, node.lineno, f"{node.module}.{alias.name}")


def ottla_room(module: str) -> str | None:
    """The room a module is in; None for modules of others, and for the package's own names."""
    package, _, rest = module.partition(".")
    room = rest.removeprefix("broker.").partition(".")[0]
    return room if package == "ottla" and any(room in floor for floor in FLOORS) else None


def floor_of(room: str) -> int:
    return next(number for number, floor in enumerate(FLOORS) if room in floor)


def is_pure(where: str) -> bool:
    return room_of(where) in PURE_ROOMS and where not in DRIVERS


def complain(broken: list[str], rule: str) -> None:
    if broken:
        pytest.fail(f"{rule}:\n  " + "\n  ".join(dict.fromkeys(broken)), pytrace=False)


def test_every_room_has_its_floor() -> None:
    rooms = {room_of(where) for where in sources()} - {"__init__", "__main__"}
    unplaced = rooms - set().union(*FLOORS)
    complain(sorted(unplaced), "These rooms are not in the plan (FLOORS in tests/test_imports.py)")


def test_imports_point_down() -> None:
    broken = []
    for where in sources():
        room = room_of(where)
        for found in imports(where):
            target = ottla_room(found.module)
            if target in (None, room) or room not in set().union(*FLOORS):
                continue
            if floor_of(target) >= floor_of(room):
                broken.append(f"{found}, and {target} is not below {room}")
    complain(broken, "Imports must point to a lower floor")


def test_a_node_runs_without_the_clients() -> None:
    nodes = [where for where in sources() if where.startswith("broker/") or where == "node.py"]
    broken = [
        str(found)
        for where in nodes
        for found in imports(where)
        if ottla_room(found.module) in ("client", "blocking")
    ]
    complain(broken, "A node and its clients share ottla.network, and nothing of each other")


def test_pure_modules_decide_without_driving_anything() -> None:
    broken = [
        str(found)
        for where in filter(is_pure, sources())
        for found in imports(where)
        if found.module.partition(".")[0] in ("asyncio", "logging")
        or ottla_room(found.module) in BEYOND_PURE | {"logs"}
    ]
    complain(broken, "Pure modules import neither asyncio nor logs nor rooms that do things")


def test_only_rooms_with_a_window_touch_the_system() -> None:
    broken = []
    for where in sources():
        if room_of(where) not in WINDOWS:
            broken += [
                str(found) for found in imports(where) if found.module.partition(".")[0] in EFFECTS
            ]
            broken += impure_uses(where)
    complain(broken, "Time, randomness, sockets and files are reached through ottla.runtime only")


def impure_uses(where: str) -> Iterator[str]:
    """Uses that no import betrays: `os.open`, `random.choice`, `datetime.now`, `open`."""
    found = list(imports(where))
    for item in found:
        module, _, name = item.module.partition(".")
        if name and module in HARMLESS and not is_harmless(module, name.partition(".")[0]):
            yield str(item)
    modules = HARMLESS.keys() & {item.module for item in found}  # a parameter may be named alike
    for node in running_code(tree(where)):
        if use := impure_use(node, modules):
            yield f"src/ottla/{where}:{use}"


def impure_use(node: ast.AST, modules: set[str]) -> str | None:
    match node:
        case ast.Attribute(value=ast.Name(id=module), attr=name) if module in modules:
            return None if is_harmless(module, name) else f"{node.lineno} uses {module}.{name}"
        case ast.Attribute(value=ast.Name(id="datetime" | "date"), attr="now" | "utcnow" | "today"):
            return f"{node.lineno} reads the clock"
        case ast.Call(func=ast.Name(id="open" | "input" | "print" as name)):
            return f"{node.lineno} calls {name}()"
    return None


def is_harmless(module: str, name: str) -> bool:
    is_constant = module == "os" and name.isupper()
    return is_constant or name in HARMLESS[module]


@pytest.mark.parametrize(
    "line",
    [
        "import time",
        "from time import monotonic",
        "import os; os.open('x', 0)",
        "from os import unlink",
        "import random; random.choice([1])",
        "from random import choice",
        "from datetime import datetime; datetime.now()",
        "open('x')",
        "def later():\n    import socket",
    ],
)
def test_the_check_finds_a_forbidden_window(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "storage.py").write_text(line)
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path)
    with pytest.raises(pytest.fail.Exception, match=r"storage\.py:\d"):
        test_only_rooms_with_a_window_touch_the_system()


@pytest.mark.parametrize(
    "line",
    [
        "import os; os.path.join('a', 'b')",
        "from random import Random\ndef f(random: Random): return random.random()",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import socket",
    ],
)
def test_the_check_lets_harmless_lines_pass(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "storage.py").write_text(line)
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path)
    test_only_rooms_with_a_window_touch_the_system()


def test_the_check_finds_an_import_that_points_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "records.py").write_text("from ottla.broker.server.server import Server")
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path)
    with pytest.raises(pytest.fail.Exception, match="server is not below records"):
        test_imports_point_down()
    with pytest.raises(pytest.fail.Exception, match=r"records\.py:1 imports ottla\.broker\.server"):
        test_pure_modules_decide_without_driving_anything()
