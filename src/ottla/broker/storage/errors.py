"""The errors of storage.

KafkaError
  LogDirFailure       the disk under a log failed: its whole log dir is taken offline
  OffsetOutOfRange    a read before the first or after the last offset
  CorruptLog          bytes inside the log are not what was written
  LogFailed           the log was closed, deleted or lost its disk: it cannot be used
UnexpectedOffset      batches with given offsets that do not continue the log
CorruptFile           a side file (index, snapshot, checkpoint) is damaged
StorageError          the broker cannot start on its log dirs
"""

from __future__ import annotations

from ottla.protocol.errors import ErrorCode, KafkaError


class LogDirFailure(KafkaError):
    """The disk under `directory` failed with `cause`."""

    def __init__(self, directory: str, cause: BaseException) -> None:
        super().__init__(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"data folder {directory} failed: {cause}. It is taken offline; "
            "check the disk and start the broker again to use it",
        )
        self.directory = directory
        self.cause = cause


class LogFailed(KafkaError):
    """A log was used after it was closed, deleted or failed."""

    def __init__(self, directory: str, reason: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, f"log {directory} is {reason}")


class OffsetOutOfRange(KafkaError):
    def __init__(self, offset: int, log_start_offset: int, end_offset: int) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} is outside of the log, which goes from {log_start_offset} "
            f"to {end_offset}",
        )


class CorruptLog(KafkaError):
    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(
            ErrorCode.CORRUPT_MESSAGE, f"{path} is damaged at byte {position}: {reason}"
        )


class UnexpectedOffset(ValueError):
    """The first batch would lie before the end of the log."""

    def __init__(self, first_offset: int, end_offset: int) -> None:
        super().__init__(
            f"batches from offset {first_offset} do not continue a log at {end_offset}"
        )
        self.first_offset = first_offset
        self.end_offset = end_offset


class CorruptFile(ValueError):
    """The content of `path` is damaged."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class UnsupportedFormat(CorruptFile):
    """Valid data in a format older than Ottla reads: refused, never truncated."""


class StorageError(RuntimeError):
    """The broker cannot start on these log dirs; the message says what to do."""
