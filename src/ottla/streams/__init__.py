"""Streams and tables over topics, run by Spark.

Building, describing and drawing an application needs neither Spark nor a broker.
"""

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
from ottla.streams.serdes import Bytes, Double, Int, Json, Long, Serde, String, Windowed
from ottla.streams.stream import Stream
from ottla.streams.table import GlobalTable, Table, WindowedTable
from ottla.streams.windows import Hopping, JoinWindow, Session, Sliding, Tumbling

__all__ = [
    "App",
    "BadTopology",
    "Bytes",
    "Double",
    "GlobalTable",
    "GroupedStream",
    "Hopping",
    "Int",
    "JoinWindow",
    "Json",
    "Long",
    "QueryFailed",
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
    "Windowed",
    "WindowedStream",
    "WindowedTable",
]
