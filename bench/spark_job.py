"""A job for Spark in the comparison of data sources, and its result."""

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
    """Options of the sink."""


@dataclass(frozen=True, slots=True)
class SparkDone:
    rows: int
    seconds: float
    cpu_s: float
    """CPU time of the driver, its JVM and all Python workers."""
    batch_ms: list[int] = field(default_factory=list)
    """The duration of each micro-batch, if the job measures them."""
