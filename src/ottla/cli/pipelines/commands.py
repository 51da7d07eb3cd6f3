"""`ottla pipeline`: data pipelines on Spark as managed applications."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from ottla.cli.connection_options import PANEL, given_by_source
from ottla.cli.consent import want_consent
from ottla.cli.options import Json, Yes, new_app, parse_pairs
from ottla.cli.pipelines import reprocess
from ottla.cli.pipelines.common import Name, StateDir, find

app = new_app("Run data pipelines on Spark: start, watch, stop, restart, reprocess.")

app.add_typer(reprocess.app, name="reprocess")


@app.callback()
def pipeline() -> None:
    """Check what all of its commands need."""
    from ottla.spark.session import SparkMissing, is_installed

    for package, module in {"PySpark": "pyspark", "PyYAML": "yaml"}.items():
        if not is_installed(module):
            raise SparkMissing(package)


OwnBootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT,...",
        envvar="OTTLA_BOOTSTRAP",
        show_envvar=True,
        help="Brokers to ask first; those in the file if not said, or localhost:9092.",
        show_default=False,
        rich_help_panel=PANEL,
    ),
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option", metavar="KEY=VALUE", help="Option of Spark (spark.*) or of clients (kafka.*)."
    ),
]


@app.command()
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False)],
    name: Annotated[
        str | None, typer.Option("--name", help="Its name; the one in the file, or the file's.")
    ] = None,
    master: Annotated[
        str, typer.Option("--master", help="Where Spark runs: local[*], spark://HOST:7077, yarn.")
    ] = "local[*]",
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return as soon as it is running.")
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="Process what is there now, and end.")
    ] = False,
    trigger: Annotated[
        str | None,
        typer.Option("--trigger", metavar="TIME", help="Least time between batches: '1 second'."),
    ] = None,
    bootstrap: OwnBootstrap = None,
    options: Options = None,
    checkpoints: Annotated[
        str | None,
        typer.Option(
            "--checkpoints", metavar="URI", help="Where checkpoints are kept: for a cluster."
        ),
    ] = None,
    state_dir: StateDir = None,
    as_json: Json = False,
) -> None:
    """Run a pipeline: a YAML file, or Python with `app` or `def pipeline(spark, context)`.

    A pipeline that exists and does not run goes on where it was, with the file as it is now.

    Examples:

    - `ottla pipeline run payments.yaml`

    - `ottla pipeline run fraud.py --detach --option spark.driver.memory=2g`

    - `ottla pipeline run archive.yaml --once`

    - `ottla pipeline run fraud.py --master spark://spark:7077 --checkpoints s3a://lake/checkpoints`
    """
    from ottla.cli.pipelines.run import attach, launch, preflight
    from ottla.pipelines import control
    from ottla.pipelines.context import BOOTSTRAP
    from ottla.pipelines.folders import Spec, default_root

    given = given_by_source()
    spec = Spec(
        name="",
        version=1,
        file="",
        entry="",
        master=master,
        bootstrap=bootstrap,
        trigger=_interval(trigger),
        once=once,
        checkpoints=checkpoints,
        options={**_of_clients(given.by_line, but=BOOTSTRAP), **_options(options or [])},
        defaults=_of_clients(given.by_environment),
    )
    preflight(file, spec)
    folder = control.prepare(state_dir or default_root(), file, name, spec)
    if detach:
        launch(folder, folder.current(), as_json)
    else:
        attach(folder, folder.current(), as_json)


@app.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False)],
    full: Annotated[
        bool, typer.Option("--full", help="Ask Spark, too: types, functions, files. Takes seconds.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check a pipeline without running it: what it says, and whether its columns are there.

    A wrong name is reported with its line. No broker is asked, and without --full no Spark is
    started. The exit code is 2 if something is wrong.

    Examples:

    - `ottla pipeline check payments.yaml`

    - `ottla pipeline check fraud.py --full`
    """
    from ottla.cli.output import deed, print_note
    from ottla.cli.pipelines.run import check as check_pipeline

    unsure = check_pipeline(file, full=full)
    by = "Spark finds nothing wrong" if full else "no wrong column or field found"
    deed(as_json, {"file": str(file), "full": full, "not_checked": unsure}, f"{file}: {by}.")
    if as_json:
        return
    for one in unsure:
        print_note(f"not checked: {one}")
    if not full:
        print_note("`--full` asks Spark about types and functions, too.")


def _interval(text: str | None) -> str | None:
    from ottla.durations import spark_interval

    found = None if text is None else spark_interval(text)
    if text is not None and found is None:
        raise typer.BadParameter(
            f"{text!r} is no length of time; write '1 second', '500 ms'", param_hint="--trigger"
        )
    return found


def _of_clients(settings: Mapping[str, str], but: str = "") -> dict[str, str]:
    """Return settings in Kafka's names as options of the pipeline, `but` one."""
    options = {f"kafka.{name}": value for name, value in settings.items()}
    options.pop(but, None)
    return options


