"""An API that is not served is told as such in the log, and not as a fault of the client."""

from __future__ import annotations

import time

import pytest
from bench.brokers import Broker

from broker_harness import MakeBroker
from broker_wire import Wire
from ottla.protocol.messages.share_fetch import ShareFetchRequest

pytestmark = pytest.mark.ottla_only


def closed_after(wire: Wire, request: bytes) -> bool:
    wire.send_bytes(request)
    return wire.socket.recv(1) == b""


def test_the_log_names_the_api_and_the_client(fresh_broker: MakeBroker) -> None:
    broker = fresh_broker()
    wire = Wire(broker)
    port = wire.socket.getsockname()[1]
    assert closed_after(wire, wire.frame(ShareFetchRequest(), 1))
    lines = logged(broker, "not served")
    assert "ShareFetch" in lines
    assert str(port) in lines
    assert "broke the protocol" not in lines


def test_a_key_that_no_api_has_is_told_by_its_number(fresh_broker: MakeBroker) -> None:
    broker = fresh_broker()
    wire = Wire(broker)
    assert closed_after(wire, bytes.fromhex("0000000a 03e7 0000 00000007 ffff"))
    assert "unknown API 999" in logged(broker, "not served")


def test_what_is_no_frame_is_told_as_a_broken_protocol(fresh_broker: MakeBroker) -> None:
    broker = fresh_broker()
    wire = Wire(broker)
    assert closed_after(wire, b"GET / HTTP/1.1\r\n\r\n")
    assert "not served" not in logged(broker, "broke the protocol")


def logged(broker: Broker, text: str) -> str:
    """The broker's output, once it has `text`."""
    deadline = time.monotonic() + 10
    while text not in broker.output and time.monotonic() < deadline:
        time.sleep(0.02)
    assert text in broker.output
    return broker.output
