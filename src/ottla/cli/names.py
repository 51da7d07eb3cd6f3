"""Internal topics and groups of brokers, sinks and pipelines: hidden unless asked for."""

from __future__ import annotations

import re

from ottla.spark.sink.names import PREFIX as SINK_PREFIX

INTERNAL_PREFIXES = ("__", SINK_PREFIX)

_OF_STREAMS = re.compile(r".+-K(STREAM|TABLE)-[A-Z-]+-[0-9]{10}-(repartition|changelog)")
"""Topics between the steps of a streams application. Topics of a store that the application names
look like any other topic, and are shown."""


def is_internal(name: str) -> bool:
    """True for names that brokers, sinks and pipelines use internally."""
    return name.startswith(INTERNAL_PREFIXES) or _OF_STREAMS.fullmatch(name) is not None
