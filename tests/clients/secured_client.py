"""One client library at a secured cluster, as a process: makes a topic, writes, also in
transactions, reads in a group, and tries what it may not.

    python secured_client.py LIBRARY '{"bootstrap": ..., "protocol": ..., ...}'

Prints a line before the first record is written and waits for one, and prints at the end one of
JSON: what was read, and the error of what was refused. `SecuredNodes.settings` makes the settings;
`kafkajs/secured_client.js` takes the same.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

PAUSE_S = 0.02
WAIT_S = 60.0
Settings = dict[str, Any]


def unsecured_token(user: str) -> str:
    def part(content: Settings) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")

    now = int(time.time())
    return f"{part({'alg': 'none'})}.{part({'sub': user, 'iat': now, 'exp': now + 300})}."


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def await_signal() -> None:
    say(ready=True)
    sys.stdin.readline()


def finish(read: set[bytes], refused: str) -> None:
    say(read=sorted(value.decode() for value in read), refused=refused)


def values_of(given: Settings) -> tuple[list[bytes], list[bytes]]:
    """Return what is written at first, and what in transactions."""
    kinds = (("value", given["count"]), ("transacted", given["transacted"]))
    first, second = ([f"{kind}-{n}".encode() for n in range(count)] for kind, count in kinds)
    return first, second


def paced(values: list[bytes]) -> Iterator[bytes]:
    for value in values:
        yield value
        time.sleep(PAUSE_S)


def confluent(given: Settings) -> None:
    from confluent_kafka import Consumer, KafkaException, Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    common: Settings = {
        "bootstrap.servers": given["bootstrap"],
        "security.protocol": given["protocol"],
        "ssl.ca.location": given["ca"],
        "reconnect.backoff.max.ms": 500,
    }
    if given["protocol"] == "SSL":
        common["ssl.certificate.location"] = given["certificate"]
        common["ssl.key.location"] = given["key"]
    else:
        common["sasl.mechanism"] = given["mechanism"]
        if given["mechanism"] == "OAUTHBEARER":
            common["enable.sasl.oauthbearer.unsecure.jwt"] = True
            common["sasl.oauthbearer.config"] = f"principal={given['user']}"
        else:
            common["sasl.username"], common["sasl.password"] = given["user"], given["password"]
    topic = given["topic"]
    first, transacted = values_of(given)
    wanted = {*first, *transacted}
    read: set[bytes] = set()
    admin = AdminClient(common)
    admin.create_topics([NewTopic(topic, 3, given["replication"])])[topic].result(WAIT_S)

    def write(producer: Producer, to: str, values: Iterator[bytes]) -> str:
        failures: list[Any] = []
        for value in values:
            producer.produce(to, value, on_delivery=lambda error, _: failures.append(error))
            producer.poll(0)
        assert producer.flush(WAIT_S) == 0
        return str(next((error for error in failures if error is not None), ""))

    plain = Producer(common | {"enable.idempotence": True})
    await_signal()
    assert not write(plain, topic, paced(first))
    writer = Producer(common | {"transactional.id": topic})
    writer.init_transactions(WAIT_S)
    for value in transacted:
        writer.begin_transaction()
        assert not write(writer, topic, iter([value]))
        writer.commit_transaction(WAIT_S)
    consumer = Consumer(common | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    deadline = time.monotonic() + WAIT_S
    while read != wanted and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            read.add(message.value() or b"")
    consumer.close()
    try:
        refused = write(plain, given["other"], iter([b"x"]))
    except KafkaException as error:
        refused = str(error)
    finish(read, refused)


def kafka_python(given: Settings) -> None:
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
    from kafka.admin import NewTopic
    from kafka.errors import KafkaError
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return unsecured_token(given["user"])

    common: Settings = {
        "bootstrap_servers": given["bootstrap"].split(","),
        "security_protocol": given["protocol"],
        "ssl_cafile": given["ca"],
    }
    if given["protocol"] == "SSL":
        common |= {"ssl_certfile": given["certificate"], "ssl_keyfile": given["key"]}
    else:
        common["sasl_mechanism"] = given["mechanism"]
        if given["mechanism"] == "OAUTHBEARER":
            common["sasl_oauth_token_provider"] = Tokens()
        else:
            common["sasl_plain_username"] = given["user"]
            common["sasl_plain_password"] = given["password"]
    topic = given["topic"]
    first, transacted = values_of(given)
    wanted = {*first, *transacted}
    read: set[bytes] = set()
    admin = KafkaAdminClient(**common)
    admin.create_topics([NewTopic(topic, 3, given["replication"])])
    admin.close()
    plain = KafkaProducer(**common, acks="all", enable_idempotence=True)
    await_signal()
    sent = [plain.send(topic, value) for value in paced(first)]
    for one in sent:
        one.get(WAIT_S)
    writer = KafkaProducer(**common, transactional_id=topic)
    writer.init_transactions()
    for value in transacted:
        writer.begin_transaction()
        writer.send(topic, value)
        writer.commit_transaction()
    writer.close()
    consumer = KafkaConsumer(
        topic,
        group_id=topic,
        auto_offset_reset="earliest",
        consumer_timeout_ms=int(WAIT_S * 1000),
        **common,
    )
    while read != wanted:
        read.add(next(consumer).value)
    consumer.close()
    try:
        plain.send(given["other"], b"x").get(WAIT_S)
        refused = ""
    except KafkaError as error:
        refused = repr(error)
    plain.close()
    finish(read, refused)


async def aiokafka(given: Settings) -> None:
    import aiokafka
    from aiokafka.abc import AbstractTokenProvider
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic
    from aiokafka.errors import KafkaError

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return unsecured_token(given["user"])

    common: Settings = {
        "bootstrap_servers": given["bootstrap"],
        "security_protocol": given["protocol"],
    }
    if given["protocol"].endswith("SSL"):
        common["ssl_context"] = context = ssl.create_default_context(cafile=given["ca"])
        if given["protocol"] == "SSL":
            context.load_cert_chain(given["certificate"], given["key"])
    if given["protocol"].startswith("SASL"):
        common["sasl_mechanism"] = given["mechanism"]
        if given["mechanism"] == "OAUTHBEARER":
            common["sasl_oauth_token_provider"] = Tokens()
        else:
            common["sasl_plain_username"] = given["user"]
            common["sasl_plain_password"] = given["password"]
    topic = given["topic"]
    first, transacted = values_of(given)
    wanted = {*first, *transacted}
    read: set[bytes] = set()
    admin = AIOKafkaAdminClient(**common)
    await admin.start()
    await admin.create_topics([NewTopic(topic, 3, given["replication"])])
    await admin.close()
    plain = aiokafka.AIOKafkaProducer(**common, enable_idempotence=True)
    await plain.start()
    await_signal()
    for value in first:
        await plain.send_and_wait(topic, value)
        await asyncio.sleep(PAUSE_S)
    async with aiokafka.AIOKafkaProducer(**common, transactional_id=topic) as writer:
        for value in transacted:
            async with writer.transaction():
                await writer.send_and_wait(topic, value)
    consumer = aiokafka.AIOKafkaConsumer(
        topic, group_id=topic, auto_offset_reset="earliest", **common
    )
    async with consumer:
        while read != wanted:
            record = await asyncio.wait_for(consumer.getone(), WAIT_S)
            read.add(record.value or b"")
    try:
        await plain.send_and_wait(given["other"], b"x")
        refused = ""
    except KafkaError as error:
        refused = repr(error)
    await plain.stop()
    finish(read, refused)


LIBRARIES: dict[str, Callable[[Settings], Any]] = {
    "confluent": confluent,
    "kafka-python": kafka_python,
    "aiokafka": lambda given: asyncio.run(aiokafka(given)),
}

if __name__ == "__main__":
    LIBRARIES[sys.argv[1]](json.loads(sys.argv[2]))
