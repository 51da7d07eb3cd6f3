"""`auto_offset_reset`: where to read without a position, or with one that the log does not hold."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ottla.client.consumer.partition_state import EARLIEST, LATEST
from ottla.client.errors import BadSetting

_BY_DURATION = "by_duration:"
_DURATION = re.compile(
    r"P(?:(?P<d>\d+)D)?(?:T(?=\d)(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d{1,9})?)S)?)?",
    re.IGNORECASE,
)
_UNIT_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000}


@dataclass(frozen=True, slots=True)
class ResetPolicy:
    place: int | None
    """EARLIEST, LATEST, or a time to go back from now in ms (KIP-1106); None: there is none."""

    @classmethod
    def of(cls, setting: str) -> ResetPolicy:
        if setting.startswith(_BY_DURATION):
            return cls(_duration_ms(setting.removeprefix(_BY_DURATION)))
        return cls({"earliest": EARLIEST, "latest": LATEST}.get(setting))

    @property
    def exists(self) -> bool:
        return self.place is not None

    def target(self, now_ms: int) -> int | None:
        """What to ask a leader for: an end of the log, or a time."""
        if self.place is None or self.place < 0:
            return self.place
        return max(0, now_ms - self.place)


def _duration_ms(text: str) -> int:
    match = _DURATION.fullmatch(text)
    parts = {unit: value for unit, value in match.groupdict().items() if value} if match else {}
    if not parts:
        raise BadSetting(
            "auto_offset_reset",
            f"{text!r} is not an ISO 8601 duration such as P7D, PT12H or P1DT30M",
        )
    return int(sum(float(value) * _UNIT_MS[unit] for unit, value in parts.items()))
