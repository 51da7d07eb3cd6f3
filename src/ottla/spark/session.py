"""A Spark session that is set up for topics: quiet, in UTC, and fast for small batches."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.spark.hidden import hidden_module
from ottla.spark.interrupts import orderly_interrupts
from ottla.spark.java import java_for_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# By default Spark runs a shell command for every file of a checkpoint on a local disk.
_CHECKPOINT_FILES = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

DEFAULTS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINT_FILES,
    "spark.sql.streaming.stateStore.providerClass": _STATE_STORE,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}

# A driver whose executors are on this machine needs no network access.
LOCAL_DEFAULTS: Mapping[str, str] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}

_CONF = Path(__file__).parent / "conf"
_WORKER_PYTHON = _CONF / "worker-python"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_LOG_CONFIGURATION = "-Dlog4j2.configurationFile="
# To tell a stop from a failure in `foreachBatch`, Spark matches the whole error message, including
# the traceback, with an expression that recurses for every character: the usual 1 MB is not enough,
# and 8 MB were once too few. Only what is used takes memory.
_DEEP_STACKS = "-Xss32m"


def is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:  # sys.modules has None, or something that is no module, under this name
        return False


class SparkMissing(Exception):
    """PySpark, or another package for pipelines, is missing; the message says how to get it."""

    def __init__(self, package: str = "PySpark") -> None:
        super().__init__(f"{package} is not installed. Get it by `pip install 'ottla[spark]'`")


class SparkBroken(ImportError):
    """PySpark is installed, but something it imports is missing or is something else."""

    def __init__(self, cause: ImportError) -> None:
        hidden = hidden_module()
        why = f". {hidden}." if hidden else ""
        super().__init__(f"PySpark is installed, but importing it failed: {cause}{why}")


def spark_session(
    name: str,
    *,
    master: str = "local[*]",
    options: Mapping[str, str] | None = None,
    log_file: Path | None = None,
) -> SparkSession:
    """Return the session of this process, created if there is none; `options` are Spark's.

    Spark's errors go to stderr, or with its warnings to `log_file`. Ctrl-C stops all queries and
    ends the program without a traceback, unless it handles SIGINT itself.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise (SparkBroken(error) if is_installed("pyspark") else SparkMissing()) from error

    _choose_worker_python(master)
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    # PySpark prints errors that it raises as well.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in session_options(master, options or {}, log_file).items():
        builder = builder.config(key, value)
    with orderly_interrupts() as handle_interrupts, java_for_spark():
        spark = builder.getOrCreate()
        handle_interrupts(spark)
        return spark


def _choose_worker_python(master: str) -> None:
    """Let workers run the driver's Python: another one may have other packages, or none. On this
    machine they start in a third of the time through the script beside this file."""
    os.environ.setdefault("OTTLA_WORKER_PYTHON", sys.executable)
    is_here = master.startswith("local") and not master.startswith("local-cluster")
    has_script = os.name == "posix" and os.access(_WORKER_PYTHON, os.X_OK)
    chosen = str(_WORKER_PYTHON) if is_here and has_script else sys.executable
    os.environ.setdefault("PYSPARK_PYTHON", chosen)


def session_options(
    master: str, options: Mapping[str, str], log_file: Path | None = None
) -> dict[str, str]:
    """Return the defaults, the log settings, and `options`, which override both."""
    merged = {**DEFAULTS, **_local_options(master), **options}
    merged[_JAVA_OPTIONS] = _java_options(options.get(_JAVA_OPTIONS, ""), log_file)
    return merged


def _local_options(master: str) -> dict[str, str]:
    """Return the options for one machine. Spark's 200 shuffle partitions, each with its own state
    store, are for a cluster: on one machine a batch of a few records would take a minute. A query
    keeps its first number in its checkpoint."""
    if not master.startswith("local"):
        return {}
    return {**LOCAL_DEFAULTS, "spark.sql.shuffle.partitions": str(max(2, _cores(master)))}


def _cores(master: str) -> int:
    """Return the cores of `local`, `local[4]`, `local[*]` or `local[4, 2]` (4 cores)."""
    count = master.removeprefix("local").strip("[]").partition(",")[0].strip() or "1"
    return int(count) if count.isdecimal() else os.cpu_count() or 1


def _java_options(wanted: str, log_file: Path | None) -> str:
    ours = [] if "-Xss" in wanted else [_DEEP_STACKS]
    ours += [] if _LOG_CONFIGURATION in wanted else [_log_options(log_file)]
    return " ".join([*ours, wanted]).strip()


def _log_options(log_file: Path | None) -> str:
    if log_file is None:
        return f'"{_LOG_CONFIGURATION}{_CONF / "quiet.properties"}"'
    name = f'"-Dottla.spark.log={log_file}"'
    return f'"{_LOG_CONFIGURATION}{_CONF / "file.properties"}" {name}'
