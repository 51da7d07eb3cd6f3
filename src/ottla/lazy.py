"""Names that a package offers and that are imported when first asked for (PEP 562).

`import ottla` is also what the broker does: it must not bring the clients along. A package names
its exports once, as imports under `if TYPE_CHECKING`, which type checkers follow and which never
run. The compiled module still holds them, also where no source is shipped.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import CodeType
from typing import Any, Final

_OWN: Final = "ottla."


def lazily(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package, for the exports that it names. The package
    itself must call it."""
    code = sys._getframe(1).f_code

    @cache
    def homes() -> dict[str, str]:
        return _imports_not_run(code, vars(sys.modules[package]))

    def find(name: str) -> Any:
        if name == "__all__":
            return sorted(homes())
        if name.startswith("__") or name not in homes():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes()[name]), name)

    def names() -> list[str]:
        return [*vars(sys.modules[package]), *homes()]

    return find, names


def _imports_not_run(code: CodeType, present: Mapping[str, object]) -> dict[str, str]:
    """Return the names that the code imports but its namespace lacks, with their homes."""
    import dis

    home, found = "", {}
    for step in dis.get_instructions(code):
        if step.opname == "IMPORT_NAME":
            home = step.argval
        elif not home.startswith(_OWN):
            continue  # pytest adds imports of its own to modules that it rewrites
        elif step.opname == "IMPORT_FROM" and step.argval not in present:
            found[step.argval] = home
    return found
