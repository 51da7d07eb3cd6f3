"""`ottla dump-log`: shows the files of a data folder and checks them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.given_file import CannotRead
from ottla.cli.options import Json, new_app

if TYPE_CHECKING:
    from ottla.cli.logs.dump.items import Item

app = new_app()


@app.command("dump-log")
def dump_log(
    paths: Annotated[list[Path], typer.Argument(metavar="FILE|DIR", show_default=False)],
    records: Annotated[
        bool, typer.Option("--records", "-r", help="Show the records in each batch.")
    ] = False,
    raw_metadata: Annotated[
        bool,
        typer.Option(
            "--raw", help="Do not decode records of the cluster metadata, nor hide secrets."
        ),
    ] = False,
    verify_only: Annotated[
        bool, typer.Option("--verify-only", help="Show nothing but what is wrong.")
    ] = False,
    verify_index_only: Annotated[
        bool,
        typer.Option("--verify-index-only", help="Look at indexes only, show what is wrong."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show segments, indexes, snapshots and checkpoints; check checksums, offsets and indexes.

    The broker need not run; files of a running broker may end in the middle of a batch. With --json
    each line is one object with `file` and `type`. The exit code is 1 if anything is wrong.

    In records of the cluster metadata passwords, and the keys of users, are hidden.

    Examples:

    - `ottla dump-log data/orders-0`

    - `ottla dump-log --records data/orders-0/00000000000000000000.log`

    - `ottla dump-log --verify-only data`
    """
    from ottla.cli.logs.dump.files import Options, dump, expand, kind_of
    from ottla.cli.output import print_json_line, print_line

    for path in paths:
        try:
            path.stat()
        except OSError as error:
            raise CannotRead(path, error) from error
    files = [file for path in paths for file in expand(path)]
    if verify_index_only:
        files = [file for file in files if (kind_of(file) or "").endswith("index")]
    quiet = verify_only or verify_index_only
    wrong = 0
    for file in files:
        if not (as_json or quiet):
            print_line(f"{file}: {kind_of(file) or 'unknown'}, {file.stat().st_size} bytes")
        for item in dump(file, Options(records, raw_metadata)):
            is_problem = item["type"] == "problem"
            wrong += is_problem
            if quiet and not is_problem:
                continue
            if as_json:
                print_json_line({"file": str(file), **item})
            else:
                print_line(f"{file}: {item['message']}" if quiet else _line(item))
    if quiet and not as_json:
        print_line(f"{len(files)} file(s) checked, {wrong} problem(s) found.")
    if wrong:
        raise typer.Exit(1)


def _line(item: Item) -> str:
    """Return an item as a line; records are indented below their batch."""
    kind = item["type"]
    if kind == "problem":
        where = f" at byte {item['position']}" if "position" in item else ""
        return f"  ! {item['message']}{where}"
    if kind == "batch":
        return f"  batch {_batch(item)}"
    fields = {name: value for name, value in item.items() if name != "type"}
    indent = "    | " if kind == "record" else f"  {kind.replace('_', ' ')} "
    return indent + _pairs(fields)


def _batch(item: Item) -> str:
    """Return one line about a batch; fields with their usual values are left out."""
    fields: dict[str, Any] = {
        "offsets": f"{item['base_offset']}..{item['last_offset']}",
        "count": item["count"],
        "position": item["position"],
        "size": item["size"],
        "codec": item["codec"],
        item["timestamp_type"]: item["max_timestamp"],
        "epoch": item["leader_epoch"],
    }
    if item["producer_id"] >= 0:
        fields["producer"] = f"{item['producer_id']}/{item['producer_epoch']}"
        fields["sequence"] = f"{item['base_sequence']}..{item['last_sequence']}"
    if item["delete_horizon_ms"] is not None:
        fields["delete_horizon"] = item["delete_horizon_ms"]
    flags = [name for name in ("transactional", "control") if item[name]]
    crc = f"crc={item['crc']:#010x} {'ok' if item['valid'] else 'WRONG'}"
    return " ".join([_pairs(fields), *flags, crc])


def _pairs(fields: dict[str, Any]) -> str:
    return " ".join(f"{name}={_shown(value)}" for name, value in fields.items())


def _shown(value: Any) -> str:
    """Return a plain word as it is, anything else as JSON, so that it cannot be misread."""
    if isinstance(value, str) and value and all(c.isalnum() or c in "-._/" for c in value):
        return value
    return json.dumps(value, ensure_ascii=False)
