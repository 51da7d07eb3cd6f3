"""Families of samples, written in Prometheus's text format or in OpenMetrics.

A family is read while it is written, step by step: a node has some hundred thousand samples if it
has some thousand partitions, and none of them is kept.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable
from typing import Final, NamedTuple

GAUGE: Final = "gauge"
COUNTER: Final = "counter"
SUMMARY: Final = "summary"
TEXT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

Labels = str
"""Labels as they are written, from `labels`; empty if there are none."""
Sample = tuple[Labels, float]


class Family(NamedTuple):
    """Samples of the same name."""

    name: str
    """A counter's ends with `_total`."""
    kind: str
    help: str
    samples: Iterable[Sample] = ()
    suffixed: Iterable[tuple[str, Labels, float]] = ()
    """Samples with a suffix to the name, as a summary has: quantiles without one, `_count` and
    `_sum`, together for each combination of the other labels."""


def labels(**values: object) -> Labels:
    return ",".join(f'{name}="{_escaped(str(value))}"' for name, value in values.items())


def gauge(name: str, text: str, value: float) -> Family:
    """Return a family of one sample without labels."""
    return Family(name, GAUGE, text, (("", value),))


def counter(name: str, text: str, value: float) -> Family:
    return Family(name, COUNTER, text, (("", value),))


def written(
    families: Iterable[Family | None], *, open_metrics: bool = False
) -> Generator[None, None, bytes]:
    """Write the families, a sample each step; return the whole page."""
    parts: list[str] = []
    for family in families:
        if family is None:
            yield
            continue
        parts.append(_head(family, open_metrics))
        name = family.name
        for text, value in family.samples:
            shown = _number(value)
            parts.append(f"{name}{{{text}}} {shown}\n" if text else f"{name} {shown}\n")
            yield
        for suffix, text, value in family.suffixed:
            parts.append(f"{name}{suffix}{{{text}}} {_number(value)}\n")
            yield
        yield
    if open_metrics:
        parts.append("# EOF\n")
    return "".join(parts).encode()


def _head(family: Family, open_metrics: bool) -> str:
    name = family.name
    if open_metrics and family.kind == COUNTER:
        name = name.removesuffix("_total")
    text = family.help.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {name} {text}\n# TYPE {name} {family.kind}\n"


def _number(value: float) -> str:
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "+Inf" if value > 0 else "-Inf"
    return repr(value)


def _escaped(text: str) -> str:
    if "\\" in text or '"' in text or "\n" in text:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text
