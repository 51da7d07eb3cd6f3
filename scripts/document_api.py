"""Writes docs/reference/api/ from signatures and docstrings of the exports of Ottla's packages.

`python scripts/document_api.py` rewrites the pages; `make reference` rewrites all such pages.
"""

import enum
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ForwardRef

from ottla.client.settings.documentation import SETTINGS_HEADING, meanings

FOLDER = Path(__file__).parents[1] / "docs" / "reference" / "api"
SETTINGS_LINK = "\nIts settings are keyword arguments: see [settings](../../clients/settings.md).\n"
WIDTH = 88
PROSE_WIDTH = 120


@dataclass(frozen=True)
class Page:
    file: str
    title: str
    package: str
    first: tuple[str, ...]
    """These exports, in this order."""
    rest: bool = False
    """Then all others that no earlier page has."""
    only_errors: bool = False


CLIENTS = ("Producer", "Consumer", "Admin")
STREAMS = ("App", "Stream", "Table")
CLUSTERS = ("cluster", "Cluster", "async_cluster")
PAGES = (
    Page("producer.md", "Producer", "ottla", ("Producer", "Sent", "SentRows", "SentRange")),
    Page("consumer.md", "Consumer", "ottla", ("Consumer", "RebalanceListener")),
    Page("admin.md", "Admin", "ottla", ("Admin",)),
    Page("errors.md", "Errors of the clients", "ottla", (), rest=True, only_errors=True),
    Page("values.md", "Values of the clients", "ottla", (), rest=True),
    Page("blocking.md", "Clients without asyncio", "ottla.blocking", CLIENTS, rest=True),
    Page("streams.md", "Streams and tables", "ottla.streams", STREAMS, rest=True),
    Page("spark.md", "Spark", "ottla.spark", ("spark_session", "register"), rest=True),
    Page("testing.md", "Testing", "ottla.testing", CLUSTERS, rest=True),
)


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in render().items():
        (FOLDER / name).write_text(text)


def render() -> dict[str, str]:
    """Return the text of each page by its name."""
    named: dict[str, set[str]] = {}
    for page in PAGES:
        named.setdefault(page.package, set()).update(page.first)
    made = {}
    index = [
        "# The Python API\n",
        "From signatures and docstrings, by `scripts/document_api.py`.\n",
    ]
    index.append("| Page | Package | What is there |\n|---|---|---|")
    for page in PAGES:
        package = import_module(page.package)
        names = list(page.first)
        if page.rest:
            left = [one for one in sorted(package.__all__) if one not in named[page.package]]
            names += [
                one for one in left if not page.only_errors or is_error(getattr(package, one))
            ]
            named[page.package].update(names)
        made[page.file] = page_text(page, package, names)
        listed = ", ".join(f"`{one}`" for one in names[:6]) + (", ..." if len(names) > 6 else "")
        index.append(f"| [{page.title}]({page.file}) | `{page.package}` | {listed} |")
    made["README.md"] = "\n".join(index) + "\n"
    return made


def page_text(page: Page, package: Any, names: list[str]) -> str:
    parts = [
        f"# {page.title}\n",
        f"`from {page.package} import ...`; written by `scripts/document_api.py`.\n",
    ]
    if page.only_errors:
        parts.append(error_table(package, names))
    else:
        parts += [text for name in names for text in member(name, getattr(package, name))]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"


def is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


def error_table(package: Any, names: list[str]) -> str:
    rows = ["| Error | Kind of | When |", "|---|---|---|"]
    for name in names:
        kind = getattr(package, name)
        bases = ", ".join(f"`{base.__name__}`" for base in kind.__bases__)
        rows.append(f"| `{name}` | {bases} | {cell(own_doc(kind))} |")
    return "\n".join(rows) + "\n"


def member(name: str, value: Any) -> Iterator[str]:
    yield f"## {name}\n"
    if isinstance(value, type) and issubclass(value, enum.Enum):
        yield f"{own_doc(value)}\n"
        yield names_text(one.name for one in value)
    elif isinstance(value, type):
        yield from of_class(name, value)
    elif inspect.isroutine(value):
        yield f"{code(signature(name, value))}\n"
        yield f"{own_doc(value)}\n"
    else:
        yield f"`{shown(value)}`\n"


