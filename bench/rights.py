"""Measures the cost of checking a right, with few and with many ACLs.

    python -m bench.rights [SECONDS]
    python -m bench.rights requests [ROUNDS]

Each figure is the best of several runs, since disturbances only make a run slower. "Again" is the
check that a busy client causes: the same right as before, since the ACLs last changed. `requests`
takes turns with two broker processes, one of them with an authorizer and an ACL for its client, and
compares their CPU time for a produce and for a fetch.
"""

from __future__ import annotations

import itertools
import shutil
import statistics
import sys
import tempfile
import time
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import wire
from bench.brokers import Broker, Ottla
from bench.requests import WINDOW, pipeline
from bench.topics import create
from ottla.blocking import Admin
from ottla.broker.metadata.delta import MetadataDelta
from ottla.broker.metadata.image import MetadataImage
from ottla.broker.server.acl_authorizer import AclAuthorizer
from ottla.broker.server.caller import Caller
from ottla.broker.server.context import RequestContext
from ottla.client.admin.acls import Acl, AclOperation, AclResourceType
from ottla.config.authorization import STANDARD_AUTHORIZER, Authorization
from ottla.protocol.apis import ApiKey
from ottla.runtime.os_runtime import OsRuntime, run
from ottla.security.acls import AccessControlEntry
from ottla.security.principal import KafkaPrincipal
from ottla.security.rights import Operation, PatternType, Permission, ResourceType

COUNTS = (1, 1_000, 100_000)
PREFIX_EVERY = 10
"""One ACL in so many is for a prefix."""
RUNS = 7
REQUESTS = 20_000
GUARDED = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    # So that the client, who has no other rights, can make the topic and the ACL.
    "allow.everyone.if.no.acl.found": "true",
}
TOPIC = ResourceType.TOPIC


class Services:
    def __init__(self, authorizer: AclAuthorizer | None) -> None:
        self.authorizer = authorizer


def main() -> None:
    if sys.argv[1:2] == ["requests"]:
        compare_requests(int(sys.argv[2]) if len(sys.argv) > 2 else 20)
        return
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 0.2

    async def measure(runtime: OsRuntime) -> None:
        free = context(None)
        without = best(lambda: free.may(Operation.WRITE, TOPIC, "t0"), seconds)
        print(f"{'without an authorizer':<40}{without:9.3f} us")
        for count in COUNTS:
            await measure_with(runtime, count, seconds, without)

    run(measure)


def compare_requests(rounds: int) -> None:
    folder = Path(tempfile.mkdtemp())
    brokers: list[Broker] = [Ottla(folder / "free"), Ottla(folder / "guarded", GUARDED)]
    try:
        for broker in brokers:
            broker.start()
            create(broker, "t0", 1)
        allow_writing_and_reading(brokers[1])
        produce = wire.produce_frame("t0", 0, wire.batch([bytes(1024)]))
        fetch = wire.fetch_frame("t0", 0, 0, max_bytes=1)
        for what, frame in ("produce of 1 KB", produce), ("fetch of 1 KB", fetch):
            turns = [turn(brokers, frame, number % 2 == 1) for number in range(rounds)]
            free, guarded = (min(one) for one in zip(*turns, strict=True))
            more = statistics.median(guarded - free for free, guarded in turns)
            print(
                f"{what}: {free:.2f} us without an authorizer, {guarded:.2f} us with one; "
                f"{more:+.2f} us in the median of {rounds} turns"
            )
    finally:
        for broker in brokers:
            broker.kill()
        shutil.rmtree(folder, ignore_errors=True)


def turn(brokers: list[Broker], frame: bytes, backwards: bool) -> list[float]:
    """Return the cost on each broker; every second turn begins with the last one."""
    taken = {broker: cpu_us(broker, frame) for broker in (brokers[::-1] if backwards else brokers)}
    return [taken[broker] for broker in brokers]


def allow_writing_and_reading(broker: Broker) -> None:
    acls = [
        Acl(AclResourceType.TOPIC, "t0", "User:ANONYMOUS", operation)
        for operation in (AclOperation.WRITE, AclOperation.READ)
    ]
    with Admin(bootstrap_servers=broker.address) as admin:
        assert set(admin.create_acls(acls).values()) == {None}


def cpu_us(broker: Broker, frame: bytes) -> float:
    """Return the CPU time of a request, which the client sends many times."""
    before = main_thread_ns(broker)
    pipeline(broker.port, frame, REQUESTS, WINDOW)
    return (main_thread_ns(broker) - before) / REQUESTS / 1000


def main_thread_ns(broker: Broker) -> int:
    """Return the CPU time of the broker's event loop, more exactly than `Broker.cpu_s`."""
    return int(Path(f"/proc/{broker.pid}/schedstat").read_text().split()[0])


async def measure_with(runtime: OsRuntime, count: int, seconds: float, without: float) -> None:
    acls = {number.to_bytes(16, "big"): acl(number) for number in range(count)}
    authorizer = AclAuthorizer(runtime, Authorization(frozenset(), allow_if_no_acl=False))
    started = time.perf_counter()
    await authorizer.load(MetadataImage(acls=acls))
    loaded_s = time.perf_counter() - started
    asking = context(authorizer)
    assert asking.may(Operation.WRITE, TOPIC, "t0")
    again = best(lambda: asking.may(Operation.WRITE, TOPIC, "t0"), seconds)
    names = map("t{}".format, itertools.count(1))
    first = best(lambda: asking.may(Operation.DESCRIBE, TOPIC, next(names), quiet=True), seconds)

    extra = MetadataImage(acls={**acls, b"extra": acl(count)})
    there, back = MetadataDelta(acls={b"extra"}), MetadataImage(acls=acls)

    def change() -> None:
        authorizer.metadata_changed(there, extra)
        authorizer.metadata_changed(there, back)

    changed = best(change, seconds) / 2
    print(f"{count:,} ACLs, loaded in {loaded_s * 1000:.0f} ms")
    show("the same right again", again, f"{again - without:+.3f} us more on a request")
    show("another right", first, "")
    show("one ACL more or less", changed, "")


def acl(number: int) -> AccessControlEntry:
    is_prefix = number % PREFIX_EVERY == PREFIX_EVERY - 1
    return AccessControlEntry(
        TOPIC,
        f"p{number}." if is_prefix else f"t{number}",
        PatternType.PREFIXED if is_prefix else PatternType.LITERAL,
        "User:ann" if number == 0 else f"User:u{number % 1000}",
        "*",
        Operation.WRITE,
        Permission.ALLOW,
    )


def context(authorizer: AclAuthorizer | None) -> RequestContext[Any]:
    caller = Caller(KafkaPrincipal("User", "ann"), ("10.0.0.7", 50_000), "CLIENTS")
    return RequestContext(ApiKey.PRODUCE, 12, "c", caller, Services(authorizer))


def best(call: Callable[[], object], seconds: float) -> float:
    """Return the microseconds of one call."""
    timer = timeit.Timer(call)
    number = 1
    while timer.timeit(number) < seconds / RUNS:
        number *= 2
    return min(timer.repeat(RUNS, number)) / number * 1e6


def show(what: str, us: float, note: str) -> None:
    print(f"  {what:<38}{us:9.3f} us  {note}".rstrip())


if __name__ == "__main__":
    main()
