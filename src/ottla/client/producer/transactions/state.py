"""The states of a transactional producer, and every legal transition.

    state             trigger           next              what happened
    ----------------  ----------------  ----------------  ------------------------------------------
    UNINITIALIZED     INIT              INITIALIZING      init_transactions() asks the coordinator
    INITIALIZING      INIT              INITIALIZING      ... called again, after it timed out
    INITIALIZING      INITIALIZED       READY             the producer has its identity
    INITIALIZING      FOUND_PREPARED    PREPARED          ... and takes over an open transaction
    READY             BEGIN             IN_TRANSACTION    begin_transaction()
    IN_TRANSACTION    SEND              IN_TRANSACTION    records and offsets are added
    IN_TRANSACTION    COMMIT            COMMITTING        commit_transaction() sends what is left
    IN_TRANSACTION    ABORT             ABORTING          abort_transaction() drops what is left
    IN_TRANSACTION    PREPARE           PREPARED          prepare_transaction() sends what is left
    PREPARED          PREPARE           PREPARED          ... called again, after it timed out
    PREPARED          COMMIT            COMMITTING        this producer ends what it has prepared
    PREPARED          ABORT             ABORTING
    COMMITTING        COMMIT            COMMITTING        ... called again, after it timed out
    COMMITTING        ENDED             READY             the coordinator has it for good
    ABORTING          ABORT             ABORTING          ... called again, after it timed out
    ABORTING          ENDED             READY
    ABORTING          ABORTABLE         ABORTING          a failed record is being dropped anyway
    IN_TRANSACTION    ABORTABLE         ABORTABLE_ERROR   a batch was given up, a request refused
    PREPARED          ABORTABLE         ABORTABLE_ERROR   ... while what was left was sent
    COMMITTING        ABORTABLE         ABORTABLE_ERROR   ... or the coordinator refused to commit
    ABORTABLE_ERROR   ABORTABLE         ABORTABLE_ERROR   the first error is kept
    ABORTABLE_ERROR   ABORT             ABORTING          the only call that is allowed
    any               FATAL             FATAL_ERROR       fenced, not allowed, ...: only close()

`COMMITTING` and `ABORTING` persist after a call that timed out or was cancelled: it is then unknown
what the coordinator has done, so the call must be repeated until it has a response.

Nothing here does any work: `manager.py` does, and makes each step by this table.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from ottla.client.errors import (
    TransactionFailed,
    TransactionFatal,
    TransactionStateError,
)


class State(Enum):
    UNINITIALIZED = auto()
    INITIALIZING = auto()
    READY = auto()
    IN_TRANSACTION = auto()
    COMMITTING = auto()
    ABORTING = auto()
    PREPARED = auto()
    ABORTABLE_ERROR = auto()
    FATAL_ERROR = auto()


class Trigger(Enum):
    INIT = "init_transactions()"
    BEGIN = "begin_transaction()"
    SEND = "send()"
    PREPARE = "prepare_transaction()"
    COMMIT = "commit_transaction()"
    ABORT = "abort_transaction()"
    INITIALIZED = "an identity"
    FOUND_PREPARED = "an identity, and an open transaction"
    ENDED = "the end of the transaction"
    ABORTABLE = "an abortable error"
    FATAL = "a fatal error"


_S, _T = State, Trigger

TRANSITIONS: Final[dict[State, dict[Trigger, State]]] = {
    _S.UNINITIALIZED: {_T.INIT: _S.INITIALIZING},
    _S.INITIALIZING: {
        _T.INIT: _S.INITIALIZING,
        _T.INITIALIZED: _S.READY,
        _T.FOUND_PREPARED: _S.PREPARED,
    },
    _S.READY: {_T.BEGIN: _S.IN_TRANSACTION},
    _S.IN_TRANSACTION: {
        _T.SEND: _S.IN_TRANSACTION,
        _T.COMMIT: _S.COMMITTING,
        _T.ABORT: _S.ABORTING,
        _T.PREPARE: _S.PREPARED,
        _T.ABORTABLE: _S.ABORTABLE_ERROR,
    },
    _S.PREPARED: {
        _T.PREPARE: _S.PREPARED,
        _T.COMMIT: _S.COMMITTING,
        _T.ABORT: _S.ABORTING,
        _T.ABORTABLE: _S.ABORTABLE_ERROR,
    },
    _S.COMMITTING: {
        _T.COMMIT: _S.COMMITTING,
        _T.ENDED: _S.READY,
        _T.ABORTABLE: _S.ABORTABLE_ERROR,
    },
    _S.ABORTING: {
        _T.ABORT: _S.ABORTING,
        _T.ENDED: _S.READY,
        _T.ABORTABLE: _S.ABORTING,
    },
    _S.ABORTABLE_ERROR: {
        _T.ABORT: _S.ABORTING,
        _T.ABORTABLE: _S.ABORTABLE_ERROR,
    },
    _S.FATAL_ERROR: {},
}
for _steps in TRANSITIONS.values():
    _steps[Trigger.FATAL] = State.FATAL_ERROR

_AGAIN = "{} was interrupted, and whether it happened is not known: call it again"
_ADVICE: Final = {
    State.UNINITIALIZED: "call init_transactions() first",
    State.INITIALIZING: "init_transactions() has not finished: wait for it, or call it again",
    State.READY: "no transaction is open: call begin_transaction() first",
    State.IN_TRANSACTION: "a transaction is open: call commit_transaction() or abort_transaction()",
    State.COMMITTING: _AGAIN.format("commit_transaction()"),
    State.ABORTING: _AGAIN.format("abort_transaction()"),
    State.PREPARED: "the transaction is prepared: it can only be committed or aborted",
}


class TransactionMachine:
    """The state of a producer. Steps that are not in the table raise, and change nothing."""

    def __init__(self) -> None:
        self.state = State.UNINITIALIZED
        self.error: Exception | None = None
        """The error that led to the current error state."""

    def allows(self, trigger: Trigger) -> bool:
        return trigger in TRANSITIONS[self.state]

    def check(self, trigger: Trigger, call: str | None = None) -> None:
        """Raise, with advice, if this step is not legal now."""
        if trigger not in TRANSITIONS[self.state]:
            raise self.refusal(trigger, call)

    def raise_failure(self) -> None:
        """Raise the error that led to the error state, if it is in one."""
        if self.error is not None:
            raise self.error.with_traceback(None)

    def step(self, trigger: Trigger) -> None:
        self.check(trigger)
        self.state = TRANSITIONS[self.state][trigger]
        if not self.has_failed:
            self.error = None

    def fail(self, error: TransactionFailed | TransactionFatal) -> None:
        """Enter an error state. The first error of its kind is kept."""
        fatal = isinstance(error, TransactionFatal)
        before = self.state
        self.step(Trigger.FATAL if fatal else Trigger.ABORTABLE)
        if self.has_failed and self.state is not before:
            self.error = error

    def refusal(self, trigger: Trigger, call: str | None = None) -> Exception:
        """Return the error for a step that is not legal now. `call` names the application's call,
        if it differs from that of the trigger."""
        if self.error is not None:
            return self.error.with_traceback(None)
        advice = _ADVICE[self.state]
        if trigger is Trigger.INIT:
            advice = "it is called once, and has been"
        return TransactionStateError(f"{call or trigger.value} is not possible now: {advice}")

    @property
    def has_failed(self) -> bool:
        return self.state in (State.ABORTABLE_ERROR, State.FATAL_ERROR)
