"""`ottla demo`: a cluster, payments, a pipeline on Spark, and a check of the results."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from ottla.cli.options import new_app

app = new_app()


@app.command()
def demo(
    seconds: Annotated[
        float, typer.Option("--seconds", "-s", min=5, help="How long payments are made.")
    ] = 60,
    events: Annotated[
        int | None, typer.Option("--events", "-n", min=100, help="Or: until so many are sent.")
    ] = None,
    rate: Annotated[
        float, typer.Option("--rate", "-r", min=10, help="Payments a second at the day's peak.")
    ] = 1000,
    chaos: Annotated[
        bool, typer.Option("--chaos", help="Kill Spark and a broker in the middle of it.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", help="Another one makes other payments.")] = 1,
    data: Annotated[
        Path | None,
        typer.Option("--data", "-d", help="A folder to keep all in; default: temporary."),
    ] = None,
) -> None:
    """Card payments through a cluster and Spark, live, and checked to the last cent.

    Starts three brokers, sends payments (with fraud, late events, duplicates and invalid ones),
    runs a pipeline on Spark, and at the end computes the expected results in plain Python. Exits
    with 1 if anything is missing, duplicated or wrong. Ctrl-C ends everything; nothing is left
    behind.

    Examples:

    - `ottla demo`

    - `ottla demo --seconds 120 --chaos`
    """
    from rich.console import Console

    missing = what_is_missing()
    if missing:
        print(f"ottla: {missing}", file=sys.stderr)
        raise typer.Exit(1)
    from ottla.demo.children import ChildFailed
    from ottla.demo.show import Options, run

    # The demo's own output reports killed brokers.
    logging.getLogger("ottla.client").setLevel(logging.ERROR)
    options = Options(seconds, events, rate, seed, data, chaos)
    try:
        code = run(options, Console())
    except (ChildFailed, FileExistsError) as error:
        print(f"ottla: {error}", file=sys.stderr)
        code = 1
    raise typer.Exit(code)


def what_is_missing() -> str | None:
    """Return what the pipeline needs and this machine does not have, in one line, or None."""
    from ottla.spark.java import JavaMissing, find_java
    from ottla.spark.session import SparkMissing, is_installed

    if not is_installed("pyspark"):
        return str(SparkMissing())
    try:
        find_java()
    except JavaMissing as error:
        return str(error)
    return None
