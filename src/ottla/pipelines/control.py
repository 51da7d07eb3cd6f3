"""Starts, stops and deletes pipelines from outside, for the commands."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ottla.pipelines import processes
from ottla.pipelines.application import check_file, files_of
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.folders import PipelineFolder, PipelineState, Spec, VersionFolder
from ottla.pipelines.internals import KINDS, remove_internals
from ottla.pipelines.logs import OUTPUT_LOG, tail
from ottla.pipelines.states import Record, State

START_S = 120.0
STOP_S = 60.0
POLL_S = 0.1


class AlreadyRunning(PipelineError):
    def __init__(self, name: str) -> None:
        super().__init__(
            f"pipeline {name!r} is running; stop it first: `ottla pipeline stop {name}`"
        )


@dataclass(frozen=True)
class Started:
    """A process of a pipeline. It lives while `parent` is open; None: it lives on its own."""

    folder: VersionFolder
    process: subprocess.Popen[bytes]
    parent: int | None = None

    def wait_until(
        self, is_there: Callable[[Record], bool], within_s: float | None = None
    ) -> Record:
        """Return the record once it is as wanted, or the process has ended, or time is up."""
        deadline = None if within_s is None else time.monotonic() + within_s
        while True:
            has_ended = self.process.poll() is not None
            record = self.folder.record()
            if is_there(record) or has_ended:
                return record
            if deadline is not None and time.monotonic() > deadline:
                return record
            time.sleep(POLL_S)


def prepare(root: Path, file: Path, name: str | None, spec: Spec) -> PipelineFolder:
    """Return the folder of a pipeline, with this file as its current version; it must not run."""
    file = file.resolve()
    found = check_file(file)
    folder = PipelineFolder(root, name or found)
    number = folder.state().current if folder.exists else 1
    if folder.exists and not folder.current().record().state.is_over:
        raise AlreadyRunning(folder.name)
    if folder.exists and name is None and folder.current().spec().file != str(file):
        raise PipelineError(
            f"pipeline {folder.name!r} is that of {folder.current().spec().file}: choose another "
            f"--name, or say --name {folder.name} to go on with this file in its place"
        )
    install(folder, replace(spec, name=folder.name, version=number), file)
    if not folder.exists:
        folder.write_state(PipelineState(current=1))
    return folder


def install(folder: PipelineFolder, spec: Spec, file: Path) -> None:
    """Write the spec and copy the file, so that a restart runs the same again."""
    version = folder.version(spec.version)
    entry = copy_application(file, version.app)
    version.write_spec(replace(spec, file=str(file), entry=entry))


def copy_application(file: Path, target: Path) -> str:
    """Copy the files, keeping their relative positions; return the first one's path in `target`."""
    files = files_of(file)
    base = Path(os.path.commonpath([one.parent for one in files]))
    new = target.with_name(target.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    for one in files:
        place = new / one.relative_to(base)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(one, place)
    shutil.rmtree(target, ignore_errors=True)
    new.replace(target)
    return str(file.relative_to(base))


_SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""A file `copy.py` in the folder where a pipeline is started must not replace Python's module
`copy`, neither in its process nor in Spark's."""


def start(version: VersionFolder, *, attached: bool = False) -> Started:
    """Start a process in its own session; an `attached` one ends with this process."""
    version.logs.mkdir(parents=True, exist_ok=True)
    lock = processes.Lock.take(version.lock)
    if lock is None:
        raise AlreadyRunning(version.spec().name)
    _announce(version)
    reading, writing = os.pipe() if attached else (None, None)
    kept = [one for one in (lock.descriptor, reading) if one is not None]
    command = [sys.executable, "-m", "ottla.pipelines.driver", str(version.path), *map(str, kept)]
    try:
        with (version.logs / OUTPUT_LOG).open("ab") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=kept,
                env={**os.environ, **_SAFE_PATH},
                start_new_session=True,
            )
    finally:
        for descriptor in kept:
            os.close(descriptor)
    return Started(version, process, writing)


def _announce(version: VersionFolder) -> None:
    """Reset the record, so that the last process's state is not taken for the new one's."""
    last = version.written_record()
    version.write_record(
        replace(last, state=State.STARTING, since=time.time(), pid=None, identity=None, error=None)
    )


def stop(version: VersionFolder, within_s: float = STOP_S) -> Record:
    """Ask the process to stop, and kill it if it does not in time: nothing is lost by that."""
    record = version.written_record()
    if not processes.is_locked(version.lock):
        return version.record()
    processes.send(record.pid, record.identity, signal.SIGTERM)
    deadline = time.monotonic() + within_s
    while processes.is_locked(version.lock):
        # A process that has just been started has not written its pid yet.
        record = version.written_record()
        if time.monotonic() > deadline:
            processes.send(record.pid, record.identity, signal.SIGKILL)
            processes.wait_gone(record.pid, record.identity, POLL_S * 50)
            processes.send(record.jvm_pid, record.jvm_identity, signal.SIGKILL)
            break
        if record.state is State.STARTING:
            processes.send(record.pid, record.identity, signal.SIGTERM)
        time.sleep(POLL_S)
    return _stopped(version)


def _stopped(version: VersionFolder) -> Record:
    """Mark a process as stopped that was killed or had no time to write it."""
    lock = processes.Lock.take(version.lock)
    if lock is None:
        return version.record()
    try:
        record = version.written_record()
        if not record.state.is_over:
            version.write_record(
                replace(record, state=State.STOPPED, since=time.time(), error=None)
            )
    finally:
        lock.release()
    return version.record()


def why_it_ended(version: VersionFolder) -> str:
    """Return the error of a failed process, or its last output if it wrote no error."""
    record = version.record()
    if record.error and record.pid is not None:
        return record.error
    printed = [line for line in tail(version.logs / OUTPUT_LOG, 20) if line.strip()]
    return printed[-1] if printed else record.error or "no reason given"


def delete(folder: PipelineFolder) -> dict[str, list[str]]:
    """Delete the pipeline; return its removed internals, as `remove_internals` does."""
    versions = [folder.version(number) for number in range(1, folder.state().latest + 1)]
    versions = [one for one in versions if one.path.exists()]
    if any(not one.record().state.is_over for one in versions):
        raise AlreadyRunning(folder.name)
    removed = [remove_internals(one) for one in versions]
    folder.delete()
    return {kind: [name for one in removed for name in one[kind]] for kind in KINDS}
