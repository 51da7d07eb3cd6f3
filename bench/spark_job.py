"""What Spark is asked to do in the comparison of data sources, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field

OURS, CONNECTOR = "ottla", "kafka"
"""The names of the two formats."""


@dataclass(frozen=True, slots=True)
class SparkJob:
    kind: str
    """A method of `spark_child.Jobs`."""
    format: str
    source: str = ""
    target: str = ""
    rows: int = 0
    size: int = 0
    options: dict[str, str] = field(default_factory=dict)
    """Of the sink."""


@dataclass(frozen=True, slots=True)
class SparkDone:
    rows: int
    seconds: float
    cpu_s: float
    """Of the driver, its JVM and all Python workers."""
    batch_ms: list[int] = field(default_factory=list)
    """How long each micro-batch took, if it is about them."""
