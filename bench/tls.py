"""Throughput over TLS and its cost for the broker, with confluent-kafka.

Both brokers have the same certificate (P-256), and the client chooses the cipher suite.
"""

from __future__ import annotations

from bench.brokers import HOST, free_port
from bench.sides import Bench
from bench.throughput import measure
from ottla.runtime.tls.authority import Authority, certificate_file

SIZE = 1000
PARTITIONS = 12


def run(bench: Bench) -> None:
    folder = bench.folder / "authority"
    keystore = Authority.open(folder).issue("broker", [HOST])
    options = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(keystore)}
    megabytes = bench.pick(100, 400)
    brokers = []
    try:
        for side in bench.sides:
            broker = side.fresh(options)
            port = free_port()
            broker.more_listeners.append(f"SSL://{HOST}:{port}")
            broker.start()
            client = {
                "bootstrap.servers": f"{HOST}:{port}",
                "security.protocol": "ssl",
                "ssl.ca.location": str(certificate_file(folder)),
            }
            brokers.append((side.name, broker, client))
        for number in range(1 + bench.pick(1, 3)):
            for name, broker, client in brokers[:: 1 if number % 2 else -1]:
                bench.say(f"tls: {name}, " + (f"round {number}" if number else "warm-up"))
                readings = measure(broker, SIZE, PARTITIONS, megabytes, client, " over TLS")
                if number:
                    bench.results.add(name, readings)
    finally:
        for _, broker, _ in brokers:
            broker.remove()
