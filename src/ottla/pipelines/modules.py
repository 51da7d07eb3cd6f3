"""Loads users' Python files as modules whose functions are sent to Spark's workers by value.

A module's function is sent by name, and workers do not have the module. So the file, and what it
imports from its own folder, is registered to be sent by value.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from ottla.pipelines.errors import InvalidFile


def load_module(file: Path, folders: list[Path]) -> ModuleType:
    """Run the file, which may import from `folders`; its errors are reported with their line."""
    for folder in reversed(folders):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    name = f"ottla_application_{file.stem}".replace("-", "_").replace(".", "_")
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise InvalidFile(file, None, "", "is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise InvalidFile(file, _line_of(error, file), "", _reason_of(error)) from error
    _send_by_value(module, folders)
    return module


def _reason_of(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"{error}; put it beside the file, or install it"
    return f"{type(error).__name__}: {error}"


def _line_of(error: BaseException, file: Path) -> int | None:
    """Return the last line of the file itself in the error's traceback."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return error.lineno
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(file):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _send_by_value(module: ModuleType, folders: list[Path]) -> None:
    from pyspark import cloudpickle

    own = [one for one in list(sys.modules.values()) if _is_below(one, folders)]
    for each in {module.__name__: module, **{one.__name__: one for one in own}}.values():
        cloudpickle.register_pickle_by_value(each)  # type: ignore[no-untyped-call]


def _is_below(module: ModuleType, folders: list[Path]) -> bool:
    """True for modules beside the file, not for packages installed below it, as in a `.venv`."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or module.__name__ == "__main__":
        return False
    path = Path(file)
    return any(path.parent == folder or path.parent.parent == folder for folder in folders)
