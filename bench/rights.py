"""What checking a right costs a request, with few and with many ACLs.

    python bench/rights.py [SECONDS]

Each figure is the best of several runs, since disturbances only make a run slower. "Again" is the
check that a busy client causes: the same right as before, since the ACLs last changed.
"""

from __future__ import annotations

import itertools
import sys
import time
import timeit
from collections.abc import Callable
from typing import Any

from ottla.broker.metadata.delta import MetadataDelta
from ottla.broker.metadata.image import MetadataImage
from ottla.broker.server.acl_authorizer import AclAuthorizer
from ottla.broker.server.caller import Caller
from ottla.broker.server.context import RequestContext
from ottla.config.authorization import Authorization
from ottla.protocol.apis import ApiKey
from ottla.runtime.os_runtime import OsRuntime, run
from ottla.security.acls import AccessControlEntry
from ottla.security.principal import KafkaPrincipal
from ottla.security.rights import Operation, PatternType, Permission, ResourceType

COUNTS = (1, 1_000, 100_000)
PREFIX_EVERY = 10
"""One ACL in so many is for a prefix."""
RUNS = 7
TOPIC = ResourceType.TOPIC


class Services:
    def __init__(self, authorizer: AclAuthorizer | None) -> None:
        self.authorizer = authorizer


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 0.2

    async def measure(runtime: OsRuntime) -> None:
        free = context(None)
        without = best(lambda: free.may(Operation.WRITE, TOPIC, "t0"), seconds)
        print(f"{'without an authorizer':<40}{without:9.3f} us")
        for count in COUNTS:
            await measure_with(runtime, count, seconds, without)

    run(measure)


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
