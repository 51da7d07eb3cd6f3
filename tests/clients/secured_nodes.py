"""Nodes with listeners of each secured kind and ACLs, and what clients need to reach them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from bench.brokers import HOST, free_port
from bench.cluster_nodes import NODES, Trio

from ottla.blocking import Admin
from ottla.client.admin.acls import Acl, AclOperation, AclResourceType
from ottla.client.admin.acls import AclPatternType as Pattern
from ottla.client.admin.users import ScramMechanism, ScramUpsertion
from ottla.config.authorization import STANDARD_AUTHORIZER
from sasl_broker import PLAIN_MODULE
from tls_broker import TlsFolder

HERE = Path(__file__).parent
PROTOCOLS = ("SASL_PLAINTEXT", "SSL", "SASL_SSL")
SCRAMS = tuple(mechanism.name.replace("_", "-") for mechanism in ScramMechanism)
MECHANISMS = ("PLAIN", *SCRAMS, "OAUTHBEARER")
MODULES = {
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
    **dict.fromkeys(SCRAMS, "org.apache.kafka.common.security.scram.ScramLoginModule"),
    "PLAIN": PLAIN_MODULE,
}
COUNT, TRANSACTED = 60, 5
WAIT_S = 90


class Door(NamedTuple):
    """How a client connects."""

    library: str
    protocol: str
    mechanism: str = ""

    @property
    def topic(self) -> str:
        """Also the name of the group and of the transactional id."""
        return f"mine-{self.library}-{self.protocol}-{self.mechanism}".lower()

    @property
    def transacted(self) -> int:
        """The number of transactions. @platformatic/kafka sends AddPartitionsToTxn in the version
        of brokers, for which Ottla and Kafka ask for ClusterAction."""
        return 0 if self.library == "platformatic" else TRANSACTED

    @property
    def everything(self) -> set[str]:
        """All that the client writes and reads."""
        transacted = {f"transacted-{n}" for n in range(self.transacted)}
        return {f"value-{n}" for n in range(COUNT)} | transacted


class SecuredNodes(Trio):
    """Alice, and who has the certificate of the client, may use what begins with "mine-"."""

    def __init__(self, folder: Path, count: int = len(NODES)) -> None:
        super().__init__(folder, None)
        self.count = count
        self.files = TlsFolder(folder / "tls")
        self._folder = folder
        for number in range(count + 1, len(NODES) + 1):
            del self.nodes[number]
        voters = [f"{n}@{HOST}:{node.controller_port}" for n, node in self.nodes.items()]
        users = 'user_nodes="nodes-secret" user_alice="alice-secret"'
        plain = f'{PLAIN_MODULE} required username="nodes" password="nodes-secret" {users};'
        self.ports: dict[str, list[int]] = {protocol: [] for protocol in PROTOCOLS}
        for node in self.nodes.values():
            node.voters = ",".join(voters)
            ports = {protocol: free_port() for protocol in PROTOCOLS}
            ports["SASL_PLAINTEXT"] = node.port
            for protocol in PROTOCOLS:
                self.ports[protocol].append(ports[protocol])
            listeners = [f"{protocol}://{HOST}:{port}" for protocol, port in ports.items()]
            listeners.append(f"CONTROLLER://{HOST}:{node.controller_port}")
            kinds = ",".join(f"{protocol}:{protocol}" for protocol in PROTOCOLS)
            node.options = {
                **self.files.options(),
                "listeners": ",".join(listeners),
                "listener.security.protocol.map": f"{kinds},CONTROLLER:SASL_SSL",
                "listener.name.ssl.ssl.client.auth": "required",
                "security.inter.broker.protocol": "SASL_SSL",
                "sasl.enabled.mechanisms": ",".join(MECHANISMS),
                "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "sasl.mechanism.controller.protocol": "PLAIN",
                "listener.name.controller.plain.sasl.jaas.config": plain,
                "authorizer.class.name": STANDARD_AUTHORIZER,
                "super.users": "User:nodes",
                "group.initial.rebalance.delay.ms": "0",
                **self._replication(),
            }
            for listener in ("sasl_plaintext", "sasl_ssl"):
                for mechanism, module in MODULES.items():
                    name = f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config"
                    node.options[name] = plain if mechanism == "PLAIN" else f"{module} required;"

    def _replication(self) -> dict[str, str]:
        if self.count == len(NODES):
            return {}
        internal = ("offsets.topic", "transaction.state.log")
        return {
            "default.replication.factor": "1",
            "min.insync.replicas": "1",
            "transaction.state.log.min.isr": "1",
            **{f"{name}.replication.factor": "1" for name in internal},
        }

    def __enter__(self) -> SecuredNodes:
        try:
            self.start(*self.nodes)
            self._add_users_and_acls()
        except BaseException:
            self.__exit__()
            raise
        return self

    def addresses(self, protocol: str) -> str:
        return ",".join(f"{HOST}:{port}" for port in self.ports[protocol])

    def _add_users_and_acls(self) -> None:
        may = {
            AclResourceType.TOPIC: ("CREATE", "WRITE", "READ"),
            AclResourceType.GROUP: ("READ",),
            AclResourceType.TRANSACTIONAL_ID: ("WRITE",),
        }
        acls = [
            Acl(kind, "mine-", principal, AclOperation[operation], pattern_type=Pattern.PREFIXED)
            for principal in ("User:alice", "User:CN=client")
            for kind, operations in may.items()
            for operation in operations
        ]
        with Admin(
            bootstrap_servers=self.addresses("SASL_SSL"),
            security_protocol="SASL_SSL",
            ssl_cafile=self.files.ca,
            sasl_mechanism="PLAIN",
            sasl_username="nodes",
            sasl_password="nodes-secret",
        ) as admin:
            for mechanism in ScramMechanism:
                change = ScramUpsertion("alice", "alice-secret", mechanism)
                assert admin.alter_user_scram_credentials([change]) == {"alice": None}
            assert not any(admin.create_acls(acls).values())

    def settings(self, door: Door) -> dict[str, Any]:
        """What `secured_client` takes."""
        return {
            "bootstrap": self.addresses(door.protocol),
            "protocol": door.protocol,
            "mechanism": door.mechanism,
            "user": "alice",
            "password": "alice-secret",
            "ca": self.files.ca,
            "certificate": str(self.files.client.certificate),
            "key": str(self.files.client.key),
            "topic": door.topic,
            "other": "of-others",
            "count": COUNT,
            "transacted": door.transacted,
            "replication": self.count,
        }

    def begin(self, door: Door, *, node_program: str, kafka_libs: Path) -> RunningClient:
        settings = json.dumps(self.settings(door))
        command: list[str]
        if door.library in ("kafkajs", "platformatic"):
            script = HERE / "kafkajs" / "secured_client.js"
            command = [node_program, str(script), door.library, settings]
        elif door.library == "java":
            counts = (str(COUNT), str(door.transacted), str(self.count))
            program = HERE / "java" / "SecuredClient.java"
            line = ("java", "-cp", f"{kafka_libs}/*", str(program), str(self._properties(door)))
            command = [*line, door.topic, "of-others", *counts]
        else:
            script = HERE / "secured_client.py"
            command = [sys.executable, str(script), door.library, settings]
        return RunningClient(door, command)

    def _properties(self, door: Door) -> Path:
        lines = {
            "bootstrap.servers": self.addresses(door.protocol),
            "security.protocol": door.protocol,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.files.ca,
        }
        if door.protocol == "SSL":
            lines["ssl.keystore.type"] = "PEM"
            lines["ssl.keystore.location"] = str(self.files.client_store)
        else:
            login = 'username="alice" password="alice-secret"'
            if door.mechanism == "OAUTHBEARER":
                login = 'unsecuredLoginStringClaim_sub="alice"'
            lines["sasl.mechanism"] = door.mechanism
            lines["sasl.jaas.config"] = f"{MODULES[door.mechanism]} required {login};"
        path = self._folder / f"{door.topic}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        return path


class RunningClient:
    """A client as a process."""

    def __init__(self, door: Door, command: list[str]) -> None:
        self.door = door
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def await_ready(self) -> None:
        """Return when the client has made its topic and waits."""
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise AssertionError(f"{self.door}: {self._process.communicate()}")

    def proceed(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def outcome(self) -> tuple[set[str], str]:
        """Wait for the client; return what it read, and the error of what it may not do."""
        told, errors = self._process.communicate(timeout=WAIT_S)
        assert self._process.returncode == 0, f"{self.door}: {told}{errors}"
        last = json.loads(told.splitlines()[-1])
        return set(last["read"]), last["refused"]

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()
