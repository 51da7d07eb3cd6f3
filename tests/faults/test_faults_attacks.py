"""A normal client beside attackers, in a short form: `make attack` goes on for minutes."""

from __future__ import annotations

from pathlib import Path

import attacks
import attacks_secured
import pytest

P99_S_MAX = 0.5
"""The goal is 50 ms; a machine that also runs other tests gets ten times that."""
GROWTH_BYTES_MAX = 100 << 20


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_normal_client_is_served_during_attacks(tmp_path: Path, nodes: int) -> None:
    names = [
        "unknown_names",
        "one_broker_described_often",
        "answers_never_read",
        "sessions_of_many_partitions",
        "regular_expressions",
    ]
    outcome = attacks.run(
        tmp_path, nodes=nodes, seconds=10, slot_s=2, names=names, settle_s=2, say=lambda line: None
    )
    report = outcome.report()
    assert not outcome.trouble, report
    assert outcome.p99_s < P99_S_MAX, report
    assert all(after - before < GROWTH_BYTES_MAX for before, _, after in outcome.memory), report


def test_a_normal_client_is_served_beside_attempts_that_are_refused(tmp_path: Path) -> None:
    outcome = attacks_secured.run(
        tmp_path,
        nodes=1,
        seconds=5,
        slot_s=1,
        names=list(attacks_secured.ATTACKS),
        settle_s=1,
        say=print,
    )
    report = outcome.report()
    assert not outcome.trouble, report
    assert outcome.p99_s < P99_S_MAX, report
    assert all(after - before < GROWTH_BYTES_MAX for before, _, after in outcome.memory), report
