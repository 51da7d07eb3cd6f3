"""The states of a transactional id, and their transitions.

    Empty --------> Ongoing ---> PrepareCommit ---> CompleteCommit
      ^   (add        |  ^          (markers written)     |
      |    partition) |  +--------------------------------+  (the next transaction begins)
      |               +--------> PrepareAbort ----> CompleteAbort
      |                                                   |
      +---------------- InitProducerId -------------------+

A producer of protocol 2 may also abort a transaction to which nothing was added: PrepareAbort then
follows Empty or a Complete state. Dead and PrepareEpochFence are Kafka's names for transient states
(an id is being removed, a producer is being fenced); they are never stored.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class TransactionState(IntEnum):
    """The numbers are those in the records of `__transaction_state`."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """The name that requests, responses and tools use."""
        return self.name.title().replace("_", "")


EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT

AT_REST: Final = frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT})
"""No transaction is open: a new one may begin, and the id may expire."""
PREPARED: Final = frozenset({PREPARE_COMMIT, PREPARE_ABORT})
"""The outcome is decided and stored; the markers are being written."""

PREVIOUS: Final = {
    EMPTY: AT_REST,
    ONGOING: AT_REST | {ONGOING},
    PREPARE_COMMIT: frozenset({ONGOING}),
    PREPARE_ABORT: AT_REST | {ONGOING},
    COMPLETE_COMMIT: frozenset({PREPARE_COMMIT}),
    COMPLETE_ABORT: frozenset({PREPARE_ABORT}),
}
"""State -> the states it may follow."""

BY_TITLE: Final = {state.title: state for state in TransactionState}
