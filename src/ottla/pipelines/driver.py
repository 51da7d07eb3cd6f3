"""The process of a pipeline: `python -m ottla.pipelines.driver FOLDER LOCK_FD [PARENT_FD]`.

It holds the lock that it was given, writes its state to a file, and ends when its work is done,
when it is told to (SIGTERM), or when PARENT_FD, the end of a pipe, shows that its parent is gone.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import threading
import time
from dataclasses import replace
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.pipelines import processes
from ottla.pipelines.application import Application, context_for, load_application
from ottla.pipelines.context import AT_ONCE, Context, signs_in
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.explaining import first_line
from ottla.pipelines.folders import VersionFolder
from ottla.pipelines.logs import OUTPUT_LOG, PIPELINE_LOG, SPARK_LOG, trim
from ottla.pipelines.monitor import Monitor
from ottla.pipelines.running_work import Work
from ottla.pipelines.states import Record, State

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_S = 0.25
OLD_JVM_S = 15.0
LOG_BYTES_MAX = 5_000_000

log = logging.getLogger("ottla.pipelines")


class Driver:
    def __init__(self, folder: VersionFolder, parent: int | None) -> None:
        self._folder = folder
        self._parent = parent
        self._spec = folder.spec()
        self._stop = threading.Event()
        self._before = folder.written_record()
        pid = os.getpid()
        self._record = Record(State.STARTING, time.time(), pid, processes.identity_of(pid))
        folder.write_record(self._record)

    def run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop.set())
        log.info("starting %s version %s", self._spec.name, self._spec.version)
        spark = None
        try:
            self._outlive_the_last()
            folders = self._folders()
            application = load_application(
                self._folder.app / self._spec.entry, folders, base=folders[-1]
            )
            application.check(Path(self._spec.file))
            if signs_in(application.connection):
                # The environment's settings may include another user's password.
                self._folder.write_spec(replace(self._spec, defaults={}))
            context = context_for(
                application,
                self._context(application.trigger),
                self._spec.bootstrap,
                self._spec.defaults,
            )
            spark = self._session(application.spark_options)
            application.name_outputs(context)
            # Also before the start: what it leaves in the cluster must be known if it fails.
            self._tell_outputs(context, application)
            work = application.start(spark, context)
            self._tell_outputs(context, application)
            final = self._work(work, spark)
        except Exception as error:
            final = self._failed(error)
        finally:
            if spark is not None:
                self._end(spark)
        self._move(final[0], final[1])
        return 1 if final[0] is State.FAILED else 0

    def _outlive_the_last(self) -> None:
        """Wait for the last JVM: it ends a moment after its Python and may still run a batch."""
        pid, identity = self._before.jvm_pid, self._before.jvm_identity
        if not processes.wait_gone(pid, identity, OLD_JVM_S):
            processes.send(pid, identity, signal.SIGKILL)
            processes.wait_gone(pid, identity, OLD_JVM_S)

    def _folders(self) -> list[Path]:
        """Return where the application imports from: its copy, then the original's folder."""
        entry = self._folder.app / self._spec.entry
        return [entry.parent, Path(self._spec.file).parent]

    def _context(self, trigger: str | None) -> Context:
        spec = self._spec
        every = spec.trigger or trigger or AT_ONCE
        return Context(
            name=spec.name,
            version=spec.version,
            suffix=spec.suffix,
            checkpoints=self._folder.checkpoints(spec),
            connection={
                name: value for name, value in spec.options.items() if name.startswith("kafka.")
            },
            from_earliest=spec.from_earliest,
            trigger={"availableNow": True} if spec.once else {"processingTime": every},
        )

    def _session(self, declared: Any) -> SparkSession:
        from ottla.spark import spark_session

        named = {k: v for k, v in self._spec.options.items() if k.startswith("spark.")}
        spark = spark_session(
            f"{self._spec.name} v{self._spec.version}",
            master=self._spec.master,
            options={**declared, **named},
            log_file=self._folder.logs / SPARK_LOG,
        )
        process = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
        record = {**self._record.as_json(), "jvm_pid": process.pid}
        record["jvm_identity"] = processes.identity_of(process.pid)
        self._record = Record.from_json(record)
        self._folder.write_record(self._record)
        return spark

    def _tell_outputs(self, context: Context, application: Application) -> None:
        self._folder.write_outputs(
            {
                "topics": context.topics,
                "paths": context.paths,
                "inputs": application.inputs,
                "internal": application.internal_topics(context),
                "connection": dict(context.connection),
            }
        )

    def _work(self, work: Work, spark: SparkSession) -> tuple[State, str | None]:
        self._move(State.RUNNING)
        monitor = Monitor(spark, self._folder)
        try:
            while not (self._stop.is_set() or self._is_orphan()):
                if work.is_done():
                    return State.FINISHED, None
                monitor.look()
                trim(self._folder.logs / OUTPUT_LOG, LOG_BYTES_MAX)
                self._stop.wait(LOOK_S)
            self._move(State.STOPPING)
            work.stop()
            return State.STOPPED, None
        finally:
            _quietly(lambda: monitor.look(last=True))

    def _is_orphan(self) -> bool:
        if self._parent is None:
            return False
        return bool(select.select([self._parent], [], [], 0)[0])

    def _failed(self, error: Exception) -> tuple[State, str]:
        log.error("the pipeline failed", exc_info=error)
        if type(error).__name__ in ("Py4JNetworkError", "ConnectionRefusedError", "Py4JError"):
            return State.FAILED, f"Spark's JVM is gone ({first_line(error)}); see the log"
        told = isinstance(error, PipelineError) or type(error).__module__.startswith("ottla.")
        return State.FAILED, str(error) if told else first_line(error)

    def _end(self, spark: SparkSession) -> None:
        _quietly(spark.stop)

    def _move(self, state: State, error: str | None = None) -> None:
        self._record = self._record.moved(state, time.time(), error)
        self._folder.write_record(self._record)
        log.info("%s%s", state, f": {error}" if error else "")


def _quietly(action: Any) -> None:
    """Run an action at exit, where an error would hide the one that matters."""
    try:
        action()
    except Exception as error:
        log.warning("could not clean up while stopping: %s", error)


def _configure_logs(folder: VersionFolder) -> None:
    handler = RotatingFileHandler(folder.logs / PIPELINE_LOG, maxBytes=LOG_BYTES_MAX, backupCount=4)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    own = logging.getLogger("ottla")
    own.addHandler(handler)
    own.setLevel(logging.INFO)
    own.propagate = False


def main(arguments: list[str]) -> int:
    folder = VersionFolder(Path(arguments[0]))
    lock = processes.Lock.inherited(int(arguments[1]))
    parent = int(arguments[2]) if len(arguments) > 2 else None
    _configure_logs(folder)
    try:
        return Driver(folder, parent).run()
    finally:
        lock.release()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
