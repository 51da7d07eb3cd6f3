"""The format of keys and values in a topic, and their Spark type in a frame.

Everything is an expression of Spark's, so that no record passes through Python. Data that does not
fit is reported by `problem`: nothing becomes null silently.
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
    """Parsed bytes of a topic: `problem` is null if `value` is valid."""

    value: Column
    problem: Column


class Serde(ABC):
    """Serializes and deserializes keys or values of one type. Null stays null: no key, or a
    tombstone."""

    @abstractmethod
    def spark_type(self) -> DataType:
        """Return the type of a column of such values."""

    @abstractmethod
    def parse(self, data: Column) -> Parsed:
        """Parse the bytes of a topic. May use `data` more than once."""

    @abstractmethod
    def encode(self, column: Column) -> Column:
        """Return the bytes for a topic."""

    @abstractmethod
    def __str__(self) -> str:
        """Return a short text, equal for equal serdes: it is compared with a checkpoint's."""
