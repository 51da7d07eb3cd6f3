"""Runs a second version beside the first: from the earliest offset, into its own outputs.

begin  ->  both run; version 2 writes NAME-v2 where version 1 writes NAME
status ->  its progress, and differences in the outputs
switch ->  version 1 is stopped, version 2 gets at least as far and becomes current
cancel ->  version 2 is stopped and forgotten
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ottla.pipelines import control, outputs
from ottla.pipelines.application import check_file
from ottla.pipelines.comparing import compare
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.folders import PipelineFolder, VersionFolder
from ottla.pipelines.internals import remove_internals
from ottla.pipelines.progress import merged_offsets
from ottla.pipelines.states import State
from ottla.pipelines.status import version_status

CATCH_UP_S = 300.0
POLL_S = 0.5

Offsets = Mapping[str, Mapping[str, int]]


def begin(folder: PipelineFolder, file: Path | None, options: Mapping[str, str]) -> VersionFolder:
    """Install the next version and create its output topics like the first's; do not start it."""
    state = folder.state()
    if state.candidate is not None:
        raise PipelineError(
            f"version {state.candidate} of {folder.name} is being reprocessed already; end that by "
            f"`ottla pipeline reprocess switch {folder.name}` or `... cancel {folder.name}`"
        )
    current = folder.current()
    spec = current.spec()
    number = state.latest + 1
    source = (file or Path(spec.file)).resolve()
    check_file(source)
    merged = {**spec.options, **options}
    new = replace(spec, version=number, from_earliest=True, once=False, options=merged)
    control.install(folder, new, source)
    connection = current.outputs().get("connection")
    if connection:
        written = current.outputs()["topics"]
        _make_topics(folder.version(number), connection, written)
    folder.change(candidate=number, latest=number)
    return folder.version(number)


def _make_topics(
    version: VersionFolder, connection: Mapping[str, str], models: Mapping[str, str]
) -> None:
    """Create the output topics of a version like those of the previous one, and record them:
    `cancel` must find them even if the version never starts."""
    suffix = version.spec().suffix
    wanted = {name + suffix: model for name, model in models.items()}
    made = outputs.make_like(connection, wanted)
    topics = {name: name + suffix for name in models if name + suffix in made}
    version.write_outputs({**version.outputs(), "topics": topics, "connection": dict(connection)})


def required_candidate(folder: PipelineFolder) -> VersionFolder:
    found = folder.candidate()
    if found is None:
        raise PipelineError(
            f"nothing of {folder.name} is being reprocessed; "
            f"`ottla pipeline reprocess {folder.name} [FILE]` begins"
        )
    return found


def behind(first: Offsets, second: Offsets) -> int | None:
    """Return how many records only the first has processed; None if the second is unknown."""
    if not second:
        return None
    missing = 0
    for topic, partitions in first.items():
        reached = second.get(topic, {})
        missing += sum(
            max(offset - max(reached.get(index, 0), 0), 0) for index, offset in partitions.items()
        )
    return missing


def offsets_of(version: VersionFolder) -> dict[str, dict[str, int]]:
    return merged_offsets(version.progress().get("queries", []))


def behind_version(first: VersionFolder, second: VersionFolder) -> int | None:
    """Compare by the topics that the second reads, without topics between its own queries; if these
    are unknown, by those that it has been seen to read."""
    goal, reached = offsets_of(first), offsets_of(second)
    read = second.outputs()["inputs"] or list(reached)
    return behind({name: goal[name] for name in goal if name in read}, reached)


def progress(folder: PipelineFolder) -> dict[str, Any]:
    """Return both versions, and how far the second is behind the first."""
    candidate = required_candidate(folder)
    old, new = version_status(folder.current()), version_status(candidate)
    missing = behind_version(folder.current(), candidate)
    return {
        "name": folder.name,
        "old": old,
        "new": new,
        "behind": missing,
        "caught_up": missing == 0,
    }


def differences(folder: PipelineFolder, most: int, key: str | None) -> list[dict[str, Any]]:
    """Return one entry for each output that both versions write."""
    old, new = folder.current().outputs(), required_candidate(folder).outputs()
    connection = new.get("connection", {})
    found = []
    for kind in ("topics", "paths"):
        for name in sorted(old[kind].keys() & new[kind].keys()):
            pair = (old[kind][name], new[kind][name])
            entry: dict[str, Any] = {"output": name, "old": pair[0], "new": pair[1], "error": None}
            try:
                rows = [
                    outputs.topic_rows(connection, one, most)
                    if kind == "topics"
                    else outputs.parquet_rows(one, most, key)
                    for one in pair
                ]
                entry |= compare(*rows).as_json()
            except PipelineError as error:
                entry["error"] = str(error)
            found.append(entry)
    return found


def switch(folder: PipelineFolder, *, within_s: float = CATCH_UP_S) -> dict[str, Any]:
    """Switch to the new version. The old one is stopped first, to know how far the new must get."""
    candidate = required_candidate(folder)
    if candidate.record().state is not State.RUNNING:
        raise PipelineError(
            f"version {folder.state().candidate} is {candidate.record().state}, not running: "
            f"`ottla pipeline logs {folder.name} --version {folder.state().candidate}` tells why"
        )
    current = folder.current()
    control.stop(current)
    point = offsets_of(current)
    _wait_for(candidate, current, within_s)
    old, number = folder.state().current, folder.state().candidate
    switched = {"at": time.time(), "from": old, "offsets": point}
    folder.change(current=number, candidate=None, switched_at=switched)
    return {
        "name": folder.name,
        "current": number,
        "stopped": old,
        "at": point,
        "outputs": _moves(current, candidate),
    }


def _wait_for(candidate: VersionFolder, stopped: VersionFolder, within_s: float) -> None:
    if not offsets_of(stopped):
        return
    deadline = time.monotonic() + within_s
    while missing := behind_version(stopped, candidate) or not offsets_of(candidate):
        if candidate.record().state.is_over or time.monotonic() > deadline:
            raise PipelineError(
                "the new version has not come as far as the old one, which is stopped now "
                f"({int(missing)} records are missing): switch again to go on waiting, "
                "or restart the old one"
            )
        time.sleep(POLL_S)


def _moves(current: VersionFolder, candidate: VersionFolder) -> list[dict[str, Any]]:
    """Return where readers find from now on what they have read so far."""
    old, new = current.outputs(), candidate.outputs()
    connection = new.get("connection", {})
    moves = []
    for kind in ("topics", "paths"):
        for name, place in sorted(new[kind].items()):
            before = old[kind].get(name)
            groups = (
                outputs.reading_groups(connection, before) if kind == "topics" and before else []
            )
            moves.append({"output": name, "old": before, "new": place, "groups": groups})
    return moves


def cancel(folder: PipelineFolder, *, delete_outputs: bool) -> dict[str, Any]:
    """Stop and delete the second version; `internal` has the result of `remove_internals`."""
    candidate = required_candidate(folder)
    control.stop(candidate)
    written = candidate.outputs()
    topics, paths = list(written["topics"].values()), list(written["paths"].values())
    if delete_outputs:
        outputs.delete_topics(written.get("connection", {}), topics)
        for path in paths:
            shutil.rmtree(path.removeprefix("file:"), ignore_errors=True)
    internal = remove_internals(candidate)
    number = folder.state().candidate
    folder.change(candidate=None)
    shutil.rmtree(candidate.path, ignore_errors=True)
    return {
        "name": folder.name,
        "cancelled": number,
        "deleted": delete_outputs,
        "topics": topics,
        "paths": paths,
        "internal": internal,
    }
