"""Names that a package offers and that are imported when first asked for (PEP 562).

`import ottla` is also what the broker does: it must not bring the clients along.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], list[str]]:
    """`__getattr__` and `__all__` of a package whose `homes` are modules and the names in each."""
    module_of = {name: module for module, names in homes.items() for name in names.split()}

    def find(name: str) -> Any:
        module = module_of.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(module), name)

    return find, sorted(module_of)
