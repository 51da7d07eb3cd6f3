"""Requests by API: their number, their errors, and how long each phase took."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ottla.broker.server.figures.requests import FETCH, OF_CONSUMERS, OF_FOLLOWERS
from ottla.metrics.exposition import COUNTER, SUMMARY, Family, Sample, labels
from ottla.metrics.families import Families
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.broker.server.figures.latencies import Latencies
    from ottla.broker.server.figures.requests import ApiFigures, RequestFigures

_REQUESTS: Final = "kafka_network_requestmetrics_"
_QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""Those of Kafka's histograms, as Strimzi's rules name them."""
_PHASES: Final = (
    ("requestqueuetimems", "queue", "From arrival until it is handled"),
    ("localtimems", "local", "Work of the handler"),
    ("remotetimems", "remote", "Wait for other nodes, records or a flush"),
    ("responsequeuetimems", "response_queue", "Wait for the answers to earlier requests"),
    ("totaltimems", "total", "From arrival until the answer is sent"),
)


def request_families(figures: RequestFigures, now_s: float) -> Families:
    apis = list(figures.by_api.values())
    yield Family(_REQUESTS + "requests_total", COUNTER, "Requests", _numbers(apis))
    yield Family(_REQUESTS + "errors_total", COUNTER, "Responses, by error", _errors(apis))
    for name, attribute, text in _PHASES:
        found = {one.name: getattr(one, attribute) for one in apis}
        yield Family(_REQUESTS + name, SUMMARY, f"{text}, in ms", (), _summary(found, now_s))


def _numbers(apis: list[ApiFigures]) -> Iterator[Sample]:
    together: dict[int, int] = {}
    for one in apis:
        for version, number in list(one.requests.items()):
            yield labels(request=one.name, version=version), number
            if one.name in (OF_CONSUMERS, OF_FOLLOWERS):
                together[version] = together.get(version, 0) + number
    for version, number in together.items():
        yield labels(request=FETCH, version=version), number


def _errors(apis: list[ApiFigures]) -> Iterator[Sample]:
    for one in apis:
        for code, number in list(one.errors.items()):
            yield labels(request=one.name, error=ErrorCode.of(code).name), number


def _summary(found: Mapping[str, Latencies], now_s: float) -> Iterator[tuple[str, str, float]]:
    for name, latencies in found.items():
        values = latencies.quantiles_ms(_QUANTILES, now_s)
        for quantile, value in zip(_QUANTILES, values, strict=True):
            yield "", labels(request=name, quantile=quantile), value
        yield "_count", labels(request=name), latencies.count
        yield "_sum", labels(request=name), latencies.total_s * 1000
