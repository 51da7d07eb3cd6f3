"""Running pipelines: polled whether they are done, and stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from ottla.pipelines.errors import PipelineError, StepFailed
from ottla.pipelines.explaining import query_error, record_in, text_with_causes

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from ottla.streams import App
    from ottla.streams.running import Running


class Work(Protocol):
    def is_done(self) -> bool:
        """Return True if all work is done; raise if something failed."""

    def stop(self) -> None: ...


RIGHTS_HINT = "; docs/security.md lists the rights that it needs"


class QueryFailed(PipelineError):
    """A query that Spark ended; `text` is its whole message."""

    def __init__(self, name: str, text: str) -> None:
        self.text = text
        told = query_error(text)
        hint = RIGHTS_HINT if "_AUTHORIZATION_FAILED: " in told else ""
        super().__init__(f"query {name!r} failed: {told}{hint}")


class Queries:
    """Started Spark queries; `explain` may find out more about an error."""

    def __init__(
        self,
        queries: Sequence[StreamingQuery],
        explain: Callable[[str], PipelineError | None] | None = None,
    ) -> None:
        self._queries = list(queries)
        self._explain = explain

    def is_done(self) -> bool:
        is_active = [query.isActive for query in self._queries]
        for query in self._queries:
            error = None if query.isActive else query.exception()
            if error is not None:
                raise self._error_of(query, text_with_causes(error)) from error
        return not any(is_active)

    def _error_of(self, query: StreamingQuery, text: str) -> PipelineError:
        found = self._explain(text) if self._explain else None
        if found is not None:
            return found
        if record := record_in(query_error(text)):
            return StepFailed("source", query_error(text), record)
        return QueryFailed(query.name or str(query.id), text)

    def stop(self) -> None:
        for query in self._queries:
            query.stop()


class RunningApp:
    """An application of `ottla.streams` that runs until it is stopped."""

    def __init__(self, running: Running) -> None:
        self._running = running

    def is_done(self) -> bool:
        return self._running.await_termination(timeout=0.0)

    def stop(self) -> None:
        self._running.stop()


class AvailableApp:
    """An application of `ottla.streams` that processes what is available. The call blocks, so it
    runs in its own thread."""

    def __init__(self, app: App, checkpoints: str) -> None:
        self._app = app
        self._checkpoints = checkpoints
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        from pyspark.sql import SparkSession

        spark = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
        try:
            self._app.run_available(spark, checkpoints=self._checkpoints)
        except BaseException as error:
            self._error = error

    def is_done(self) -> bool:
        if self._thread.is_alive():
            return False
        if self._error is not None:
            raise self._error
        return True

    def stop(self) -> None:
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.getOrCreate()
        for query in spark.streams.active:
            query.stop()
        self._thread.join()
