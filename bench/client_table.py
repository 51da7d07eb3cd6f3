"""The figures of the client comparison: a table for people, entries for machines."""

from __future__ import annotations

import statistics
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from bench.client_job import Measured

OURS = "ottla"
PEERS = ("confluent-kafka", "kafka-python", "aiokafka")
TARGETS = {"kafka-python": 5.0, "aiokafka": 2.0}
COLUMNAR_CONSUME_PER_S = 2_000_000
"""Records of 100 B each, uncompressed; and no slower than confluent-kafka."""


class Row(NamedTuple):
    verb: str
    size: int
    codec: str
    client: str
    method: str
    in_bulk: bool
    """True if a call handles many records. Ratios are to the peer's best way of the same kind."""

    @property
    def workload(self) -> str:
        return f"{self.verb} {self.size} B, {self.codec}"


class ClientTable:
    def __init__(self) -> None:
        self._rounds: dict[Row, list[Measured]] = {}
        self.memory: dict[str, float] = {}

    def add(self, row: Row, measured: Measured) -> None:
        self._rounds.setdefault(row, []).append(measured)

    def per_s(self, row: Row) -> float:
        return statistics.median(one.per_s for one in self._rounds[row])

    def cpu_us(self, row: Row) -> float:
        return statistics.median(one.cpu_us for one in self._rounds[row])

    def peak_mb(self, row: Row) -> float:
        return max(one.peak_rss_bytes for one in self._rounds[row]) / 1e6

    def ratios(self, row: Row, peer: str) -> tuple[float, float] | None:
        """Return how many times as many records per second, and per CPU time."""
        others = [one for one in self._rounds if one[:3] == row[:3] and one.client == peer]
        others = [one for one in others if one.in_bulk == row.in_bulk] or others
        if not others:
            return None
        rate, cpu = max(map(self.per_s, others)), min(map(self.cpu_us, others))
        return self.per_s(row) / rate, cpu / self.cpu_us(row)

    def show(self, console: Console) -> None:
        for workload in dict.fromkeys(row.workload for row in self._rounds):
            console.print(self._table(workload))
        console.print(
            "Ratios: records/s, and records for the same processor time. [green]green[/]: the "
            "target is met; [red]red[/]: not."
        )
        for label, value in self.memory.items():
            console.print(f"{label}: {value:,.1f}")

    def _table(self, workload: str) -> Table:
        table = Table(title=f"Clients: {workload} (medians)", title_justify="left")
        table.add_column("client", no_wrap=True)
        for head in ("records/s", "CPU s/\nmillion", "peak\nMB", *map(_head, PEERS)):
            table.add_column(head, justify="right", no_wrap=True)
        for row in self._rounds:
            if row.workload == workload:
                table.add_row(*self._cells(row))
        return table

    def _cells(self, row: Row) -> list[str]:
        return [
            f"{row.client} {row.method}",
            self._rate_cell(row),
            f"{self.cpu_us(row):.2f}",
            f"{self.peak_mb(row):.0f}",
            *(self._ratio_cell(row, peer) for peer in PEERS),
        ]

    def _rate_cell(self, row: Row) -> str:
        rate = self.per_s(row)
        if row.method == "fetch_arrow" and row[1:3] == (100, "none"):
            return _coloured(f"{rate:,.0f}", rate >= COLUMNAR_CONSUME_PER_S)
        return f"{rate:,.0f}"

    def _ratio_cell(self, row: Row, peer: str) -> str:
        ratios = self.ratios(row, peer)
        if row.client != OURS or ratios is None:
            return ""
        text = f"{ratios[0]:.1f}, {ratios[1]:.1f}"
        target = TARGETS.get(peer)
        if peer == "confluent-kafka" and row.method == "fetch_arrow":
            target = 1.0
        return text if target is None else _coloured(text, ratios[0] >= target)

    def entries(self) -> dict[str, Any]:
        return {"rows": [self._entry(row) for row in self._rounds], "memory_mb": self.memory}

    def _entry(self, row: Row) -> dict[str, Any]:
        entry = {
            **row._asdict(),
            "records_per_s": [round(one.per_s) for one in self._rounds[row]],
            "cpu_s_per_million": [round(one.cpu_us, 3) for one in self._rounds[row]],
            "peak_rss_mb": round(self.peak_mb(row), 1),
        }
        if row.client == OURS:
            found = {peer: self.ratios(row, peer) for peer in PEERS}
            entry["ratios"] = {
                peer: {"records_per_s": round(both[0], 2), "for_same_cpu": round(both[1], 2)}
                for peer, both in found.items()
                if both is not None
            }
        return entry


def _head(peer: str) -> str:
    return f"/ {peer}".replace("-", "-\n")


def _coloured(text: str, good: bool) -> str:
    return f"[{'green' if good else 'red'}]{text}[/]"
