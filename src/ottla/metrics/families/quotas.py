"""Rates and throttle times of clients that have quotas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.metrics.exposition import GAUGE, Family, Sample, labels
from ottla.metrics.families import Families

if TYPE_CHECKING:
    from ottla.counters import Metric

_HELP = "Kafka's metric of quotas of this name; times in ms, rates per second"


def quota_families(metrics: Iterable[Metric]) -> Families:
    found: dict[str, list[Sample]] = {}
    for metric in metrics:
        name = f"kafka_server_{metric.group}_{metric.name}".lower().replace("-", "_")
        given = {label.replace("-", "_"): value for label, value in metric.labels.items()}
        found.setdefault(name, []).append((labels(**given), metric.value))
        yield None
    for name, samples in found.items():
        yield Family(name, GAUGE, _HELP, samples)
