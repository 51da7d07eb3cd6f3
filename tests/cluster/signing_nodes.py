"""Three nodes, as processes, that sign in to each other by one mechanism."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.brokers import HOST, free_port
from formatted_node import FormattedNode


class Cluster:
    def __init__(
        self, folder: Path, mechanism: str, options: Mapping[str, str], host: str = HOST
    ) -> None:
        ports = [(free_port(), free_port()) for _ in range(3)]
        common = {
            "process.roles": "broker,controller",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": (
                "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"
            ),
            "security.inter.broker.protocol": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": mechanism,
            "sasl.mechanism.inter.broker.protocol": mechanism,
            "sasl.mechanism.controller.protocol": mechanism,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:node;User:admin;User:kafka",
            "controller.quorum.voters": ",".join(
                f"{number}@{host}:{own}" for number, (_, own) in enumerate(ports, 1)
            ),
            "default.replication.factor": "3",
            "min.insync.replicas": "3",
            "broker.session.timeout.ms": "4000",
        }
        self.bootstrap = ",".join(f"{host}:{port}" for port, _ in ports)
        self.nodes = [
            FormattedNode(
                folder / f"node-{number}",
                common
                | dict(options)
                | {
                    "node.id": str(number),
                    "listeners": f"SASL_PLAINTEXT://{host}:{port},CONTROLLER://{host}:{own}",
                },
            )
            for number, (port, own) in enumerate(ports, 1)
        ]

    def await_ready(self) -> None:
        for node in self.nodes:
            node.await_ready()


@contextmanager
def running(
    folder: Path, mechanism: str, options: Mapping[str, str], host: str = HOST
) -> Iterator[Cluster]:
    cluster = Cluster(folder, mechanism, options, host)
    try:
        for node in cluster.nodes:
            node.start()
        yield cluster
        for node in cluster.nodes:
            assert "Traceback" not in node.output
            assert "eyJ" not in node.output  # no token
    finally:
        for node in cluster.nodes:
            node.remove()
