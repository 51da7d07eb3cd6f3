"""Connection limits: in all, for one address, and for named addresses."""

import struct
import tracemalloc
from random import Random
from typing import Any

from scripted_connection import FakeServer, ScriptedSocket

from ottla.broker.server.caller import Caller
from ottla.broker.server.connections.limits import ConnectionLimits, total_within
from ottla.broker.server.contract import BROKERS
from ottla.broker.server.dispatch import Dispatcher
from ottla.broker.server.sign_in.sign_ins import BUFFERED_BYTES_MAX, ListenerSasl, SignIns
from ottla.config.security.sasl import SaslSettings
from ottla.security.principal import ANONYMOUS


def test_an_address_may_have_only_so_many_connections_and_gets_room_back() -> None:
    limits = ConnectionLimits(total_max=10, per_address_max=2, overrides={})
    assert limits.admit("L", "a") is None
    assert limits.admit("L", "a") is None
    assert "max.connections.per.ip" in str(limits.admit("L", "a"))
    assert limits.admit("L", "b") is None
    limits.leave("L", "a")
    assert limits.admit("L", "a") is None


def test_an_override_holds_for_its_address_only() -> None:
    limits = ConnectionLimits(10, 1, {"127.0.0.1": 2, "::1": 0})
    assert limits.admit("L", "127.0.0.1") is None
    assert limits.admit("L", "127.0.0.1") is None
    assert limits.admit("L", "127.0.0.1")
    assert limits.admit("L", "::1"), "zero connections are allowed"


def test_the_total_is_full_when_it_is_reached() -> None:
    limits = ConnectionLimits(2, 100, {})
    limits.admit("L", "a")
    assert limits.has_room("L")
    limits.admit("L", "b")
    assert not limits.has_room("L")
    limits.leave("L", "a")
    assert limits.has_room("L")


def test_connections_never_take_the_descriptors_that_the_logs_need() -> None:
    assert total_within(2**31 - 1, open_files_max=256) == 128
    assert total_within(2**31 - 1, open_files_max=1_048_576) == 1_048_576 - 65_536
    assert total_within(100, open_files_max=1_048_576) == 100


def test_clients_that_sign_in_take_little_memory_together_whatever_they_promise() -> None:
    server: Any = FakeServer()
    server.random = Random(1)
    sign_ins = SignIns(server, failure_delay_s=0.1)
    listener = ListenerSasl("SASL", SaslSettings(("PLAIN",), {}, 512 * 1024), server)

    def begin() -> ScriptedSocket:
        socket = ScriptedSocket()
        caller = Caller(ANONYMOUS, socket.peer, "SASL", security_protocol="SASL_PLAINTEXT")
        ignored: Any = lambda *_: None  # noqa: E731
        dispatcher: Any = Dispatcher(BROKERS)
        sign_ins.begin(socket, listener, caller, dispatcher, server, ignored, ignored)
        return socket

    tracemalloc.start()
    try:
        hostile = [begin() for _ in range(300)]
        for socket in hostile:
            socket.feed(struct.pack(">i", 500_000), bytes(450_000))
            socket.incoming.clear()  # the rest is not in the broker's memory
        small = begin()
        small.feed(struct.pack(">i", 12_000), bytes(10_000))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not small.closed
    assert 30 < sum(socket.closed for socket in hostile) < 300
    assert taken < 1.5 * BUFFERED_BYTES_MAX
    sign_ins.close()
    assert sign_ins.buffered_bytes == 0
