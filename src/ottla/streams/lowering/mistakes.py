"""Mistakes in what a program wants done, told with the step they are in and the columns there are.

Spark finds them when a step is added to a frame: before any query is started.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from ottla.streams.errors import BadTopology
from ottla.streams.topology.topology import Node


@contextmanager
def mistakes_of(node: Node, *given: DataFrame) -> Iterator[None]:
    """`given` are the records that the step is done to."""
    try:
        yield
    except AnalysisException as error:
        seen = " and ".join(map(_columns, given))
        there = f"; there are: {seen}" if seen else ""
        raise BadTopology(f"{node.name}: {_problem(error)}{there}") from None
    except BadTopology as error:
        raise BadTopology(f"{node.name}: {error}") from None
    except ValueError as error:
        raise BadTopology(f"{node.name}: {error}") from error


def _problem(error: AnalysisException) -> str:
    """Spark's first sentences, without its names of errors and plans."""
    if (error.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
        return f"there is no column {(error.getMessageParameters() or {}).get('objectName')}"
    text = str(error).partition("SQLSTATE")[0].strip()
    return text.partition("] ")[2].rstrip(". ") or text


def _columns(data: DataFrame) -> str:
    """`key string, value struct<amount:double>`; hidden ones are not for the program."""
    fields = [field for field in data.schema if not field.name.startswith("__")]
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in fields)
