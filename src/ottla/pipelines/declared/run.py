"""Runs a declaration on Spark: sources, steps one after the other, and the query that writes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.pipelines.context import Context
from ottla.pipelines.declared import frames
from ottla.pipelines.declared.declaration import (
    ONLY_VIEW,
    Declaration,
    FileSink,
    Step,
    TopicSink,
    TopicSource,
)
from ottla.pipelines.errors import StepFailed
from ottla.pipelines.explaining import first_line
from ottla.pipelines.modules import load_module
from ottla.pipelines.progress import ROWS_OUT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class DeclaredPipeline:
    """Runs a declaration. Python steps import from `folders`."""

    def __init__(self, declaration: Declaration, context: Context, folders: list[Path]) -> None:
        self.declaration = declaration
        self._context = context
        self._folders = folders

    def start(self, spark: SparkSession) -> StreamingQuery:
        writer = self.written(spark)
        with _blamed("sink", "sink", self.declaration.sink.line):
            return writer.start()

    def written(self, spark: SparkSession) -> DataStreamWriter:
        """Return the whole query, ready to start; Spark has checked its columns."""
        frame, letters = self.opened(spark)
        for step in self.declaration.steps:
            frame = self.applied(spark, frame, step)
        with _blamed("sink", "sink", self.declaration.sink.line):
            return self._written(_counted(frame), letters)

    def opened(
        self, spark: SparkSession, between: Mapping[str, str] | None = None
    ) -> tuple[DataFrame, DataFrame | None]:
        """Create the views; return the frame of the last source, and the dead letters of all."""
        found: DataFrame | None = None
        letters: DataFrame | None = None
        for source in self.declaration.sources:
            label = f"source {source.view!r} (line {source.line})"
            with _blamed(label, f"sources.{source.view}", source.line):
                frame, bad = self._frame(spark, source, between)
                frame.createOrReplaceTempView(source.view)
            if found is None or isinstance(source, TopicSource):
                found = frame
            if bad is not None:
                letters = bad if letters is None else letters.unionByName(bad)
        assert found is not None, "a declaration has a source"
        return found, letters

    def _frame(
        self, spark: SparkSession, source: Any, between: Mapping[str, str] | None
    ) -> tuple[DataFrame, DataFrame | None]:
        if not isinstance(source, TopicSource):
            return frames.read_files(spark, source), None
        connection = {**self._context.connection}
        frame = frames.read_topics(spark, self._from_earliest(source), connection, between)
        good, bad = frames.parsed(frame, source)
        if bad is None or source.dead_letters is None:
            is_counted = bool(self.declaration.dead_letters) and between is None
            return (frames.counted(good, source) if is_counted else good), None
        return good, frames.to_letters(bad, self._context.topic(source.dead_letters))

    def _from_earliest(self, source: TopicSource) -> TopicSource:
        from dataclasses import replace

        return replace(source, starting=self._context.starting(source.starting))

    def applied(self, spark: SparkSession, frame: DataFrame, step: Step) -> DataFrame:
        """Return the frame after a step; it becomes the views `input` and that of its name."""
        with _blamed(step.label, step.where, step.line):
            made = self._apply(spark, frame, step)
            made.createOrReplaceTempView(ONLY_VIEW)
            if step.name:
                made.createOrReplaceTempView(step.name)
        return made

    def _apply(self, spark: SparkSession, frame: DataFrame, step: Step) -> DataFrame:
        from pyspark.sql import functions as F

        arguments = step.arguments
        match step.kind:
            case "sql":
                return spark.sql(arguments[0])
            case "filter":
                return frame.where(arguments[0])
            case "select":
                return frame.selectExpr(*arguments)
            case "with":
                pairs = zip(arguments[::2], arguments[1::2], strict=True)
                return frame.withColumns({name: F.expr(text) for name, text in pairs})
            case "drop":
                return frame.drop(*arguments)
            case "watermark":
                return frame.withWatermark(*arguments)
            case "deduplicate":
                if not frame.isStreaming:
                    return frame.dropDuplicates(list(arguments))
                return frame.dropDuplicatesWithinWatermark(list(arguments))
        return self._called(frame, step)

    def _called(self, frame: DataFrame, step: Step) -> DataFrame:
        from pyspark.sql import DataFrame as Frame

        assert step.file is not None, "a python step has a file"
        function = getattr(load_module(step.file, self._folders), step.arguments[0])
        wants_context = len(inspect.signature(function).parameters) > 1
        made = function(frame, self._context) if wants_context else function(frame)
        if not isinstance(made, Frame):
            raise TypeError(f"{step.arguments[0]} gave {type(made).__name__}, not a DataFrame")
        return made

    def _written(self, frame: DataFrame, letters: DataFrame | None) -> DataStreamWriter:
        context, sink = self._context, self.declaration.sink
        if isinstance(sink, FileSink):
            writer = frame.writeStream.format(sink.format).options(**sink.options)
            writer = writer.option("path", context.path(sink.path))
            writer = writer.partitionBy(*sink.partition_by) if sink.partition_by else writer
        else:
            records = self._with_letters(frames.to_records(frame, sink), sink, letters)
            writer = self._to_topic(records, sink, routed=letters is not None)
        writer = writer.queryName(context.name).option(
            "checkpointLocation", context.checkpoint("main")
        )
        trigger: dict[str, Any] = {**context.trigger}
        return writer.trigger(**trigger)

    def _with_letters(
        self, records: DataFrame, sink: TopicSink, letters: DataFrame | None
    ) -> DataFrame:
        """Combine results and dead letters in one frame, and so in one transaction."""
        from pyspark.sql import functions as F

        if letters is None:
            return records
        good = records.withColumn("topic", F.lit(self._context.topic(sink.topic)))
        good = good.withColumn("value", F.expr("cast(value as binary)"))
        if "key" in good.columns:
            good = good.withColumn("key", F.expr("cast(key as binary)"))
        return good.unionByName(letters, allowMissingColumns=True)

    def _to_topic(self, records: DataFrame, sink: TopicSink, *, routed: bool) -> DataStreamWriter:
        options = {**self._context.connection, **sink.options}
        if not routed:
            options["topic"] = self._context.topic(sink.topic)
        if sink.mode == "append":
            return records.writeStream.format("ottla").options(**options)
        return records.writeStream.outputMode("update").foreachBatch(_upserts(options))


def _counted(frame: DataFrame) -> DataFrame:
    """Count the rows on the way out, because Spark reports them only for few sinks."""
    from pyspark.sql import functions as F

    return frame.observe(ROWS_OUT, F.count(F.lit(1)).alias("rows"))


def _upserts(options: Mapping[str, str]) -> Any:
    """Return a function that writes updates: Spark has no other sink for them. Query id and batch
    number ensure that a batch is written once, however often Spark runs it."""

    def write(batch: DataFrame, number: int) -> None:
        context = batch.sparkSession.sparkContext
        app = context.getLocalProperty("sql.streaming.queryId")
        named = {**options, "txnAppId": str(app), "txnVersion": str(number)}
        batch.write.format("ottla").options(**named).mode("append").save()

    return write


class _blamed:
    """Turns an error of Spark or of a user's function into the failure of a step."""

    def __init__(self, step: str, where: str, line: int) -> None:
        self._step = step
        self._where = where
        self._line = line

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, Exception) and not isinstance(error, StepFailed):
            raise StepFailed(
                self._step, first_line(error), where=self._where, line=self._line
            ) from error
