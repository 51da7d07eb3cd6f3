"""Measure the shape of the source: inheritance, large classes, large folders, hard docstrings.

    python scripts/figures.py [FOLDER] [--json] [--details]

A figure is a symptom to look at and no limit to satisfy. FOLDER is a checkout, this one by default;
the figures of two checkouts show what a change did.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

PACKAGE = Path("src/ottla")
METHODS_MAX = 30
FILES_MAX = 25
ONE_FILE_EACH = {
    "protocol/coordinator_records",
    "protocol/messages",
    "protocol/metadata_records",
    "broker/server/handlers",
}
"""Folders with a file per API or record type: their list of files is the list of features, and
folders inside would hide what is missing."""
HARD_OPENING = re.compile(r"\s*(What|One|Of|Who|Whom|So)\b")
PUBLIC_FACES = {
    "client/admin/admin.py Admin",
    "client/consumer/consumer.py Consumer",
    "client/producer/producer.py Producer",
    "blocking/admin.py Admin",
    "blocking/consumer.py Consumer",
    "blocking/producer.py Producer",
    "streams/table.py WindowedTable",
    "testing/sim_cluster.py SimulatedCluster",
}
"""Classes that applications hold: a method per thing that they can ask for, by Kafka's names, and
kinds that they tell apart (a windowed table is a table)."""
NAMED_TUPLE_METHODS = {"_replace", "_asdict", "_make"}
DECLARED_BASES = {"Message", "Struct", "NamedTuple", "Protocol", "Exception", "IntEnum", "StrEnum"}
"""Bases whose subclasses are declarations: messages, plain records, errors, interfaces."""


@dataclass
class ClassFacts:
    file: str
    bases: list[str]
    methods: set[str]
    private_methods: set[str]


@dataclass
class Source:
    """Everything that the figures need of one checkout."""

    root: Path
    trees: dict[str, ast.Module] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    classes: dict[str, ClassFacts] = field(default_factory=dict)
    """By file and name."""

    @classmethod
    def read(cls, root: Path) -> Source:
        source = cls(root)
        for path in sorted((root / PACKAGE).rglob("*.py")):
            name = str(path.relative_to(root / PACKAGE))
            text = path.read_text()
            source.texts[name] = text
            source.trees[name] = ast.parse(text)
            known = _imported_classes(source.trees[name])
            for node in source.trees[name].body:
                if isinstance(node, ast.ClassDef):
                    known[node.name] = f"{name} {node.name}"
                    source.classes[known[node.name]] = _class_facts(node, name, known)
        return source

    def ancestors(self, name: str) -> Iterator[str]:
        """Our own classes above this one, nearest first."""
        for base in self.classes[name].bases:
            if base in self.classes:
                yield base
                yield from self.ancestors(base)

    def levels(self, name: str) -> int:
        """How many levels of our own classes are above this one."""
        above = [base for base in self.classes[name].bases if base in self.classes]
        return max((1 + self.levels(base) for base in above), default=0)

    def is_declared(self, name: str) -> bool:
        """True for messages, records, errors and interfaces, which may be declared in families."""
        owners = [name, *self.ancestors(name)]
        bases = {base.split()[-1] for owner in owners for base in self.classes[owner].bases}
        return bool(bases & DECLARED_BASES) or any(base.endswith("Error") for base in bases)


def _imported_classes(tree: ast.Module) -> dict[str, str]:
    """Names that a file imports from modules of ours -> file and name where they are defined."""
    return {
        alias.asname or alias.name: f"{node.module[6:].replace('.', '/')}.py {alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("ottla.")
        for alias in node.names
    }


def _class_facts(node: ast.ClassDef, file: str, known: dict[str, str]) -> ClassFacts:
    methods = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
    methods |= {item.name for item in node.body if isinstance(item, ast.AsyncFunctionDef)}
    private = {name for name in methods if name.startswith("_") and not name.endswith("__")}
    bases = [_base_name(base) or "object" for base in node.bases]
    return ClassFacts(file, [known.get(base, base) for base in bases], methods, private)


def _base_name(base: ast.expr) -> str:
    if isinstance(base, ast.Subscript):
        return _base_name(base.value)
    if isinstance(base, ast.Attribute):
        return base.attr
    return base.id if isinstance(base, ast.Name) else ""


# --- the figures ---------------------------------------------------------------------------------


def deep_classes(source: Source) -> list[str]:
    """Classes with more than one level of our own above them."""
    return [
        f"{name}: {levels} levels"
        for name in source.classes
        if (levels := source.levels(name)) > 1
        and not source.is_declared(name)
        and name not in PUBLIC_FACES
    ]


def large_classes(source: Source) -> list[str]:
    """Classes past METHODS_MAX methods, counted with those of their bases."""
    found = []
    for name, facts in source.classes.items():
        methods = set(facts.methods)
        for base in source.ancestors(name):
            methods |= source.classes[base].methods
        if len(methods) > METHODS_MAX and name not in PUBLIC_FACES:
            found.append((len(methods), f"{name}: {len(methods)} methods"))
    return [line for _, line in sorted(found, reverse=True)]


def borrowed_privates(source: Source) -> list[str]:
    """Private methods that another file than their own uses."""
    owners = defaultdict(set)
    for facts in source.classes.values():
        for method in facts.private_methods:
            if method not in NAMED_TUPLE_METHODS:
                owners[method].add(facts.file)
    found = set()
    for file, tree in source.trees.items():
        assigned = _assigned_attributes(tree)
        for base_file in _base_files(source, file):
            assigned |= _assigned_attributes(source.trees[base_file], functions=False)
        for node in ast.walk(tree):
            if not isinstance(node, ast.Attribute) or node.attr not in owners:
                continue
            if file not in owners[node.attr] and node.attr not in assigned:
                found.add(f"{file} uses {node.attr} of {', '.join(sorted(owners[node.attr]))}")
    return sorted(found)


def _base_files(source: Source, file: str) -> set[str]:
    """Files of the classes above those of this file."""
    own = [name for name, facts in source.classes.items() if facts.file == file]
    return {source.classes[base].file for name in own for base in source.ancestors(name)}


def _assigned_attributes(tree: ast.Module, *, functions: bool = True) -> set[str]:
    """Attributes that a file sets itself: no method of another file is meant by them."""
    stored = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    declared = {
        node.target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    defined = {
        node.name
        for node in ast.walk(tree)
        if functions and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    return stored | declared | defined


def ignored_types_of_node(source: Source) -> list[str]:
    return _lines(source, "node.py", r"type: ignore")


def reaches_through_node(source: Source) -> list[str]:
    return [line for file in source.texts for line in _lines(source, file, r"\bcontext\.node\b")]


def kind_questions_of_shard(source: Source) -> list[str]:
    """`isinstance` on kinds of groups in the shard that hosts them."""
    shard = next(file for file in source.texts if file.endswith("coordinator/group_shard.py"))
    return _lines(source, shard, r"isinstance\(")


def packages(source: Source) -> list[str]:
    return sorted({file.split("/")[0] for file in source.texts if "/" in file})


def flat_folders(source: Source) -> list[str]:
    """Folders with more than FILES_MAX modules of their own, except ONE_FILE_EACH."""
    count: dict[str, int] = defaultdict(int)
    for file in source.texts:
        count[str(Path(file).parent)] += 1
    return [
        f"{folder}: {files}"
        for folder, files in count.items()
        if files > FILES_MAX and folder not in ONE_FILE_EACH
    ]


def hard_docstrings(source: Source) -> list[str]:
    """Docstrings, those of attributes too, that open as a reader has to read twice."""
    return [
        f"{file}:{node.lineno} {node.value.value.strip().splitlines()[0]}"
        for file, tree in source.trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        and HARD_OPENING.match(node.value.value)
    ]


def _lines(source: Source, file: str, pattern: str) -> list[str]:
    lines = source.texts[file].splitlines()
    return [
        f"{file}:{number} {line.strip()}"
        for number, line in enumerate(lines, 1)
        if re.search(pattern, line)
    ]


FIGURES: dict[str, Callable[[Source], list[str]]] = {
    "classes with more than one level of ours above them": deep_classes,
    f"classes past {METHODS_MAX} methods, with those of their bases": large_classes,
    "private methods used from another file": borrowed_privates,
    "`type: ignore` in node.py": ignored_types_of_node,
    "`context.node`": reaches_through_node,
    "`isinstance` in the shard of groups": kind_questions_of_shard,
    "top-level packages": packages,
    f"folders past {FILES_MAX} modules": flat_folders,
    "docstrings that open with What, One, Of, Who or So": hard_docstrings,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--json", action="store_true", help="print counts as JSON")
    parser.add_argument("--details", action="store_true", help="print what was counted, too")
    options = parser.parse_args()
    source = Source.read(options.folder)
    found = {name: figure(source) for name, figure in FIGURES.items()}
    if options.json:
        print(json.dumps({name: len(lines) for name, lines in found.items()}, indent=2))
        return 0
    for name, lines in found.items():
        print(f"{len(lines):5}  {name}")
        if options.details:
            print("".join(f"           {line}\n" for line in lines), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