def of_class(name: str, kind: type) -> Iterator[str]:
    if issubclass(kind, dict) or getattr(kind, "__total__", None) is not None:
        yield f"{own_doc(kind)}\n"
        yield names_text(kind.__annotations__, "Keys: ")
        return
    if not getattr(kind, "_is_protocol", False):
        yield f"{code(signature(name, kind))}\n"
    yield f"{own_doc(kind)}\n"
    initialize: Any = vars(kind).get("__init__")
    if inspect.isfunction(initialize) and initialize.__doc__:
        yield f"{own_doc(initialize)}\n"
    if is_dataclass(kind):
        known = meanings(kind)
        told = [field for field in fields(kind) if field.name in known]
        yield from (f"- `{field.name}`: {known[field.name]}" for field in told)
        yield "\n" if told else ""
    for attribute, value in public(kind):
        yield f"### {name}.{attribute}\n"
        if isinstance(value, property):
            yield f"{code(f'{attribute}: {returns(value.fget)}')}\n"
        else:
            yield f"{code(signature(attribute, value))}\n"
        yield f"{own_doc(getattr(kind, attribute))}\n"


def public(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield methods and properties, those of the class itself first, in source order."""
    seen = set()
    for one in kind.__mro__:
        if not one.__module__.startswith("ottla"):
            continue
        for name, value in vars(one).items():
            is_call = inspect.isroutine(value) or isinstance(value, (property, staticmethod))
            if name.startswith("_") or name in seen or not is_call:
                continue
            seen.add(name)
            plain = isinstance(value, property)
            yield name, value if plain else getattr(kind, name)


def own_doc(value: Any) -> str:
    text = inspect.getdoc(value) or ""
    if isinstance(value, type) and value.__doc__ is None:
        text = ""
    if (is_dataclass(value) or hasattr(value, "_fields")) and text.startswith(
        f"{getattr(value, '__name__', None)}("
    ):
        text = ""  # the generated one of a dataclass or a NamedTuple: the signature says it
    head, settings, _ = text.partition(SETTINGS_HEADING)
    return prose(head + SETTINGS_LINK if settings else text)


def prose(text: str) -> str:
    """Return Markdown: text that is indented or begins with >>> becomes a code block."""
    blocks = re.split(r"\n\n+", text.strip())
    made = []
    for block in blocks:
        if block.startswith((">>> ", "    ")):
            made.append(f"```python\n{inspect.cleandoc(block)}\n```")
        else:
            made.append(block)
    return "\n\n".join(made)


def signature(name: str, value: Any) -> str:
    try:
        given = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    parameters = [one for one in given.parameters.values() if one.name not in ("self", "runtime")]
    words, marked = [], False
    for one in parameters:
        if one.kind is one.VAR_POSITIONAL:
            marked = True
        if one.kind is one.KEYWORD_ONLY and not marked:
            words.append("*")
            marked = True
        words.append(parameter(one))
    prefix = "async " if inspect.iscoroutinefunction(value) else ""
    end = (
        ""
        if isinstance(value, type) or given.return_annotation is given.empty
        else f" -> {annotation(given.return_annotation)}"
    )
    line = f"{prefix}{name}({', '.join(words)}){end}"
    if len(line) <= WIDTH or not words:
        return line
    inside = "".join(f"    {word},\n" for word in words)
    return f"{prefix}{name}(\n{inside}){end}"


def parameter(one: inspect.Parameter) -> str:
    stars = "*" if one.kind is one.VAR_POSITIONAL else "**" if one.kind is one.VAR_KEYWORD else ""
    text = f"{stars}{one.name}"
    if one.annotation is not one.empty:
        text += f": {annotation(one.annotation)}"
    if one.default is not one.empty:
        text += (
            f" = {shown(one.default)}"
            if one.annotation is not one.empty
            else f"={shown(one.default)}"
        )
    return text


def returns(function: Any) -> str:
    return annotation(function.__annotations__.get("return", "Any"))


def annotation(value: Any) -> str:
    if isinstance(value, ForwardRef):  # for example in a NamedTuple
        value = value.__forward_arg__
    text = value if isinstance(value, str) else inspect.formatannotation(value)
    return re.sub(r"\b(typing|collections\.abc|ottla(\.\w+)+)\.", "", text)


def shown(value: object) -> str:
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if value is MISSING or " at 0x" in repr(value) or "<" in repr(value):
        return "..."
    return repr(value)


def code(text: str) -> str:
    return f"```python\n{text}\n```"


def names_text(names: Iterable[str], before: str = "") -> str:
    """Return a list of names as a sentence, in lines of the width that the other pages have."""
    text = before + ", ".join(f"`{name}`" for name in names) + "."
    return textwrap.fill(text, PROSE_WIDTH, break_long_words=False, break_on_hyphens=False) + "\n"


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    main()
