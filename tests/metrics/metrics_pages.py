"""Reads pages of metrics."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Callable

from prometheus_client.parser import text_string_to_metric_families

WAIT_S = 20.0
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def get(port: int, path: str = "/metrics", accept: str = "text/plain") -> tuple[int, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Accept": accept})
    try:
        with urllib.request.urlopen(request, timeout=WAIT_S) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def scrape(port: int) -> Samples:
    status, page = get(port)
    assert status == 200
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def value(found: Samples, name: str, **labels: object) -> float:
    return found[name, frozenset((label, str(text)) for label, text in labels.items())]


def eventually(
    ports: list[int], holds: Callable[[list[Samples]], bool], wait_s: float = WAIT_S
) -> list[Samples]:
    """Scrape until it holds for all pages together; return them."""
    end = time.monotonic() + wait_s
    while True:
        found = [scrape(port) for port in ports]
        if holds(found):
            return found
        assert time.monotonic() < end, "the metrics do not tell what happened"
        time.sleep(0.1)
