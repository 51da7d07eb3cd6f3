"""Reports mistakes of a program with the step they are in and the columns there.

Spark finds them when a step is added to a frame, before any query is started.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from ottla.streams.errors import BadTopology
from ottla.streams.topology.places import failing_place
from ottla.streams.topology.topology import Node


@contextmanager
def mistakes_of(node: Node, *given: DataFrame) -> Iterator[None]:
    """`given` are the frames that the step works on."""
    try:
        yield
    except AnalysisException as error:
        seen = " and ".join(map(_columns, given))
        there = f"; there are: {seen}" if seen else ""
        raise mistake(node, error, f"{_problem(error)}{there}") from None
    except BadTopology as error:
        if error.told:
            raise
        raise mistake(node, error, str(error)) from None
    except ValueError as error:
        raise mistake(node, error, str(error)) from error


def mistake(node: Node, error: BaseException, problem: str) -> BadTopology:
    """Return the error with the line of the function that failed, or else that of the step."""
    place = failing_place(error) or node.place
    told = replace(node, place=place).told
    code = f", in `{place.code}`" if place and place.code else ""
    return BadTopology(f"{problem}{code}", told=told, line=place.line if place else None)


def _problem(error: AnalysisException) -> str:
    """Return Spark's first sentences, without its names of errors and plans."""
    if (error.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
        return f"there is no column {(error.getMessageParameters() or {}).get('objectName')}"
    text = str(error).partition("SQLSTATE")[0].strip()
    return text.partition("] ")[2].rstrip(". ") or text


def _columns(data: DataFrame) -> str:
    """Return `key string, value struct<amount:double>`; hidden columns are left out."""
    fields = [field for field in data.schema if not field.name.startswith("__")]
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in fields)
