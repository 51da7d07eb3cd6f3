"""Places where a crash may be put into Spark's Python workers, from outside.

The clients' calls that the sink makes are wrapped, and so are the methods that Spark calls on a
writer; the product knows nothing of it. A point is named by who is at work (`plan`, `task`,
`commit` or `abort`), when, and what is called for the which time, as in
`commit after list_transactions 1`.

In the folder of OTTLA_CRASH_FOLDER, `armed.json` is a list of crashes, `{"number", "point",
"action"}`. Who comes to the first one's point takes it away, arms the rest, leaves
`struck-<number>` and does it: `kill` (itself, at once), `fail` (an exception) or `hold` (waits for
`go-<number>`: the story does the rest). All points that are reached are noted in `trace`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.abc
import importlib.machinery
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(os.environ.get("OTTLA_CRASH_FOLDER", "."))
HOLD_S = 600.0
CALLS = {
    # Deeper than the methods of `Producer`, as `async with producer.transaction()` goes there, too.
    "ottla.client.producer.transactions.manager": (
        "TransactionManager",
        {
            "init": "init_transactions",
            "begin": "begin_transaction",
            "prepare": "prepare_transaction",
            "send_offsets": "send_offsets_to_transaction",
            "commit": "commit_transaction",
            "abort": "abort_transaction",
        },
    ),
    "ottla.client.producer.producer": (
        "Producer",
        {name: name for name in ("send_and_wait", "send_arrow", "flush")},
    ),
    "ottla.client.admin.admin": (
        "Admin",
        {
            name: name
            for name in (
                "list_transactions",
                "describe_transactions",
                "list_group_offsets",
                "create_topic",
                "commit_prepared",
                "abort_prepared",
            )
        },
    ),
}
"""By module: the class, and its methods with what the stories call them."""
WRITERS = ("DataSourceWriter", "DataSourceStreamWriter")
ROLES = {"__init__": "plan", "write": "task", "commit": "commit", "abort": "abort"}
ONE_BY_ONE = ("commit_prepared", "abort_prepared")
"""The sink ends many at a time, and then nothing would lie between them."""

_turns: dict[str, asyncio.Lock] = {}
_role = ""
_count: Counter[str] = Counter()


class PlacedCrash(RuntimeError):
    """An exception that a story wanted."""


# Points


def reach(when: str, call: str) -> None:
    if not _role:
        return
    point = f"{_role} {when} {call} {_count[call]}"
    _note(point)
    crash = _claim(point)
    if crash is None:
        return
    if crash["action"] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if crash["action"] == "fail":
        raise PlacedCrash(point)
    _hold(FOLDER / f"go-{crash['number']}")


def _note(point: str) -> None:
    line = f"{time.time():.3f} {os.getpid()} {point}\n"
    file = os.open(FOLDER / "trace", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(file, line.encode())
    os.close(file)


def _claim(point: str) -> dict[str, Any] | None:
    armed = FOLDER / "armed.json"
    first: dict[str, Any]
    try:
        first, *rest = json.loads(armed.read_text())
        if first["point"] != point:
            return None
        mine = FOLDER / f"claimed-{os.getpid()}"
        os.rename(armed, mine)
    except FileNotFoundError:  # nothing is armed, or another has just taken it
        return None
    if rest:
        arm(FOLDER, rest)
    mine.write_text(str(os.getpid()))
    os.rename(mine, FOLDER / f"struck-{first['number']}")
    return first


def arm(folder: Path, crashes: Sequence[dict[str, Any]]) -> None:
    draft = folder / f"draft-{os.getpid()}"
    draft.write_text(json.dumps(list(crashes)))
    os.rename(draft, folder / "armed.json")


def _hold(go: Path) -> None:
    deadline = time.monotonic() + HOLD_S
    while not go.exists():
        if time.monotonic() > deadline:
            raise PlacedCrash("nobody said go")
        time.sleep(0.005)


# Wraps


def _wrapped_call(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    async def call(*arguments: Any, **options: Any) -> Any:
        async with _turns.get(name, contextlib.nullcontext()):
            _count[name] += 1
            reach("before", name)
            result = await method(*arguments, **options)
            reach("after", name)
            return result

    return call


def _wrapped_role(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*arguments: Any, **options: Any) -> Any:
        global _role
        if _role:  # of a parent class
            return method(*arguments, **options)
        _role = ROLES[name]
        _count.clear()
        _turns.update({name: asyncio.Lock() for name in ONE_BY_ONE})
        try:
            _count[_role] = 1
            if name != "__init__":
                reach("before", _role)
            result = method(*arguments, **options)
            if name != "__init__":
                reach("after", _role)
            return result
        finally:
            _role = ""

    return call


def _wrap_calls(module: ModuleType, owner: str, names: Mapping[str, str]) -> None:
    kind = getattr(module, owner)
    for method, name in names.items():
        setattr(kind, method, _wrapped_call(name, getattr(kind, method)))


def _wrap_writers(module: ModuleType) -> None:
    """Whoever derives from Spark's writers, now or later."""

    def wrap(cls: type, /, **options: Any) -> None:
        for name in ROLES:
            method = getattr(cls, name)
            if not getattr(method, "__isabstractmethod__", False):
                setattr(cls, name, _wrapped_role(name, method))

    for writer in WRITERS:
        getattr(module, writer).__init_subclass__ = classmethod(wrap)


# Imports


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        if module.__name__ in CALLS:
            _wrap_calls(module, *CALLS[module.__name__])
        else:
            _wrap_writers(module)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in CALLS and name != "pyspark.sql.datasource":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


def install() -> None:
    sys.meta_path.insert(0, _Finder())
