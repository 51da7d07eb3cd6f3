"""The rules of a topic's configuration for the batches sent to it."""

from dataclasses import dataclass, field
from typing import Literal

from ottla.records.codec import Codec

INT64_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class ProduceRules:
    """Created when a topic's configuration changes, read for every batch.

    `compression` None keeps the producer's codec (`compression.type=producer`).
    """

    max_message_bytes: int = 1_048_588
    timestamp_type: Literal["CreateTime", "LogAppendTime"] = "CreateTime"
    timestamp_before_max_ms: int = INT64_MAX
    timestamp_after_max_ms: int = 3_600_000
    compression: Codec | None = None
    compression_level: int | None = None
    compacted: bool = False
    log_append_time: bool = field(init=False)
    reads_records: bool = field(init=False)
    """True if a rule can be checked only by opening the batch: the slow path."""

    def __post_init__(self) -> None:
        log_append_time = self.timestamp_type == "LogAppendTime"
        bounded_age = not log_append_time and self.timestamp_before_max_ms < INT64_MAX
        object.__setattr__(self, "log_append_time", log_append_time)
        object.__setattr__(self, "reads_records", self.compacted or bounded_age)
