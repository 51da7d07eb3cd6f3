"""The exceptions of this package."""

from collections.abc import Sequence

from ottla.protocol.errors import ErrorCode, KafkaError


class InvalidBatch(KafkaError):
    """A batch that must not be stored or cannot be read; `code` is the producer's error code.

    `record_errors` names single invalid records as (index in the batch, reason), if there are any.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        record_errors: Sequence[tuple[int, str]] = (),
    ) -> None:
        super().__init__(code, message)
        self.record_errors = list(record_errors)


class OpensTooLarge(InvalidBatch):
    """The decompressed batch exceeds the limit."""
