"""Options that the commands of `ottla pipeline` share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

if TYPE_CHECKING:
    from ottla.pipelines.folders import PipelineFolder

StateDir: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--state-dir",
        metavar="FOLDER",
        envvar="OTTLA_PIPELINES",
        show_envvar=True,
        help="Where pipelines are kept; ~/.ottla/pipelines if not said.",
    ),
]
Name: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]


def find(state_dir: Path | None, name: str) -> PipelineFolder:
    from ottla.pipelines.folders import default_root, find_pipeline

    return find_pipeline(state_dir or default_root(), name)
