"""Streams and tables over topics, run by Spark.

Building, describing and drawing an application needs neither Spark nor a broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.lazy import lazily
from ottla.streams.app import App
from ottla.streams.errors import (
    BadTopology,
    QueryFailed,
    StoreMissing,
    StreamsError,
    TopicsMissing,
    TopologyChanged,
)
from ottla.streams.grouped import GroupedStream, WindowedStream
from ottla.streams.processor import STREAM_TIME, WALL_CLOCK, KeyValues, Value, Values
from ottla.streams.serdes import Bytes, Double, Int, Json, Long, Serde, String, Windowed
from ottla.streams.stream import Stream
from ottla.streams.table import GlobalTable, Table, WindowedTable
from ottla.streams.windows import Hopping, JoinWindow, Session, Sliding, Tumbling

if TYPE_CHECKING:
    from ottla.streams.lowering.columns import column as column
    from ottla.streams.operators.context import Context as Context
    from ottla.streams.operators.context import Processor as Processor
    from ottla.streams.operators.context import ProcessorRecord as ProcessorRecord
    from ottla.streams.running import Running as Running

# These need Spark's package.
__getattr__, _LAZY = lazily(
    "ottla.streams",
    {
        "ottla.streams.lowering.columns": "column",
        "ottla.streams.operators.context": "Context Processor ProcessorRecord",
        "ottla.streams.running": "Running",
    },
)

__all__ = [
    "STREAM_TIME",
    "WALL_CLOCK",
    "App",
    "BadTopology",
    "Bytes",
    "Context",
    "Double",
    "GlobalTable",
    "GroupedStream",
    "Hopping",
    "Int",
    "JoinWindow",
    "Json",
    "KeyValues",
    "Long",
    "Processor",
    "ProcessorRecord",
    "QueryFailed",
    "Running",
    "Serde",
    "Session",
    "Sliding",
    "StoreMissing",
    "Stream",
    "StreamsError",
    "String",
    "Table",
    "TopicsMissing",
    "TopologyChanged",
    "Tumbling",
    "Value",
    "Values",
    "Windowed",
    "WindowedStream",
    "WindowedTable",
    "column",
]
