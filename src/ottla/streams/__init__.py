"""Streams and tables over topics, run by Spark.

Building, describing and drawing an application needs neither Spark nor a broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.lazy import lazily

if TYPE_CHECKING:
    from ottla.streams.app import App as App
    from ottla.streams.errors import BadTopology as BadTopology
    from ottla.streams.errors import QueryFailed as QueryFailed
    from ottla.streams.errors import StoreMissing as StoreMissing
    from ottla.streams.errors import StreamsError as StreamsError
    from ottla.streams.errors import TopicsMissing as TopicsMissing
    from ottla.streams.errors import TopologyChanged as TopologyChanged
    from ottla.streams.grouped import GroupedStream as GroupedStream
    from ottla.streams.grouped import WindowedStream as WindowedStream
    from ottla.streams.lowering.columns import column as column
    from ottla.streams.operators.context import Context as Context
    from ottla.streams.operators.context import Processor as Processor
    from ottla.streams.operators.context import ProcessorRecord as ProcessorRecord
    from ottla.streams.processor import STREAM_TIME as STREAM_TIME
    from ottla.streams.processor import WALL_CLOCK as WALL_CLOCK
    from ottla.streams.processor import KeyValues as KeyValues
    from ottla.streams.processor import Value as Value
    from ottla.streams.processor import Values as Values
    from ottla.streams.running import Running as Running
    from ottla.streams.serdes import Bytes as Bytes
    from ottla.streams.serdes import Double as Double
    from ottla.streams.serdes import Int as Int
    from ottla.streams.serdes import Json as Json
    from ottla.streams.serdes import Long as Long
    from ottla.streams.serdes import Serde as Serde
    from ottla.streams.serdes import String as String
    from ottla.streams.serdes import Windowed as Windowed
    from ottla.streams.stream import Stream as Stream
    from ottla.streams.table import GlobalTable as GlobalTable
    from ottla.streams.table import Table as Table
    from ottla.streams.table import WindowedTable as WindowedTable
    from ottla.streams.windows import Hopping as Hopping
    from ottla.streams.windows import JoinWindow as JoinWindow
    from ottla.streams.windows import Session as Session
    from ottla.streams.windows import Sliding as Sliding
    from ottla.streams.windows import Tumbling as Tumbling

if not TYPE_CHECKING:  # so that type checkers report names that do not exist
    __getattr__, __dir__ = lazily(__name__)
