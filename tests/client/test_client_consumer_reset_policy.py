"""Where to begin, as auto_offset_reset says."""

from __future__ import annotations

import pytest

from ottla.client.consumer.consumer import Consumer
from ottla.client.consumer.partition_state import EARLIEST, LATEST
from ottla.client.consumer.positions.reset_policy import ResetPolicy
from ottla.client.errors import BadSetting

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("setting", "target"),
    [
        ("earliest", EARLIEST),
        ("latest", LATEST),
        ("none", None),
        ("by_duration:P1D", 9 * DAY_MS),
        ("by_duration:PT12H", 10 * DAY_MS - DAY_MS // 2),
        ("by_duration:P1DT1H1M1.5S", 9 * DAY_MS - 3_661_500),
        ("by_duration:PT0S", 10 * DAY_MS),
        ("by_duration:P90000D", 0),
    ],
)
def test_a_policy_says_what_to_ask_a_leader_for(setting: str, target: int | None) -> None:
    assert ResetPolicy.of(setting).target(10 * DAY_MS) == target


@pytest.mark.parametrize("text", ["", "P", "PT", "7D", "P-1D", "P1", "PT1.5M", "P1DT", "1h"])
def test_what_is_no_duration_is_refused_when_the_consumer_is_made(text: str) -> None:
    with pytest.raises(BadSetting, match=r"ISO 8601 duration such as P7D"):
        Consumer(auto_offset_reset=f"by_duration:{text}")
