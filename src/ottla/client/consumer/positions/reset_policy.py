"""`auto_offset_reset`: where to read if there is no position, or the log does not hold it."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.client.consumer.partition_state import EARLIEST, LATEST
from ottla.client.errors import BadSetting
from ottla.durations import parse_iso_ms

_BY_DURATION = "by_duration:"


@dataclass(frozen=True, slots=True)
class ResetPolicy:
    place: int | None
    """EARLIEST, LATEST, or a duration in ms to go back from now (KIP-1106); None: no reset."""

    @classmethod
    def of(cls, setting: str) -> ResetPolicy:
        if setting.startswith(_BY_DURATION):
            return cls(_duration_ms(setting.removeprefix(_BY_DURATION)))
        return cls({"earliest": EARLIEST, "latest": LATEST}.get(setting))

    @property
    def exists(self) -> bool:
        return self.place is not None

    def target(self, now_ms: int) -> int | None:
        """Return what to ask a leader for: an end of the log, or a timestamp."""
        if self.place is None or self.place < 0:
            return self.place
        return max(0, now_ms - self.place)


def _duration_ms(text: str) -> int:
    found = parse_iso_ms(text)
    if found is None:
        raise BadSetting(
            "auto_offset_reset",
            f"{text!r} is not an ISO 8601 duration such as P7D, PT12H or P1DT30M",
        )
    return found
