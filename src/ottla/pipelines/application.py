"""Application files of all kinds, with one interface: inputs, outputs, checks, and a start.

- YAML: see `declared/`.
- Python with `app`, an `ottla.streams.App`.
- Python with `def pipeline(spark, context)` that returns the query it started, or several.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from ottla.pipelines.context import AT_ONCE, BOOTSTRAP, Context, connection_of
from ottla.pipelines.declared.declaration import Declaration, FileSink
from ottla.pipelines.declared.read import read_declaration
from ottla.pipelines.declared.steps import top_level_names
from ottla.pipelines.errors import InvalidFile, StepFailed
from ottla.pipelines.modules import load_module
from ottla.pipelines.running_work import AvailableApp, Queries, RunningApp, Work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.streams import App

YAML_SUFFIXES = (".yaml", ".yml")


class Application(Protocol):
    def name_outputs(self, context: Context) -> None:
        """Tell the context which topics and folders will be written, as far as known."""

    def start(self, spark: SparkSession, context: Context) -> Work: ...

    def check(self, file: Path) -> list[str]:
        """Raise InvalidFile, naming `file`, for the first mistake that is found without Spark;
        return what could not be checked."""

    def check_on(self, spark: SparkSession, context: Context, file: Path) -> None:
        """Raise InvalidFile for the first mistake that Spark finds before a query starts."""

    @property
    def spark_options(self) -> Mapping[str, str]: ...

    @property
    def inputs(self) -> list[str]:
        """Topics that must exist, as far as known; patterns are left out."""

    def internal_topics(self, context: Context) -> list[str]:
        """Return the topics between its own queries."""

    @property
    def connection(self) -> Mapping[str, str]: ...

    @property
    def trigger(self) -> str | None: ...


def check_file(file: Path) -> str:
    """Return the name of the pipeline in a file, without running it; raise if it cannot be run."""
    if file.suffix in YAML_SUFFIXES:
        return read_declaration(file).name
    if file.suffix != ".py":
        raise InvalidFile(file, None, "", "wants a file that ends with .py, .yaml or .yml")
    try:
        names = top_level_names(ast.parse(file.read_text(), str(file)))
    except OSError as error:
        raise InvalidFile(file, None, "", error.strerror or str(error)) from error
    except (SyntaxError, UnicodeDecodeError) as error:
        raise InvalidFile(
            file, getattr(error, "lineno", None), "", f"is no Python: {error}"
        ) from None
    if not names & {"app", "pipeline"}:
        raise InvalidFile(
            file, None, "", "has neither `app = App(...)` nor `def pipeline(spark, context)`"
        )
    return file.stem


def files_of(file: Path) -> list[Path]:
    """Return the file and those it names, so that a copy can be run later unchanged."""
    if file.suffix not in YAML_SUFFIXES:
        return [file]
    steps = read_declaration(file).steps
    return [file, *dict.fromkeys(step.file for step in steps if step.file)]


def load_application(file: Path, folders: list[Path], base: Path | None = None) -> Application:
    """Load a file. It imports from `folders`; relative paths of data start at `base`."""
    if file.suffix in YAML_SUFFIXES:
        return DeclaredApplication(read_declaration(file, base), folders)
    module = load_module(file, folders)
    if hasattr(module, "pipeline"):
        return FunctionApplication(module)
    from ottla.streams import App

    if not isinstance(module.app, App):
        raise InvalidFile(file, None, "app", f"is a {type(module.app).__name__}, not an App")
    return StreamsApplication(module.app)


class DeclaredApplication:
    def __init__(self, declaration: Declaration, folders: list[Path]) -> None:
        self._declaration = declaration
        self._folders = folders

    @property
    def spark_options(self) -> Mapping[str, str]:
        return self._declaration.spark

    @property
    def inputs(self) -> list[str]:
        choices = [one.choice for one in self._declaration.topics]
        return [name for kind, value in choices if kind == "subscribe" for name in value.split(",")]

    @property
    def connection(self) -> Mapping[str, str]:
        return self._declaration.connection

    @property
    def trigger(self) -> str | None:
        return self._declaration.trigger

    def internal_topics(self, _context: Context) -> list[str]:
        return []

    def name_outputs(self, context: Context) -> None:
        sink = self._declaration.sink
        if isinstance(sink, FileSink):
            context.path(sink.path)
            return
        context.topic(sink.topic)
        for letters in self._declaration.dead_letters:
            context.topic(letters)

    def start(self, spark: SparkSession, context: Context) -> Work:
        from ottla.pipelines.declared.locate import Locator
        from ottla.pipelines.declared.run import DeclaredPipeline

        pipeline = DeclaredPipeline(self._declaration, context, self._folders)
        return Queries([pipeline.start(spark)], Locator(spark, pipeline).explain)

    def check(self, file: Path) -> list[str]:
        from ottla.pipelines.checking.declared import check_declaration

        return check_declaration(replace(self._declaration, file=file))

    def check_on(self, spark: SparkSession, context: Context, file: Path) -> None:
        from ottla.pipelines.declared.mistakes import located
        from ottla.pipelines.declared.run import DeclaredPipeline

        try:
            DeclaredPipeline(self._declaration, context, self._folders).written(spark)
        except StepFailed as error:
            raise located(replace(self._declaration, file=file), error) from error


class StreamsApplication:
    def __init__(self, app: Any) -> None:
        self._app = app

    spark_options: Mapping[str, str] = {}
    trigger: str | None = None

    @property
    def inputs(self) -> list[str]:
        written = set(self._app.topology.sinks())
        return [name for name in self._app.topology.sources() if name not in written]

    @property
    def connection(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self._app.settings.to_spark()
        return found

    def name_outputs(self, context: Context) -> None:
        for name in self._app.topology.sinks():
            context.topic(name)

    def internal_topics(self, context: Context) -> list[str]:
        return [topic.name for topic in self._renamed(context).plan().internal_topics]

    def _renamed(self, context: Context) -> App:
        """Return the app as this version runs it."""
        app: App = self._app
        return app.renamed(context.suffix) if context.suffix else app

    def start(self, spark: SparkSession, context: Context) -> Work:
        others = {name: value for name, value in context.connection.items() if name != BOOTSTRAP}
        app = self._renamed(context).at(context.bootstrap, others)
        checkpoints = context.checkpoint("streams")
        if context.trigger.get("availableNow"):
            work = AvailableApp(app, checkpoints)
            work.start()
            return work
        every = context.trigger.get("processingTime")
        trigger = None if every in (None, AT_ONCE) else str(every)
        return RunningApp(app.start(spark, checkpoints=checkpoints, trigger=trigger))

    def check(self, file: Path) -> list[str]:
        from ottla.pipelines.checking.streams import check_app

        check_app(self._app, file)
        return []

    def check_on(self, spark: SparkSession, context: Context, file: Path) -> None:
        from ottla.spark.datasource import register
        from ottla.streams.errors import BadTopology
        from ottla.streams.lowering.build import Builder

        register(spark)
        try:
            Builder(spark, self._app.settings, {}).build(self._app.plan())
        except BadTopology as error:
            raise InvalidFile(file, error.line, "", error.problem) from error


class FunctionApplication:
    def __init__(self, module: ModuleType) -> None:
        self._function = module.pipeline
        self.spark_options: Mapping[str, str] = dict(getattr(module, "SPARK_OPTIONS", {}))

    inputs: list[str] = []
    connection: Mapping[str, str] = {}
    trigger: str | None = None

    def internal_topics(self, _context: Context) -> list[str]:
        return []

    def name_outputs(self, context: Context) -> None:
        """Do nothing: a function names its outputs when it runs."""

    def start(self, spark: SparkSession, context: Context) -> Work:
        from pyspark.sql.streaming.query import StreamingQuery

        made = self._function(spark, context)
        queries = [made] if isinstance(made, StreamingQuery) else list(made or ())
        if not queries or not all(isinstance(one, StreamingQuery) for one in queries):
            raise TypeError("pipeline(spark, context) must return the queries that it started")
        return Queries(queries)

    def check(self, file: Path) -> list[str]:
        return ["pipeline(spark, context): what a function does shows when it runs"]

    def check_on(self, spark: SparkSession, context: Context, file: Path) -> None:
        """Do nothing: the function would start its queries."""


def context_for(
    application: Application,
    context: Context,
    bootstrap: str | None,
    defaults: Mapping[str, str] | None = None,
) -> Context:
    """Return the context with how the application connects, see `connection_of`."""
    own, given = application.connection, context.connection
    return replace(context, connection=connection_of(own, given, defaults or {}, bootstrap))
