"""The folders of pipelines: one for each, and in it one for each version.

~/.ottla/pipelines/NAME/
    pipeline.json                 which version is current, and which is being reprocessed
    v1/  spec.json                what to run and how
         app/                     the application file as it was when it was run
         state.json progress.json lock
         checkpoints/             unless they are kept elsewhere
         logs/                    pipeline.log, spark.log, output.log
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ottla.pipelines.declared.fields import PIPELINE_NAME
from ottla.pipelines.errors import PipelineError, UnknownPipeline
from ottla.pipelines.files import read_json, write_json
from ottla.pipelines.processes import is_locked
from ottla.pipelines.states import Record, State

ENVIRONMENT = "OTTLA_PIPELINES"


def default_root() -> Path:
    named = os.environ.get(ENVIRONMENT)
    return Path(named) if named else Path.home() / ".ottla" / "pipelines"


@dataclass(frozen=True)
class Spec:
    """The configuration of a version: the file, Spark's master, and the command line's options."""

    name: str
    version: int
    file: str
    """As named by the user; its copy in `app/` is run."""
    entry: str
    """The path of the copy below `app/`."""
    master: str = "local[*]"
    bootstrap: str | None = None
    trigger: str | None = None
    once: bool = False
    checkpoints: str | None = None
    """Where checkpoints are, if not in the folder: a cluster needs a shared place."""
    from_earliest: bool = False
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    defaults: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Settings of clients from the environment, for an application that has no own sign-in."""

    @property
    def suffix(self) -> str:
        """The suffix of topics and folders that this version writes; empty for version 1."""
        return "" if self.version == 1 else f"-v{self.version}"


@dataclass(frozen=True)
class VersionFolder:
    path: Path

    @property
    def app(self) -> Path:
        return self.path / "app"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    def spec(self) -> Spec:
        return Spec(**read_json(self.path / "spec.json"))

    def write_spec(self, spec: Spec) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self.path / "spec.json", asdict(spec))

    def checkpoints(self, spec: Spec) -> str:
        if spec.checkpoints is None:
            return str(self.path / "checkpoints")
        return f"{spec.checkpoints.rstrip('/')}/{spec.name}-v{spec.version}"

    def record(self) -> Record:
        """Return the true state, not just the written one."""
        # In this order: a process that ends in between writes its last state before it releases the
        # lock.
        is_alive = is_locked(self.lock)
        written = self.written_record()
        return written.seen(is_alive)

    def written_record(self) -> Record:
        value = read_json(self.path / "state.json")
        return Record.from_json(value) if value else Record(State.STOPPED, 0.0)

    def write_record(self, record: Record) -> None:
        write_json(self.path / "state.json", record.as_json())

    def progress(self) -> dict[str, Any]:
        return read_json(self.path / "progress.json") or {}

    def outputs(self) -> dict[str, Any]:
        """Return `topics` and `paths`: the application's names, and what this version writes
        instead; `inputs`: topics it reads, as far as known; `connection`: how they are reached."""
        nothing: dict[str, Any] = {"topics": {}, "paths": {}, "inputs": [], "connection": {}}
        return read_json(self.path / "outputs.json") or nothing

    def write_outputs(self, value: dict[str, Any]) -> None:
        write_json(self.path / "outputs.json", value)

    def write_progress(self, value: dict[str, Any]) -> None:
        write_json(self.path / "progress.json", value, durable=False)


@dataclass(frozen=True)
class PipelineState:
    """`current` is the version in use; `candidate` is to replace it."""

    current: int
    candidate: int | None = None
    latest: int = 1
    switched_at: Mapping[str, Any] | None = None


class PipelineFolder:
    def __init__(self, root: Path, name: str) -> None:
        if not PIPELINE_NAME.fullmatch(name):
            raise PipelineError(
                f"{name!r} is no name of a pipeline: letters, digits, . _ -, 100 at most"
            )
        self.name = name
        self.path = root / name

    @property
    def exists(self) -> bool:
        return (self.path / "pipeline.json").exists()

    def state(self) -> PipelineState:
        return PipelineState(**read_json(self.path / "pipeline.json"))

    def write_state(self, state: PipelineState) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self.path / "pipeline.json", asdict(state))

    def change(self, **changes: Any) -> None:
        self.write_state(replace(self.state(), **changes))

    def version(self, number: int) -> VersionFolder:
        return VersionFolder(self.path / f"v{number}")

    def current(self) -> VersionFolder:
        return self.version(self.state().current)

    def candidate(self) -> VersionFolder | None:
        number = self.state().candidate
        return None if number is None else self.version(number)

    def delete(self) -> None:
        # First the file that makes it a pipeline: half a folder must not be taken for one.
        (self.path / "pipeline.json").unlink(missing_ok=True)
        shutil.rmtree(self.path, ignore_errors=True)


def list_pipelines(root: Path) -> list[PipelineFolder]:
    if not root.is_dir():
        return []
    found = [PipelineFolder(root, one.parent.name) for one in root.glob("*/pipeline.json")]
    return sorted(found, key=lambda one: one.name)


def find_pipeline(root: Path, name: str) -> PipelineFolder:
    folder = PipelineFolder(root, name)
    if not folder.exists:
        raise UnknownPipeline(name, [one.name for one in list_pipelines(root)])
    return folder
