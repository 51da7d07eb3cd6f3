"""Starts a pipeline from a command: in the background, or with its progress shown."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ottla.cli.output import deed, print_json, print_line, print_note
from ottla.cli.pipelines.output import figures_line
from ottla.pipelines import control
from ottla.pipelines.status import version_status

if TYPE_CHECKING:
    from ottla.pipelines.application import Application
    from ottla.pipelines.folders import PipelineFolder, Spec, VersionFolder

LINE_EVERY_S = 10.0


def preflight(file: Path, spec: Spec) -> None:
    """Check what needs no Spark session: the file, Java, and the topics of a YAML pipeline."""
    from ottla.pipelines.application import YAML_SUFFIXES, DeclaredApplication, check_file
    from ottla.pipelines.context import connection_of
    from ottla.pipelines.declared.read import read_declaration
    from ottla.spark.java import find_java

    check_file(file)
    find_java()
    if file.suffix not in YAML_SUFFIXES:
        return
    application = DeclaredApplication(read_declaration(file.resolve()), [])
    application.check(file)
    own = application.connection
    connection = connection_of(own, spec.options, spec.defaults, spec.bootstrap)
    check_topics(connection, application.inputs)


def check(file: Path, *, full: bool) -> list[str]:
    """Raise the first mistake, or return what could not be checked; `full`: as Spark sees it."""
    from ottla.pipelines.application import check_file, context_for, load_application
    from ottla.pipelines.context import Context

    name = check_file(file)
    resolved = file.resolve()
    application = load_application(resolved, [resolved.parent])
    unsure = application.check(file)
    if not full:
        return unsure
    from ottla.spark import spark_session

    # PySpark logs the stack of both languages to stderr before it raises the error reported below.
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    context = context_for(application, Context(name), None)
    options = {**application.spark_options, "spark.driver.memory": "1g"}
    spark = spark_session(f"check {name}", master="local[1]", options=options)
    try:
        application.check_on(spark, context, file)
    finally:
        spark.stop()
    return [] if is_checkable(application) else unsure


def is_checkable(application: Application) -> bool:
    """True if Spark can check all of it before it runs."""
    from ottla.pipelines.application import FunctionApplication

    return not isinstance(application, FunctionApplication)


def check_topics(connection: Mapping[str, str], names: list[str]) -> None:
    from ottla.blocking import Admin
    from ottla.client.errors import TopicMissing
    from ottla.pipelines.errors import PipelineError
    from ottla.protocol.errors import ErrorCode, KafkaError
    from ottla.spark.client_options import admin_options
    from ottla.spark.first_contact import check_reachable

    check_reachable(connection)
    with Admin(**admin_options(connection)) as admin:
        for name, found in admin.describe_topics(names).items():
            if not isinstance(found, KafkaError):
                continue
            if found.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise TopicMissing(name) from found
            raise PipelineError(f"topic {name!r} cannot be read: {found}") from found


def launch(folder: PipelineFolder, version: VersionFolder, as_json: bool) -> None:
    """Start it in the background, and wait until that has succeeded or failed."""
    started = control.start(version)
    record = started.wait_until(
        lambda one: one.state.is_over or one.state == "running", control.START_S
    )
    value = {"name": folder.name, "state": str(record.state), "pid": record.pid}
    if record.state == "failed":
        _fail(version, as_json)
    words = f"is {record.state} (process {record.pid})"
    if record.state == "finished":
        words = "has finished"
    deed(as_json, value, f"Pipeline {folder.name} {words}.")


def attach(folder: PipelineFolder, version: VersionFolder, as_json: bool) -> None:
    """Start it and show its progress until it ends; Ctrl-C stops it."""
    started = control.start(version, attached=True)
    if not as_json:
        print_note(f"Pipeline {folder.name} is starting; Ctrl-C stops it.")
    shown = _Progress(version, as_json)
    try:
        while started.process.poll() is None:
            started.wait_until(lambda one: one.state.is_over, 1.0)
            shown.look()
    except KeyboardInterrupt:
        shown.end()
        print_note("stopping ...")
        control.stop(version)
    shown.end()
    _tell_end(folder, version, as_json)


def _tell_end(folder: PipelineFolder, version: VersionFolder, as_json: bool) -> None:
    record = version.record()
    if record.state == "failed":
        _fail(version, as_json)
    found = version_status(version, ask_brokers=False)
    if as_json:
        print_json(found)
    else:
        print_line(f"Pipeline {folder.name} {record.state}: {figures_line(found)}")


def _fail(version: VersionFolder, as_json: bool) -> None:
    reason = control.why_it_ended(version)
    if as_json:
        print_json({"name": version.spec().name, "state": "failed", "error": reason})
    name = version.spec().name
    print_note(f"ottla: pipeline {name} failed: {reason}")
    print_note(f"ottla: more is in `ottla pipeline logs {name}`")
    raise typer.Exit(1)


class _Progress:
    """Shows a line that is redrawn on a terminal; elsewhere a line from time to time."""

    def __init__(self, version: VersionFolder, as_json: bool) -> None:
        self._version = version
        self._is_quiet = as_json
        self._on_terminal = sys.stderr.isatty()
        self._last: Any = None
        self._last_at = -LINE_EVERY_S

    def look(self) -> None:
        found = version_status(self._version, ask_brokers=False)
        line = f"{found['state']}: {figures_line(found)}"
        if self._is_quiet or line == self._last:
            return
        if self._on_terminal:
            sys.stderr.write(f"\r\x1b[K{line}")
            sys.stderr.flush()
        elif time.monotonic() - self._last_at >= LINE_EVERY_S:
            print_note(line)
            self._last_at = time.monotonic()
        self._last = line

    def end(self) -> None:
        if self._on_terminal and not self._is_quiet:
            sys.stderr.write("\r\x1b[K")
