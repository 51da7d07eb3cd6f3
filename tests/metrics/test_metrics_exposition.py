"""Pages of metrics, as Prometheus's own parsers read them."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_text

from ottla.metrics.exposition import (
    COUNTER,
    GAUGE,
    SUMMARY,
    Family,
    counter,
    gauge,
    labels,
    written,
)
from ottla.runtime.pace import at_once

FAMILIES = [
    gauge("a_gauge", "Something\nthat \\ goes up and down", 1.5),
    None,
    counter("a_counter_total", "Something that grows", 3),
    Family("of_topics", GAUGE, "By topic", [(labels(topic="x"), 1), (labels(topic="y"), 2)]),
    Family(
        "times",
        SUMMARY,
        "Times",
        suffixed=[
            ("", labels(request="Fetch", quantile=0.99), 2.5),
            ("_count", labels(request="Fetch"), 7),
            ("_sum", labels(request="Fetch"), 9.5),
        ],
    ),
]


def test_both_formats_are_read_by_prometheus_with_the_same_values() -> None:
    found = []
    for is_open, parse in ((False, parse_text), (True, parse_open)):
        page = at_once(written(FAMILIES, open_metrics=is_open)).decode()
        families = {family.name: family for family in parse(page)}
        assert families["a_counter"].type == "counter"
        assert families["times"].type == "summary"
        found.append(
            {
                (sample.name, *sorted(sample.labels.items())): sample.value
                for family in families.values()
                for sample in family.samples
            }
        )
    assert found[0] == found[1]
    assert found[0][("times", ("quantile", "0.99"), ("request", "Fetch"))] == 2.5
    assert found[0][("of_topics", ("topic", "y"))] == 2
    assert len(found[0]) == 7


@given(st.text(), st.floats())
def test_any_text_may_be_a_label_and_any_number_a_value(text: str, value: float) -> None:
    family = Family("name", COUNTER, "Help", [(labels(a=text, b="b"), value)])
    (read,) = parse_text(at_once(written([family])).decode())
    (sample,) = read.samples
    assert sample.labels == {"a": text, "b": "b"}
    assert sample.value == value or (math.isnan(value) and math.isnan(sample.value))
