"""The base class of what nodes do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

Function = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Operation:
    """Pure: how an operation is run is in lowering/."""

    kind: ClassVar[str]
    """As in Kafka Streams' names: FILTER in KSTREAM-FILTER-0000000003."""
    stateful: ClassVar[bool] = False
    """True if it needs its own query: Spark has one such operator in each."""
    starts: ClassVar[bool] = False
    """True if its records come from topics."""

    @property
    def stores(self) -> tuple[str, ...]:
        """Names under which its state can be read."""
        return ()

    def signature(self) -> str:
        """Return what must not change while a checkpoint is kept."""
        return self.kind
