"""Reads `steps:`: a list of mappings with one kind each, and a name if it is to be a view."""

from __future__ import annotations

import ast
from pathlib import Path

from ottla.pipelines.declared import fields
from ottla.pipelines.declared.declaration import STEP_KINDS, Step
from ottla.pipelines.declared.marked_yaml import Node


def read_steps(node: Node | None) -> tuple[Step, ...]:
    if node is None:
        return ()
    return tuple(_step(each, number) for number, each in enumerate(node.items(), start=1))


def _step(node: Node, number: int) -> Step:
    given = node.mapping((*STEP_KINDS, "name"))
    kinds = [kind for kind in STEP_KINDS if kind in given]
    if len(kinds) != 1:
        node.fail(f"wants one of {', '.join(STEP_KINDS)}" + (", not several" if kinds else ""))
    kind = kinds[0]
    argument = given[kind]
    name = fields.view(given["name"], given["name"].text()) if "name" in given else None
    file, arguments = (
        _function(argument) if kind == "python" else (None, _arguments(kind, argument))
    )
    return Step(
        kind=kind,
        number=number,
        arguments=arguments,
        file=file,
        name=name,
        line=node.line,
    )


def _arguments(kind: str, node: Node) -> tuple[str, ...]:
    match kind:
        case "select" | "drop" | "deduplicate":
            return tuple(node.texts("a column, or a list of them"))
        case "with":
            return tuple(
                part
                for name, each in node.mapping().items()
                for part in (name, each.text("an expression"))
            )
        case "watermark":
            return _watermark(node)
    return (node.text("an expression" if kind == "filter" else "a query"),)


def _watermark(node: Node) -> tuple[str, str]:
    """Read `{column: at, delay: 10 seconds}`."""
    given = node.mapping(("column", "delay"))
    for name in ("column", "delay"):
        if name not in given:
            node.fail(f"wants {name}: like {{column: at, delay: 10 seconds}}")
    return given["column"].text("a column"), fields.interval(given["delay"])


def _function(node: Node) -> tuple[Path, tuple[str]]:
    """Read `file.py:function`, and look it up without running the file."""
    name, colon, function = node.text("FILE.py:FUNCTION").rpartition(":")
    if not colon or not name.endswith(".py") or not function.isidentifier():
        node.fail(f"wants FILE.py:FUNCTION, not {node.value!r}")
    file = (node.file.parent / name).resolve()
    try:
        module = ast.parse(file.read_text(), str(file))
    except OSError as error:
        node.fail(f"{file}: {error.strerror}")
    except (SyntaxError, UnicodeDecodeError) as error:
        node.fail(f"{file} is no Python: {error}")
    known = sorted(top_level_names(module))
    if function not in known:
        there = f"; it has {', '.join(known)}" if known else ""
        node.fail(f"{file} has no function {function!r}{there}")
    return file, (function,)


def top_level_names(module: ast.Module) -> set[str]:
    """Return functions and assigned names: a function may be created by another."""
    names: set[str] = set()
    for each in module.body:
        match each:
            case ast.FunctionDef(name=name):
                names.add(name)
            case ast.Assign(targets=targets):
                names |= {one.id for one in targets if isinstance(one, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    return names
