"""Free TCP ports, for servers whose addresses must be known before they start."""

from __future__ import annotations

import random
import socket
from typing import Final

HOST: Final = "127.0.0.1"
PORTS: Final = range(20_000, 32_000)
"""Below the ports that systems give to outgoing connections (from 32,768 on): one of those could be
taken between this look and the server's start."""
TRIES_MAX: Final = 1_000


def free_ports(count: int) -> list[int]:
    """Return different ports that are free at this moment."""
    chance = random.SystemRandom()
    found: dict[int, None] = {}
    for _ in range(TRIES_MAX + count):
        if len(found) == count:
            return list(found)
        port = chance.choice(PORTS)
        if is_free(port):
            found[port] = None
    raise OSError(f"hardly any port from {PORTS[0]} to {PORTS[-1]} is free")


def free_port() -> int:
    return free_ports(1)[0]


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
