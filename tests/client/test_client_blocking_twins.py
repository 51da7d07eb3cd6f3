"""The blocking clients have the methods of the asynchronous ones, with the same parameters."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from ottla.blocking.admin import Admin
from ottla.blocking.consumer import Consumer
from ottla.blocking.producer import Producer
from ottla.blocking.sent import Sent, SentRows
from ottla.client.admin.admin import Admin as AsyncAdmin
from ottla.client.consumer.consumer import Consumer as AsyncConsumer
from ottla.client.producer.columns.sent_rows import SentRows as AsyncSentRows
from ottla.client.producer.producer import Producer as AsyncProducer
from ottla.client.producer.sent import Sent as AsyncSent

TWINS = [(AsyncAdmin, Admin), (AsyncConsumer, Consumer), (AsyncProducer, Producer)]
INTERNAL = {"over"}
"""Made over a cluster of somebody else, inside of ottla."""


def public(kind: type) -> dict[str, Any]:
    return {
        name: member
        for name, member in inspect.getmembers(kind, callable)
        if not name.startswith("_") and name not in INTERNAL
    }


def parameters(method: Any) -> list[tuple[str, object, object]]:
    """Name, kind and default of each; the runtime is for simulations, which have one thread."""
    return [
        (one.name, one.kind, one.default)
        for one in inspect.signature(method).parameters.values()
        if one.name != "runtime"
    ]


@pytest.mark.parametrize(("twin", "own"), TWINS, ids=lambda kind: kind.__module__)
def test_every_method_has_its_blocking_twin(twin: type, own: type) -> None:
    assert public(own).keys() == public(twin).keys()
    for name, method in public(twin).items():
        assert parameters(getattr(own, name)) == parameters(method), name
    assert parameters(own.__init__) == parameters(twin.__init__)


@pytest.mark.parametrize(("twin", "own"), TWINS, ids=lambda kind: kind.__module__)
def test_no_blocking_method_has_to_be_awaited(twin: type, own: type) -> None:
    for name, method in public(own).items():
        assert not inspect.iscoroutinefunction(method), name
        assert not inspect.isasyncgenfunction(method), name


@pytest.mark.parametrize(("twin", "own"), TWINS, ids=lambda kind: kind.__module__)
def test_documentation_is_shared_and_knows_no_await(twin: type, own: type) -> None:
    for name, method in public(own).items():
        if public(twin)[name].__doc__:
            assert method.__doc__, name
        assert "await " not in (method.__doc__ or ""), name


@pytest.mark.parametrize(("twin", "own"), [(AsyncSent, Sent), (AsyncSentRows, SentRows)])
def test_outcomes_can_be_asked_for_in_the_same_words(twin: type, own: type) -> None:
    inside = {"add", "observe", "on_delivery"}
    assert public(twin).keys() - inside <= public(own).keys()
