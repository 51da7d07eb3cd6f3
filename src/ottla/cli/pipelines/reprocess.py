"""`ottla pipeline reprocess`: runs a second version beside the first, and switches to it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ottla.cli.consent import want_consent
from ottla.cli.options import Json, Yes, new_app, parse_pairs
from ottla.cli.pipelines.common import Name, StateDir, find

FIRST = "begin"


class BeginFirst(TyperGroup):
    """`reprocess NAME` is `reprocess begin NAME`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = [FIRST, *args]
        return super().parse_args(ctx, args)


app = new_app("Run a second version from the earliest offset beside the first, and switch to it.")
app.info.cls = BeginFirst


@app.command(FIRST)
def begin(
    name: Name,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", show_default=False, help="The new one, if it is another."),
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="KEY=VALUE", help="Options that differ from the first's."),
    ] = None,
    state_dir: StateDir = None,
    as_json: Json = False,
) -> None:
    """Begin: `reprocess NAME [FILE]` runs the file as it is now, as the next version.

    It reads from the earliest offset, and writes to topics and folders of its own: `alerts-v2`
    beside `alerts`. The first version goes on meanwhile.

    Examples:

    - `ottla pipeline reprocess fraud`

    - `ottla pipeline reprocess fraud fraud_2.py`
    """
    from ottla.cli.output import print_note
    from ottla.cli.pipelines.run import launch
    from ottla.pipelines import reprocess

    folder = find(state_dir, name)
    version = reprocess.begin(folder, file, parse_pairs(options or [], "--option"))
    launch(folder, version, as_json)
    if not as_json:
        print_note(f"`ottla pipeline reprocess status {name}` shows how far it is.")


@app.command()
def status(
    name: Name,
    limit: Annotated[
        int, typer.Option("--limit", min=0, help="Outputs with more records are not compared.")
    ] = 1_000_000,
    key: Annotated[
        str | None, typer.Option("--key", metavar="COLUMN", help="Of rows in Parquet files.")
    ] = None,
    state_dir: StateDir = None,
    as_json: Json = False,
) -> None:
    """Show how far the second version is, and compare what both have written.

    All records are compared, in no order; where they have keys, the last of each key, too.

    Examples:

    - `ottla pipeline reprocess status fraud`

    - `ottla pipeline reprocess status fraud --json | jq .caught_up`
    """
    from ottla.cli.output import print_json
    from ottla.cli.pipelines.output import print_comparison
    from ottla.pipelines import reprocess

    folder = find(state_dir, name)
    found = reprocess.progress(folder)
    found["outputs"] = reprocess.differences(folder, limit, key)
    if as_json:
        print_json(found)
    else:
        print_comparison(found)


@app.command()
def switch(
    name: Name,
    within_s: Annotated[
        float, typer.Option("--within-s", min=0, help="How long the new one may take to catch up.")
    ] = 300.0,
    state_dir: StateDir = None,
    as_json: Json = False,
) -> None:
    """Stop the first version and make the second the current one.

    The point at which the first was stopped is known, and the second has come at least that far.
    Readers move to the new topics: the command says which, and who reads the old ones.

    Example:

    - `ottla pipeline reprocess switch fraud`
    """
    from ottla.cli.output import print_json
    from ottla.cli.pipelines.output import print_switched
    from ottla.pipelines import reprocess

    done = reprocess.switch(find(state_dir, name), within_s=within_s)
    if as_json:
        print_json(done)
    else:
        print_switched(done)


@app.command()
def cancel(
    name: Name,
    delete_outputs: Annotated[
        bool, typer.Option("--delete-outputs", help="Delete the topics and folders it wrote, too.")
    ] = False,
    yes: Yes = False,
    state_dir: StateDir = None,
    as_json: Json = False,
) -> None:
    """Stop the second version and forget it, with its internal topics and groups.

    Example:

    - `ottla pipeline reprocess cancel fraud --delete-outputs`
    """
    from ottla.cli.output import deed
    from ottla.cli.pipelines.output import note_left_internals
    from ottla.pipelines import reprocess

    if delete_outputs:
        want_consent(f"Delete the topics and folders that the second version of {name} wrote?", yes)
    done = reprocess.cancel(find(state_dir, name), delete_outputs=delete_outputs)
    places = ", ".join([*done["topics"], *done["paths"]]) or "nothing"
    fate = "deleted" if delete_outputs else "left in place"
    deed(as_json, done, f"Version {done['cancelled']} of {name} is forgotten; {fate}: {places}.")
    note_left_internals(done["internal"])
