"""Ships the program's functions to Spark's Python workers.

A function is sent as the name of its module and its own name, and the worker imports it. A module
that is a single file beside the program, or was loaded from one, cannot be imported there: its
functions are sent by value instead.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

from ottla.streams.topology import Topology

_INSTALLED = tuple(Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib"))


def ship_functions(topology: Topology) -> None:
    from pyspark import cloudpickle

    for module in {_module_of(function) for function in _functions(topology)}:
        if module is not None and _is_loose(module):
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _functions(topology: Topology) -> Iterator[Any]:
    for node in topology:
        for field in fields(node.operation):
            value = getattr(node.operation, field.name)
            yield from (
                one for one in (value if isinstance(value, tuple) else (value,)) if callable(one)
            )


def _module_of(function: Any) -> ModuleType | None:
    return sys.modules.get(getattr(function, "__module__", None) or "")


def _is_loose(module: ModuleType) -> bool:
    """True for a module that is a single file, in no package and not installed."""
    file = getattr(module, "__file__", None)
    if file is None or "." in module.__name__ or hasattr(module, "__path__"):
        return False
    return module.__name__ != "__main__" and not any(
        Path(file).is_relative_to(folder) for folder in _INSTALLED
    )
