"""What the demo shows of itself: lag, alerts and latency, on a terminal and elsewhere."""

from __future__ import annotations

import io
import json
import re
import time
from pathlib import Path

from rich.console import Console

from ottla.demo.figures import Figures
from ottla.demo.outcome import archived_files
from ottla.demo.screen import Screen, show_checks
from ottla.demo.verify import Check


def some_figures() -> Figures:
    figures = Figures()
    figures.sent = 1_000
    end = json.dumps({"payments": {"0": 400, "1": 300}, "@ids": {"payments": "0f"}})
    batch = {"query": "intake", "batch": 3, "rows": 200, "ms": 500, "end": end}
    figures.batch_done(batch)
    figures.batch_done({**batch, "batch": 4, "rows": 0, "ms": 9})
    alert = {"rule": "burst", "card": "card-1", "name": "Ada Adler"}
    figures.alert(alert, sent_at=time.time() - 2)
    return figures


def shown(*, terminal: bool) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100, color_system=None)
    with Screen(console, some_figures()) as screen:
        screen.show("9 s to go")
        time.sleep(0.4 if terminal else 0)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_lag_is_what_was_sent_and_not_yet_looked_at() -> None:
    figures = some_figures()
    assert figures.lag == 300
    assert (figures.queries["intake"].batch, figures.queries["intake"].ms) == (3, 500)
    assert figures.latency_s is not None
    assert 2 <= figures.latency_s < 3


def test_the_rate_is_that_of_the_last_seconds() -> None:
    figures = Figures()
    figures.sample()
    time.sleep(0.2)
    figures.sent = 100
    figures.sample()
    assert 50 < figures.per_s <= 500


def test_a_batch_that_is_done_again_after_a_kill_counts_once() -> None:
    figures = Figures()
    batch = {"query": "intake", "rows": 200, "ms": 500, "end": None}
    for number in (0, 1, 1, 2):
        figures.batch_done({**batch, "batch": number})
    assert (figures.queries["intake"].total, figures.queries["intake"].batches) == (600, 4)
    assert figures.batches_done() == 0  # the others have done none


def test_the_first_alert_is_that_of_a_payment_that_came_at_its_time() -> None:
    figures = Figures()
    alert = {"rule": "burst", "card": "card-1", "name": "Ada Adler"}
    figures.opened_at = time.time() - 3
    figures.alert(alert, sent_at=None)  # of the warm-up
    assert figures.first_alert_s is None
    figures.alert(alert, sent_at=time.time() - 2)
    figures.alert(alert, sent_at=time.time())
    assert figures.first_alert_s is not None
    assert 3 <= figures.first_alert_s < 5
    assert len(figures.notes) == 1


def test_elsewhere_a_line_tells_it() -> None:
    assert shown(terminal=False) == (
        " 9 s to go: 1,000 sent, 0/s, 300 waiting, batch 0.5 s, 1 alerts, 2.0 s each\n"
    )


def test_a_terminal_shows_queries_and_alerts() -> None:
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown(terminal=True))
    for part in ("300 not processed", "2.0 s", "intake", "0.5 s", "burst 1", "Ada Adler"):
        assert part in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_verdict_has_a_line_for_each_claim_whatever_is_in_it() -> None:
    console = Console(file=io.StringIO(), width=40)
    show_checks(console, [Check("one", True, "7"), Check("two", False, "[bold] " + "x" * 60)])
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines == ["right  one: 7", "WRONG  two: [bold] " + "x" * 60]


def test_files_of_the_archive_are_those_that_sparks_log_names(tmp_path: Path) -> None:
    log = tmp_path / "_spark_metadata"
    log.mkdir()

    def entry(name: str) -> str:
        return json.dumps({"path": f"file:///a%20b/{name}", "action": "add"})

    (log / "8").write_text(f"v1\n{entry('old')}")
    (log / "9.compact").write_text(f"v1\n{entry('old')}\n{entry('one')}")
    (log / "10").write_text(f"v1\n{entry('two')}")
    (log / ".10.crc").write_text("")
    assert archived_files(tmp_path) == ["/a b/old", "/a b/one", "/a b/two"]
