"""What a node does: the words that all kinds have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

Function = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Operation:
    """Pure: nothing here knows how it is done. See lowering/ for that."""

    kind: ClassVar[str]
    """As in Kafka Streams' names: FILTER of KSTREAM-FILTER-0000000003."""
    stateful: ClassVar[bool] = False
    """Needs a query of its own: Spark has one such operator in each."""
    starts: ClassVar[bool] = False
    """Its records come from topics."""

    @property
    def stores(self) -> tuple[str, ...]:
        """Names under which its state can be asked for."""
        return ()

    def signature(self) -> str:
        """What must not change while a checkpoint is kept."""
        return self.kind
