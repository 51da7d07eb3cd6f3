"""How keys and values are written in a topic, and which type of Spark's they are in a frame.

All of it is expressions of Spark's, so that no record passes through Python. A form that does not
fit is told by `problem`: nothing becomes null in silence.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType


@dataclass(frozen=True, slots=True)
class Parsed:
    """Bytes of a topic, understood: `problem` is null where `value` can be trusted."""

    value: Column
    problem: Column


class Serde(ABC):
    """One form. Null is null: no key, or a tombstone."""

    @abstractmethod
    def spark_type(self) -> DataType:
        """The type of a column of such values."""

    @abstractmethod
    def parse(self, data: Column) -> Parsed:
        """From the bytes of a topic. May look at `data` more than once."""

    @abstractmethod
    def encode(self, column: Column) -> Column:
        """To the bytes of a topic."""

    @abstractmethod
    def __str__(self) -> str:
        """Short, and the same for the same form: it is compared with what a checkpoint knows."""