def _options(texts: list[str]) -> dict[str, str]:
    pairs = parse_pairs(texts, "--option")
    for key in pairs:
        if not key.startswith(("spark.", "kafka.")):
            raise typer.BadParameter(
                f"{key!r} is neither an option of Spark (spark.*) nor of clients (kafka.*)",
                param_hint="--option",
            )
    return pairs


@app.command("list")
def list_(state_dir: StateDir = None, as_json: Json = False) -> None:
    """List pipelines with their state, rates and lag.

    Example:

    - `ottla pipeline list`
    """
    from ottla.cli.output import print_json, print_line
    from ottla.cli.pipelines.output import print_list
    from ottla.pipelines.folders import default_root, list_pipelines
    from ottla.pipelines.status import pipeline_status

    root = state_dir or default_root()
    folders = list_pipelines(root)
    found = [pipeline_status(one, ask_brokers=False) for one in folders]
    if as_json:
        print_json(found)
    elif found:
        print_list(found)
    else:
        print_line(f"No pipelines in {root}. Start one with `ottla pipeline run FILE`.")


@app.command()
def status(
    name: Name,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show it again every second until Ctrl-C.")
    ] = False,
    state_dir: StateDir = None,
    as_json: Json = False,
) -> None:
    """Show rates, lag in records and seconds, times of batches, state, and the last error.

    The exit code is 1 if it has failed.

    Examples:

    - `ottla pipeline status payments`

    - `ottla pipeline status payments --json | jq .lag.seconds`
    """
    from ottla.cli.pipelines.output import show_status, watch_status
    from ottla.pipelines.status import pipeline_status

    folder = find(state_dir, name)
    if watch:
        watch_status(lambda: pipeline_status(folder), as_json)
        return
    found = pipeline_status(folder)
    show_status(found, as_json)
    if found["state"] == "failed":
        raise typer.Exit(1)


@app.command()
def stop(
    name: Name,
    timeout_s: Annotated[
        float, typer.Option("--timeout-s", min=0, help="It is killed after that; nothing is lost.")
    ] = 60.0,
    state_dir: StateDir = None,
    as_json: Json = False,
) -> None:
    """Stop a pipeline. It goes on from the same place when it is started again.

    Example:

    - `ottla pipeline stop payments`
    """
    from ottla.cli.output import deed
    from ottla.pipelines import control

    folder = find(state_dir, name)
    was_over = folder.current().record().state.is_over
    record = control.stop(folder.current(), timeout_s)
    value = {"name": name, "state": str(record.state)}
    deed(as_json, value, f"Pipeline {name} {'was' if was_over else 'is'} {record.state}.")


@app.command()
def restart(name: Name, state_dir: StateDir = None, as_json: Json = False) -> None:
    """Stop a pipeline if it runs, and start the same again in the background.

    The same file, as it was when it was run: `ottla pipeline run FILE` takes a changed one.

    Example:

    - `ottla pipeline restart payments`
    """
    from ottla.cli.pipelines.run import launch
    from ottla.pipelines import control

    folder = find(state_dir, name)
    control.stop(folder.current())
    launch(folder, folder.current(), as_json)


@app.command()
def logs(
    name: Name,
    kind: Annotated[
        str, typer.Option("--kind", help="pipeline, spark, output (what it prints), or all.")
    ] = "all",
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many of each.")] = 40,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    version: Annotated[
        int | None, typer.Option("--version", min=1, help="Of another version than the current.")
    ] = None,
    state_dir: StateDir = None,
) -> None:
    """Print the last lines of its logs.

    Examples:

    - `ottla pipeline logs payments`

    - `ottla pipeline logs payments --kind spark -n 200`
    """
    from ottla.cli.pipelines.output import follow_logs, print_logs
    from ottla.pipelines.logs import LOGS

    if kind not in (*LOGS, "all"):
        raise typer.BadParameter(f"{kind!r} is none of {', '.join(LOGS)}, all", param_hint="--kind")
    folder = find(state_dir, name)
    chosen = folder.version(version) if version else folder.current()
    kinds = list(LOGS) if kind == "all" else [kind]
    print_logs(chosen.logs, kinds, lines)
    if follow:
        follow_logs(chosen.logs, kinds)


@app.command()
def delete(
    name: Name,
    yes: Yes = False,
    state_dir: StateDir = None,
    as_json: Json = False,
) -> None:
    """Forget a pipeline that does not run, with its checkpoints. What it wrote stays.

    Topics between its queries and groups of its sink are deleted, as nothing else uses them.

    Example:

    - `ottla pipeline delete payments --yes`
    """
    from ottla.cli.output import deed
    from ottla.cli.pipelines.output import note_left_internals
    from ottla.pipelines import control

    folder = find(state_dir, name)
    want_consent(f"Forget {name} and how far it has come?", yes)
    gone = control.delete(folder)
    internal = [*gone["topics"], *gone["groups"]]
    told = f" with {', '.join(internal)}" if internal else ""
    deed(as_json, {"name": name, "deleted": True, **gone}, f"Pipeline {name} deleted{told}.")
    note_left_internals(gone)
