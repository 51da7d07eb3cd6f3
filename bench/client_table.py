"""The figures of the comparison of clients: rows for people, entries for machines."""

from __future__ import annotations

import statistics
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from bench.client_job import Measured

OURS = "ottla"
PEERS = ("confluent-kafka", "kafka-python", "aiokafka")
TARGET_RATIOS = {"kafka-python": 5.0, "aiokafka": 2.0}
COLUMNAR = {"fetch_arrow", "send_arrow"}
COLUMNAR_CONSUME_PER_S = 2_000_000
"""Of 100 B each, uncompressed; and no slower than confluent-kafka."""


class Row(NamedTuple):
    verb: str
    size: int
    codec: str
    client: str
    method: str


class ClientTable:
    def __init__(self) -> None:
        self._rounds: dict[Row, list[Measured]] = {}
        self.memory: dict[str, float] = {}

    def add(
        self, verb: str, size: int, codec: str, client: str, method: str, measured: Measured
    ) -> None:
        self._rounds.setdefault(Row(verb, size, codec, client, method), []).append(measured)

    def per_s(self, row: Row) -> float:
        return statistics.median(one.per_s for one in self._rounds[row])

    def cpu_us(self, row: Row) -> float:
        return statistics.median(one.cpu_us for one in self._rounds[row])

    def peak_mb(self, row: Row) -> float:
        return max(one.peak_rss_bytes for one in self._rounds[row]) / 1e6

    def ratio(self, row: Row, peer: str) -> float | None:
        """Records a second to those of the peer's best way to do the same."""
        best = [
            self.per_s(other)
            for other in self._rounds
            if other[:3] == row[:3] and other.client == peer
        ]
        return self.per_s(row) / max(best) if best else None

    def target(self, row: Row, peer: str) -> float | None:
        if row.client != OURS:
            return None
        if peer == "confluent-kafka":
            return 1.0 if row.method == "fetch_arrow" else None
        return TARGET_RATIOS[peer]

    def show(self, console: Console) -> None:
        for verb in ("produce", "consume"):
            table = Table(title=f"Clients: {verb} (medians)", title_justify="left")
            table.add_column("records", no_wrap=True)
            table.add_column("client", no_wrap=True)
            for head in ("records/s", "CPU s/million", "peak MB", *(f"/ {peer}" for peer in PEERS)):
                table.add_column(head, justify="right")
            before = None
            for row in (row for row in self._rounds if row.verb == verb):
                if before is not None and before[:3] != row[:3]:
                    table.add_section()
                table.add_row(*self._cells(row))
                before = row
            console.print(table)
        for label, value in self.memory.items():
            console.print(f"{label}: {value:,.1f}")

    def _cells(self, row: Row) -> list[str]:
        return [
            f"{row.size} B, {row.codec}",
            f"{row.client} {row.method}",
            self._rate(row),
            f"{self.cpu_us(row):.2f}",
            f"{self.peak_mb(row):.0f}",
            *(self._ratio_cell(row, peer) for peer in PEERS),
        ]

    def _rate(self, row: Row) -> str:
        rate = self.per_s(row)
        if row.method == "fetch_arrow" and (row.size, row.codec) == (100, "none"):
            return _coloured(f"{rate:,.0f}", rate >= COLUMNAR_CONSUME_PER_S)
        return f"{rate:,.0f}"

    def _ratio_cell(self, row: Row, peer: str) -> str:
        ratio, target = self.ratio(row, peer), self.target(row, peer)
        if row.client != OURS or ratio is None:
            return ""
        text = f"{ratio:.2f}"
        return text if target is None else _coloured(text, ratio >= target)

    def entries(self) -> dict[str, Any]:
        return {"rows": [self._entry(row) for row in self._rounds], "memory": self.memory}

    def _entry(self, row: Row) -> dict[str, Any]:
        ratios = {peer: self.ratio(row, peer) for peer in PEERS} if row.client == OURS else {}
        return {
            **row._asdict(),
            "records_per_s": [round(one.per_s) for one in self._rounds[row]],
            "cpu_s_per_million": [round(one.cpu_us, 3) for one in self._rounds[row]],
            "peak_rss_mb": round(self.peak_mb(row), 1),
            "ratios": {peer: round(ratio, 3) for peer, ratio in ratios.items() if ratio},
        }


def _coloured(text: str, good: bool) -> str:
    return f"[{'green' if good else 'red'}]{text}[/]"
