"""The one exception of this room."""

from collections.abc import Sequence

from ottla.protocol.errors import ErrorCode, KafkaError


class InvalidBatch(KafkaError):
    """A batch that must not be stored or cannot be read; `code` is what a producer is told.

    `record_errors` names the single records at fault as (index in the batch, reason), where the
    fault is theirs.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        record_errors: Sequence[tuple[int, str]] = (),
    ) -> None:
        super().__init__(code, message)
        self.record_errors = list(record_errors)
