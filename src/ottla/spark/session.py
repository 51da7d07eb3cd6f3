"""A Spark session that is set up for topics: quiet, in UTC, and quick to do small batches."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.spark.java import java_for_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The default asks the shell about every file of a checkpoint on a local disk.
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

# A driver whose executors are on this machine has no business on the network.
LOCAL_DEFAULTS: Mapping[str, str] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}

_CONF = Path(__file__).parent / "conf"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_LOG_CONFIGURATION = "-Dlog4j2.configurationFile="
# To tell a stop from a failure in `foreachBatch`, Spark matches the whole error message, traceback
# and all, by an expression that recurses for every character: more than the usual 1 MB allows.
_DEEP_STACKS = "-Xss8m"


class SparkMissing(Exception):
    """PySpark is not installed; says how to get it."""

    def __init__(self) -> None:
        super().__init__("PySpark is not installed. Get it by `pip install 'ottla[spark]'`")


def spark_session(
    name: str,
    *,
    master: str = "local[*]",
    options: Mapping[str, str] | None = None,
    log_file: Path | None = None,
) -> SparkSession:
    """The session of this process, made if there is none; `options` are Spark's, by its names.

    Spark's errors go to the standard error, or with its warnings to `log_file`.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkMissing from error

    # Workers run what the driver runs: another Python may have other packages, or none.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    # It prints errors that are raised as well.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in session_options(master, options or {}, log_file).items():
        builder = builder.config(key, value)
    with java_for_spark():
        return builder.getOrCreate()


def session_options(
    master: str, options: Mapping[str, str], log_file: Path | None = None
) -> dict[str, str]:
    """The defaults, what is said about logs, and `options`, which win over both."""
    merged = {**DEFAULTS, **_local_options(master), **options}
    merged[_JAVA_OPTIONS] = _java_options(options.get(_JAVA_OPTIONS, ""), log_file)
    return merged


def _local_options(master: str) -> dict[str, str]:
    """Spark's 200 parts of every shuffle, each with a store of its own where there is state, are
    for a cluster: on one machine a batch of a few records would take a minute. The number a query
    begins with is kept in its checkpoint."""
    if not master.startswith("local"):
        return {}
    return {**LOCAL_DEFAULTS, "spark.sql.shuffle.partitions": str(max(2, _cores(master)))}


def _cores(master: str) -> int:
    """Of `local`, `local[4]`, `local[*]`, `local[4, 2]` (that many failures of a task)."""
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
