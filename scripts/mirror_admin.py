"""Writes src/ottla/blocking/admin.py: the methods of the asynchronous `Admin`, without `await`.

`python scripts/mirror_admin.py` rewrites the module; `make reference` does so, too. It is plain
code, so that editors, type checkers and `help()` see every signature and docstring.
"""

from __future__ import annotations

import ast
import builtins
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "ottla" / "client" / "admin"
MIRROR = ROOT / "src" / "ottla" / "blocking" / "admin.py"
PACKAGE = "ottla.client.admin"
TYPING_ONLY = "TYPE_CHECKING"

HEAD = '''"""The blocking `Admin`.

scripts/mirror_admin.py writes this module from `ottla.client.admin`: change methods there.
"""

from __future__ import annotations

{imports}

@lists_settings(ClientSettings)
class Admin:
    """Administers a cluster.

    >>> with Admin(bootstrap_servers="localhost:9092") as admin:
    ...     admin.create_topic("payments", partitions=6)
    ...     print(admin.list_topics())

    Requests that the cluster does not support raise `UnsupportedVersion`.
    """

    def __init__(self, **options: Unpack[ClientOptions]) -> None:
        self._loop = LoopUser("Admin")
        self._admin = AsyncAdmin(**options)

    def start(self) -> None:
        """Connect; `with` does this. Raises `NoBrokerReachable` if no broker answers within
        default_api_timeout_ms."""
        self._loop.open(self._admin.start)

    def close(self) -> None:
        """Close all connections. Further calls do nothing."""
        self._loop.close(self._admin.close)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
'''
OWN_IMPORTS = {
    "Self": "from typing import Self",
    "Unpack": "from typing import Unpack",
    "LoopUser": "from ottla.blocking.loop_user import LoopUser",
    "AsyncAdmin": "from ottla.client.admin.admin import Admin as AsyncAdmin",
    "ClientOptions": "from ottla.client.settings.common import ClientOptions, ClientSettings",
    "lists_settings": "from ottla.client.settings.documentation import lists_settings",
}


@dataclass
class Family:
    """One of the classes that `Admin` inherits, and where the names in its signatures are from."""

    name: str
    module: str
    methods: list[ast.AsyncFunctionDef]
    homes: dict[str, str] = field(default_factory=dict)
    """Name -> the module to import it from."""
    typing_only: set[str] = field(default_factory=set)


def render() -> str:
    """Return the text of the module, formatted."""
    parts = []
    imports = set(OWN_IMPORTS.values())
    for_typing: set[str] = set()
    for family in families():
        parts.append(f"\n    # {family.name.removesuffix('Admin')} calls\n")
        for method in family.methods:
            parts.append(textwrap.indent(twin(method), "    "))
            for name in names_in(method):
                line = f"from {family.homes[name]} import {name}"
                (for_typing if name in family.typing_only else imports).add(line)
    for_typing -= imports
    if for_typing:
        imports.add(f"from typing import {TYPING_ONLY}")
    block = f"if {TYPING_ONLY}:\n" + textwrap.indent("\n".join(sorted(for_typing)), "    ") + "\n"
    text = HEAD.format(imports="\n".join(sorted(imports)) + ("\n" + block if for_typing else ""))
    return tidy(text + "\n".join(parts))


def families() -> Iterator[Family]:
    face = ast.parse((SOURCE / "admin.py").read_text())
    homes = dict(imported(face))
    admin = next(one for one in face.body if isinstance(one, ast.ClassDef))
    for base in admin.bases:
        assert isinstance(base, ast.Name)
        yield family_of(base.id, homes[base.id])


def family_of(name: str, module: str) -> Family:
    tree = ast.parse((ROOT / "src" / (module.replace(".", "/") + ".py")).read_text())
    own = next(one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == name)
    methods = [
        one
        for one in own.body
        if isinstance(one, ast.AsyncFunctionDef) and not one.name.startswith("_")
    ]
    family = Family(name, module, methods)
    for node in tree.body:
        if isinstance(node, ast.If):
            family.typing_only |= {name for name, _ in imported(node)}
        elif isinstance(node, ast.ClassDef):
            family.homes[node.name] = module
        elif isinstance(node, ast.Assign):
            family.homes |= {one.id: module for one in node.targets if isinstance(one, ast.Name)}
    family.homes |= dict(imported(tree))
    return family


def imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield each name that is imported, and its module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield alias.name, node.module


def names_in(method: ast.AsyncFunctionDef) -> set[str]:
    """Return the names in a signature that must be imported."""
    parts: list[ast.AST] = [method.args]
    if method.returns is not None:
        parts.append(method.returns)
    found = {node.id for part in parts for node in ast.walk(part) if isinstance(node, ast.Name)}
    return found - set(dir(builtins))


def twin(method: ast.AsyncFunctionDef) -> str:
    """Return the blocking method of the same name."""
    assert method.returns is not None
    returns = ast.unparse(method.returns)
    lines = [f"def {method.name}({ast.unparse(method.args)}) -> {returns}:"]
    if doc := ast.get_docstring(method):
        text = doc.replace("await ", "").replace("async ", "")
        lines.append(
            textwrap.indent(f'"""{text}\n"""' if "\n\n" in text else f'"""{text}"""', "    ")
        )
    own = [one.arg for one in method.args.args[1:]]
    own += [f"{one.arg}={one.arg}" for one in method.args.kwonlyargs]
    call = f"self._admin.{method.name}"
    work = f"lambda: {call}({', '.join(own)})" if own else call
    lines.append(f"    {'' if returns == 'None' else 'return '}self._loop.call({work})")
    return "\n".join(lines) + "\n"


def tidy(text: str) -> str:
    """Sort the imports, and format."""
    for command in (["check", "--quiet", "--fix", "--select", "I,F401"], ["format", "--quiet"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(MIRROR), "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        )
        text = done.stdout
    return text


if __name__ == "__main__":
    MIRROR.write_text(render())
