"""The errors of the sink; the messages say what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.spark.sink.decisions import Outcome, Part


class SinkError(Exception):
    """Rows could not be written or committed."""


class BadRows(SinkError, ValueError):
    """Columns or values that cannot become a record."""


class RowsMissing(SinkError):
    def __init__(self, app: str, version: int) -> None:
        super().__init__(
            f"version {version} of {app!r} had been decided when its tasks ran, so they wrote "
            "nothing, and now it is not: another run took it over, or the decisions were deleted. "
            "Run it again"
        )


class Overtaken(SinkError):
    def __init__(self, app: str, version: int) -> None:
        super().__init__(
            f"another write of {app!r} was committed while version {version} was written; nothing "
            "of this one was. Writes of one txnAppId must follow each other: run it again"
        )


class TransactionsGone(SinkError):
    """Transactions were gone before anything was decided: nothing is lost."""

    def __init__(self, app: str, version: int, gone: Sequence[Part]) -> None:
        super().__init__(
            f"{len(gone)} transaction(s) of version {version} of {app!r} are not open any more, "
            f"such as {gone[0].prepared}; nothing of the version was committed. If the job takes "
            "longer than kafka.transaction.timeout.ms, raise that (and transaction.max.timeout.ms "
            "of the brokers); else another run of the same query has taken over. Run it again"
        )


class WrittenInPart(SinkError):
    def __init__(self, outcomes: Mapping[Part, Outcome]) -> None:
        super().__init__(
            "the table was written in part, because brokers ended some of its transactions before "
            f"they were committed: {_counts(outcomes)}. Is kafka.transaction.timeout.ms long "
            "enough? With the options txnAppId and txnVersion such a write can be completed"
        )


class LostTransactions(SinkError):
    def __init__(self, app: str, version: int, outcomes: Mapping[Part, Outcome]) -> None:
        super().__init__(
            f"version {version} of {app!r} was decided, but not all of its transactions were "
            f"committed before they timed out: {_counts(outcomes)}. Set the option "
            "lostTransactions to 'rewrite' to write the rows of those tasks that are not known to "
            "be committed once more (right if a task has the same rows each time), or to 'skip' "
            "to go on without them"
        )


class DecisionUnreadable(SinkError):
    def __init__(self, app: str, version: int) -> None:
        super().__init__(
            f"version {version} of {app!r} was decided, but its decision is not in decisionsTopic "
            "any more: was the topic deleted, or is its cleanup.policy not compact? Whether all "
            "rows of the version are committed is not known. Set the option lostTransactions to "
            "'skip' to take it for done, or to 'rewrite' to write it once more"
        )


def _counts(outcomes: Mapping[Part, Outcome]) -> str:
    """Return, for example: 1 aborted, 3 committed."""
    counts = Counter(outcome.name.lower() for outcome in outcomes.values())
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
