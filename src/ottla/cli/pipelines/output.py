"""The output about pipelines: a list, one in detail, figures in a line, logs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from ottla.cli.output import (
    human_bytes,
    print_fields,
    print_json,
    print_json_line,
    print_line,
    print_note,
    print_sentence,
    print_table,
)
from ottla.durations import in_short
from ottla.pipelines.logs import LOGS, added, tail

WATCH_S = 1.0
CLEAR_SCREEN = "\x1b[H\x1b[2J"
ERROR_CHARACTERS = 200
"""How much of an error is shown below a list; `status` shows all of it."""
FOLLOW_S = 0.5


def print_list(found: list[dict[str, Any]]) -> None:
    """Print a table that fits 80 columns; errors follow it, as they are longer than any column."""
    print_table(
        ("pipeline", "state", "for", "rows in", "rows/s", "lag"),
        [
            (
                one["name"] if one["version"] == 1 else f"{one['name']} v{one['version']}",
                _state(one),
                _age(one["since"]),
                one["rows_in"],
                round(one["in_per_s"]),
                one["lag"]["records"],
            )
            for one in found
        ],
        spare=("rows/s", "for"),
    )
    for one in found:
        if one["error"] is not None:
            print_sentence(f"{one['name']}: {one['error'][:ERROR_CHARACTERS]}")


def _state(one: dict[str, Any]) -> str:
    other = one.get("reprocess")
    return f"{one['state']} (v{other['version']} {other['state']})" if other else one["state"]


def figures_line(found: dict[str, Any]) -> str:
    """Return `12000 rows in, 480 out, 1500 rows/s while busy, batches of 0.4 s, lag 30`."""
    parts = [f"{found['rows_in']} rows in"]
    if found["rows_out"] is not None:
        parts.append(f"{found['rows_out']} out")
    parts.append(f"{found['done_per_s']:.0f} rows/s while busy")
    if found["batch_ms"] is not None:
        parts.append(f"batches of {_ms(found['batch_ms'])}")
    if found["state_rows"]:
        parts.append(f"{found['state_rows']} rows of state")
    if found["lag"]["records"] is not None:
        parts.append(f"lag {found['lag']['records']}")
    return ", ".join(parts)


def show_status(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    print_fields(_fields(found))
    if found["queries"]:
        print_line("")
        print_table(
            (
                "query",
                "batch",
                "rows in",
                "rows out",
                "rows/s",
                "busy rows/s",
                "batch time",
                "state rows",
                "state",
                "late",
                "watermark",
            ),
            [_query_row(one) for one in found["queries"]],
            spare=("state", "watermark", "busy rows/s", "late", "rows/s", "state rows"),
        )
    if found["lag"]["partitions"]:
        print_line("")
        names = ("topic", "partition", "offset", "end", "lag", "lag_seconds")
        print_table(
            ("topic", "partition", "processed to", "end", "lag", "lag s"),
            [[one[name] for name in names] for one in found["lag"]["partitions"]],
        )


def _fields(found: dict[str, Any]) -> list[tuple[str, object]]:
    lag = found["lag"]
    fields: list[tuple[str, object]] = [
        ("pipeline", f"{found['name']}, version {found['version']}"),
        ("state", f"{_state(found)} since {_moment(found['since'])}"),
        ("file", found["file"]),
        ("master", found["master"]),
        ("figures", figures_line(found)),
        ("lag", _lag(lag, found["queries"])),
        ("writes", [*found["outputs"]["topics"].values(), *found["outputs"]["paths"].values()]),
    ]
    if lag["error"]:
        fields.append(("lag unknown", lag["error"]))
    if found["error"]:
        fields.append(("error", found["error"]))
    return fields


def _lag(lag: dict[str, Any], queries: list[dict[str, Any]]) -> str:
    if lag["records"] is None:
        has_run = any(one["batch"] is not None for one in queries)
        return "unknown" if has_run else "not started: no batch has ended yet"
    if lag["seconds"] is None:
        return f"{lag['records']} records"
    return f"{lag['records']} records, {in_short(round(lag['seconds'] * 1000))}"


def _query_row(one: dict[str, Any]) -> list[object]:
    return [
        one["name"],
        one["batch"],
        one["rows_in"],
        one["rows_out"],
        round(one["in_per_s"]),
        round(one["done_per_s"]),
        _ms(one["batch_ms"]),
        one["state_rows"],
        human_bytes(one["state_bytes"]),
        one["late_rows"],
        one["watermark"],
    ]


def watch_status(ask: Callable[[], dict[str, Any]], as_json: bool) -> None:
    """Show the status until Ctrl-C: one JSON line each time, or the whole page redrawn."""
    try:
        while True:
            found = ask()
            if as_json:
                print_json_line(found)
            else:
                sys.stdout.write(CLEAR_SCREEN)
                show_status(found, False)
            time.sleep(WATCH_S)
    except KeyboardInterrupt:
        return


def print_comparison(found: dict[str, Any]) -> None:
    old, new = found["old"], found["new"]
    print_table(
        ("version", "state", "rows in", "rows out", "busy rows/s", "lag"),
        [
            (
                one["version"],
                one["state"],
                one["rows_in"],
                one["rows_out"],
                round(one["done_per_s"]),
                one["lag"]["records"],
            )
            for one in (old, new)
        ],
    )
    print_line("")
    print_line(_how_far(found))
    for one in found["outputs"]:
        print_line("")
        _print_difference(one)


def _how_far(found: dict[str, Any]) -> str:
    number = found["new"]["version"]
    if found["caught_up"]:
        return f"Version {number} has caught up: `ottla pipeline reprocess switch {found['name']}`."
    behind = "all" if found["behind"] is None else found["behind"]
    return (
        f"Version {number} has not caught up: {behind} records behind; "
        "differences may be due to that."
    )


def _print_difference(one: dict[str, Any]) -> None:
    if one["error"]:
        print_line(f"{one['old']} and {one['new']}: {one['error']}")
        return
    records = one["records"]
    print_line(
        f"{one['old']} ({one['rows_old']} records) and {one['new']} ({one['rows_new']} records): "
        f"{records['same']} records the same, {records['only_old']} only in the old, "
        f"{records['only_new']} only in the new"
    )
    if one["by_key"]:
        print_line(
            f"The last of each key: {one['same']} the same, {one['different']} different, "
            f"{one['only_old']} only in the old, {one['only_new']} only in the new"
        )
    if one["examples"]:
        rows = [(each["key"], each["old"], each["new"]) for each in one["examples"]]
        print_table(("key", "old", "new"), rows)


def print_switched(done: dict[str, Any]) -> None:
    print_line(
        f"Version {done['current']} of {done['name']} is the current one; "
        f"version {done['stopped']} stopped at {_places(done['at'])}."
    )
    for one in done["outputs"]:
        if one["old"] is None:
            print_line(f"New output: {one['new']}.")
            continue
        print_line(
            f"Readers of {one['old']} go on with {one['new']}, which holds all from the start."
        )
        for group in one["groups"]:
            print_line(
                f"  group {group} reads {one['old']}: subscribe it to {one['new']}, and place it "
                f"by `ottla groups reset-offsets {group} --topic {one['new']}`"
            )


def _places(offsets: dict[str, dict[str, int]]) -> str:
    places = [
        f"{topic}-{index}@{offset}"
        for topic, partitions in offsets.items()
        for index, offset in partitions.items()
    ]
    return ", ".join(places) or "an unknown point"


def print_logs(folder: Path, kinds: list[str], lines: int) -> None:
    for kind in kinds:
        found = tail(folder / LOGS[kind], lines)
        if found and len(kinds) > 1:
            print_line(f"==> {folder / LOGS[kind]} <==")
        for line in found:
            print_line(line)


def follow_logs(folder: Path, kinds: list[str]) -> None:
    files = [folder / LOGS[kind] for kind in kinds]
    places = {file: file.stat().st_size if file.exists() else 0 for file in files}
    try:
        while True:
            for file in files:
                lines, places[file] = added(file, places[file])
                for line in lines:
                    print_line(line)
            time.sleep(FOLLOW_S)
    except KeyboardInterrupt:
        return


def note_left_internals(gone: dict[str, list[str]]) -> None:
    """Print why internal topics and groups could not be deleted, if so."""
    for problem in gone["left"]:
        print_note(f"ottla: internal topics and groups may be left in the cluster: {problem}")


def _ms(value: float | None) -> str | None:
    return None if value is None else in_short(round(value))


def _age(since: float) -> str | None:
    return in_short(round((time.time() - since) * 1000)) if since else None


def _moment(seconds: float) -> str | None:
    return datetime.fromtimestamp(seconds).isoformat(" ", "seconds") if seconds else None
