"""What can go wrong for a client.

    ClientError
    ├── BadAddress            a bootstrap text that is not HOST:PORT
    ├── BadSetting            a setting that does not exist, or a value it cannot have
    ├── Unreachable           no connection to an address could be made
    │   └── NoBrokerReachable     ... to none of the bootstrap addresses
    ├── ConnectionLost        it was there, and went away with requests open
    ├── RequestTimedOut       the broker kept silent for too long
    ├── BadResponse           the peer sent what the protocol does not allow: perhaps not a broker
    ├── UnsupportedVersion    no version of a request that both sides know
    ├── TopicMissing          the cluster has no such topic, or no such partition
    └── DeliveryFailed        records that were given to the producer and did not arrive

An error code in a broker's answer is `ottla.protocol.errors.KafkaError`.
"""

from __future__ import annotations

from collections.abc import Sequence

Address = tuple[str, int]


def show_address(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class ClientError(Exception):
    """Anything a client reports that is not an error code of the broker."""


class BadAddress(ClientError):
    def __init__(self, text: str) -> None:
        super().__init__(f"{text!r} is not an address; write HOST:PORT, for example localhost:9092")


class BadSetting(ClientError, ValueError):
    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name = name


class Unreachable(ClientError):
    def __init__(self, address: Address, cause: str) -> None:
        super().__init__(f"cannot connect to {show_address(address)}: {cause}")
        self.address = address
        self.cause = cause


class NoBrokerReachable(Unreachable):
    def __init__(self, failures: Sequence[ClientError]) -> None:
        self.failures = list(failures)
        ClientError.__init__(self, "; ".join(str(failure) for failure in failures))


class ConnectionLost(ClientError):
    def __init__(self, address: Address, cause: str) -> None:
        super().__init__(f"lost the connection to {show_address(address)}: {cause}")
        self.address = address


class RequestTimedOut(ClientError):
    def __init__(self, address: Address, request: str, timeout_ms: int) -> None:
        super().__init__(f"{show_address(address)} did not answer {request} within {timeout_ms} ms")
        self.address = address


class BadResponse(ClientError):
    def __init__(self, address: Address, problem: str) -> None:
        super().__init__(
            f"{show_address(address)} answered with something else than Kafka's protocol: {problem}"
        )
        self.address = address


class UnsupportedVersion(ClientError):
    def __init__(self, address: Address, request: str, ours: str, theirs: str) -> None:
        super().__init__(
            f"{show_address(address)} serves {request} {theirs}, this client speaks {ours}"
        )
        self.address = address


class TopicMissing(ClientError):
    def __init__(self, topic: str, partition: int | None = None) -> None:
        if partition is None:
            super().__init__(f"there is no topic {topic!r}")
        else:
            super().__init__(f"topic {topic!r} has no partition {partition}")
        self.topic = topic
        self.partition = partition


class DeliveryFailed(ClientError):
    def __init__(self, topic: str, partition: int, cause: Exception) -> None:
        super().__init__(f"records for {topic}-{partition} were not delivered: {cause}")
        self.topic = topic
        self.partition = partition
        self.cause = cause
