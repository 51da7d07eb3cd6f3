"""A module per subject, under the names that dashboards expect.

Each function yields families, and None wherever it has worked for a while. The names of Kafka's own
metrics are those that jmx_exporter makes of its MBeans by Strimzi's rules; `exporter.py` has those
of kafka_exporter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from ottla.metrics.exposition import Family

Families: TypeAlias = Iterator[Family | None]
