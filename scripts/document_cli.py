"""Writes docs/reference/cli.md from the commands themselves: names, arguments, options, help texts.

`python scripts/document_cli.py` rewrites the page; `make reference` rewrites all such pages.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from ottla.cli.root import app
from ottla.cli.start import _parser as start_parser

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"

HEAD = """\
# The command line

Every command of `ottla` with its arguments and options, as `--help` shows them. The tools work
against any cluster that speaks Kafka's protocol. `scripts/document_cli.py` writes this page.
"""


def main() -> None:
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(render())


def render() -> str:
    root: Any = typer.main.get_command(app)
    context = typer.Context(root, info_name="ottla")
    families = [(name, root.get_command(context, name)) for name in root.list_commands(context)]
    index = "".join(
        f"| [`ottla {name}`](#ottla-{name}) | {cell(summary(command))} |\n"
        for name, command in families
    )
    sections = [text for name, command in families for text in pages(f"ottla {name}", command)]
    return "\n".join([HEAD, f"| Command | What it does |\n|---|---|\n{index}", *sections])


def pages(path: str, command: Any) -> Iterator[str]:
    """Yield the section of a command, then those of its subcommands."""
    if path == "ottla start":
        yield start_page()
        return
    below = getattr(command, "commands", {})
    runs = not below or getattr(command, "invoke_without_command", False)
    yield section(path, command, runs)
    for name, one in below.items():
        if not one.hidden:
            yield from pages(f"{path} {name}", one)


def section(path: str, command: Any, runs: bool) -> str:
    shown = [param for param in command.params if not getattr(param, "hidden", False)]
    arguments = [param for param in shown if param.param_type_name == "argument"]
    options = [param for param in shown if param.param_type_name == "option"]
    lines = [f"{'#' * (path.count(' ') + 1)} {path}\n", f"{clean(command.help)}\n"]
    if not runs:
        return "\n".join(lines)
    usage = " ".join([path, *(["[OPTIONS]"] if options else []), *map(argument_name, arguments)])
    lines.append(f"```\n{usage}\n```\n")
    if told := [param for param in arguments if param.help]:
        lines.append("| Argument | Meaning |\n|---|---|")
        lines += [f"| `{argument_name(param)}` | {cell(param.help)} |" for param in told]
        lines.append("")
    if options:
        lines.append("| Option | Default | Meaning |\n|---|---|---|")
        lines += [
            f"| {option_names(param)} | {default(param)} | {meaning(param)} |" for param in options
        ]
        lines.append("")
    return "\n".join(lines)


def start_page() -> str:
    """`ottla start` has its own parser: see ottla/cli/main.py."""
    parser = start_parser()
    actions = [one for one in parser._actions if one.help is not argparse.SUPPRESS]
    lines = ["## ottla start\n", f"{clean(parser.description)}\n"]
    lines.append("```\nottla start [OPTIONS]\n```\n\n| Option | Meaning |\n|---|---|")
    for action in actions:
        names = ", ".join(f"`{name}`" for name in sorted(action.option_strings, key=by_length))
        if action.metavar:
            names += f" `{action.metavar}`"
        lines.append(f"| {names} | {cell(action.help or '')} |")
    return "\n".join([*lines, f"\n```sh\n{examples(parser.epilog or '')}\n```\n"])


def examples(epilog: str) -> str:
    return "\n".join(line.strip() for line in epilog.splitlines()[1:] if line.strip())


def argument_name(param: Any) -> str:
    name = param.metavar or param.name.upper()
    if param.nargs == -1:
        name += "..."
    return name if param.required else f"[{name}]"


def option_names(param: Any) -> str:
    names = [f"`{name}`" for name in sorted(param.opts, key=by_length)]
    shown = ", ".join(names)
    if param.secondary_opts:
        against = sorted(param.secondary_opts, key=by_length)
        shown += " or " + ", ".join(f"`{name}`" for name in against)
    if param.metavar:
        shown += f" `{cell(param.metavar)}`"
    return shown


def by_length(name: str) -> int:
    """Sort the long name first, as in the help texts."""
    return -len(name)


def default(param: Any) -> str:
    if param.required:
        return "required"
    if isinstance(param.show_default, str):
        return f"`{cell(param.show_default)}`"
    value = param.default
    if value is None or value is False or value == [] or callable(value) or not param.show_default:
        return ""
    if value is True:
        return f"`{sorted(param.opts, key=by_length)[0]}`" if param.secondary_opts else ""
    return f"`{cell(str(value))}`" if value != "" else ""


def meaning(param: Any) -> str:
    words = cell(param.help or "")
    if param.multiple and "repeated" not in words:
        words += " May be repeated."
    if param.envvar and param.show_envvar:
        names = [param.envvar] if isinstance(param.envvar, str) else param.envvar
        words += " Environment: " + ", ".join(f"`{name}`" for name in names) + "."
    return words.strip()


def summary(command: Any) -> str:
    if command.name == "start":
        return clean(start_parser().description).partition("\n")[0]
    return clean(command.help).partition("\n\n")[0]


def clean(text: str | None) -> str:
    return (text or "").replace("\b\n", "").strip()


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    main()
