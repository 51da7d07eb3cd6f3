"""`ottla produce`: sends records from stdin or a file to a topic."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from math import ceil
from typing import IO, TYPE_CHECKING, Annotated, cast

import typer

from ottla.cli import moments
from ottla.cli.connection_options import given_options
from ottla.cli.given_file import CannotRead
from ottla.cli.options import (
    BOOTSTRAP_DEFAULT,
    TIMEOUT_MS_DEFAULT,
    Bootstrap,
    Json,
    TimeoutMs,
    new_app,
    parse_pairs,
)

if TYPE_CHECKING:
    from ottla.cli.records.reading import LineRules, NewRecord, Parse
    from ottla.client.network.cluster import Cluster
    from ottla.client.settings.producer import Acks, CompressionType, ProducerOptions
    from ottla.client.values import RecordMetadata
    from ottla.runtime.runtime import Runtime

app = new_app()

CHUNK_BYTES = 256 << 10
POLL_S = 0.1
"""How long one read of stdin may block: Ctrl-C waits no longer than this."""

BUFFER_BYTES = 64 << 20

CODECS: tuple[CompressionType, ...] = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS: dict[str, Acks] = {"0": 0, "1": 1, "all": -1, "-1": -1}


File = Annotated[str | None, typer.Option("--file", help="Read this file instead of stdin.")]
Form = Annotated[
    str, typer.Option("--format", "-f", help="lines, raw (all input is one record) or json.")
]
Key = Annotated[str | None, typer.Option("--key", "-k", help="The key of all records.")]
KeySeparator = Annotated[
    str | None,
    typer.Option("--key-separator", "-K", help="What stands between key and value in a line."),
]
Headers = Annotated[
    list[str] | None,
    typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header for all records."),
]
Partition = Annotated[
    int | None, typer.Option("--partition", "-p", min=0, help="Send all records there.")
]
Timestamp = Annotated[
    str | None,
    typer.Option("--timestamp", help="For all records: @MS, an ISO time, or how long ago."),
]
Null = Annotated[str | None, typer.Option("--null", help="A key or value with this text is null.")]
Delimiter = Annotated[str, typer.Option("--delimiter", "-D", help="What stands between records.")]
Compression = Annotated[str, typer.Option("--compression", "-z", help=", ".join(CODECS) + ".")]
AcksOption = Annotated[
    str, typer.Option("--acks", help="Who must have it: 0 nobody, 1 the leader, all.")
]
BatchBytes = Annotated[
    int, typer.Option("--batch-bytes", min=1, help="Gather this much before sending.")
]
LingerMs = Annotated[float, typer.Option("--linger-ms", min=0, help="Wait this long for more.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing at the end.")]


@app.command()
def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    file: File = None,
    form: Form = "lines",
    key: Key = None,
    key_separator: KeySeparator = None,
    header: Headers = None,
    partition: Partition = None,
    timestamp: Timestamp = None,
    null: Null = None,
    delimiter: Delimiter = "\\n",
    compression: Compression = "none",
    acks: AcksOption = "all",
    batch_bytes: BatchBytes = 64 << 10,
    linger_ms: LingerMs = 5.0,
    quiet: Quiet = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    r"""Send records to a topic, one for each line of stdin.

    With `--format json` each line is an object as `ottla consume --format json` prints it: key,
    value (or key_base64, value_base64), headers, partition, timestamp; one of key and value must be
    there. Unknown fields are refused; a value that is no string is sent as it stands in the line.

    Examples:

    - `echo hello | ottla produce greetings`

    - `printf 'k1:v1\nk2:v2\n' | ottla produce orders -K :`

    - `ottla produce orders --file orders.jsonl --format json -z zstd`

    - `ottla produce images --file cat.png --format raw --key cat -H type=image/png`
    """
    from ottla.cli.records.reading import parser
    from ottla.cli.session import with_cluster

    if form not in ("lines", "raw", "json"):
        raise typer.BadParameter(f"{form!r} is none of lines, raw, json", param_hint="--format")
    options = _producer_options(acks, compression, batch_bytes, linger_ms, timeout_ms)
    rules = _rules(key_separator, key, null, header or [], partition, timestamp)
    ends = None if form == "raw" else _parse_delimiter(delimiter)

    with _source(file) as source:

        async def work(cluster: Cluster) -> int:
            records = _records(cluster.runtime, source, ends, parser(form, rules))
            return await _send_all(cluster, topic, records, options)

        count = with_cluster(bootstrap, work, timeout_ms=timeout_ms)
    _report(topic, count, quiet=quiet, as_json=as_json)


def _producer_options(
    acks: str, compression: str, batch_bytes: int, linger_ms: float, timeout_ms: int
) -> ProducerOptions:
    """Return the options of the command; settings of `-X` and its file override them."""
    from ottla.client.settings.producer import ProducerSettings

    options: ProducerOptions = {
        "acks": parse_acks(acks),
        "compression_type": parse_codec(compression),
        "batch_size": batch_bytes,
        "linger_ms": linger_ms,
        # The topic decides how large a record may be.
        "max_request_size": BUFFER_BYTES,
        "buffer_memory": BUFFER_BYTES,
        **patience(timeout_ms, linger_ms),
    }
    return options | cast("ProducerOptions", given_options(ProducerSettings))


def _report(topic: str, count: int, *, quiet: bool, as_json: bool) -> None:
    from ottla.cli.output import print_json, print_note

    if as_json:
        print_json({"topic": topic, "records": count})
    elif not quiet:
        print_note(f"{count} record(s) sent to {topic}.")


def _rules(
    key_separator: str | None,
    key: str | None,
    null: str | None,
    headers: list[str],
    partition: int | None,
    timestamp: str | None,
) -> LineRules:
    from ottla.cli.records.reading import LineRules
    from ottla.cli.records.writing import unescape

    return LineRules(
        key_separator=unescape(key_separator) if key_separator else None,
        key=key.encode() if key is not None else None,
        null=null.encode() if null is not None else None,
        headers=tuple(
            (name, value.encode())
            for text in headers
            for name, value in parse_pairs([text], "--header").items()
        ),
        partition=partition,
        timestamp_ms=(
            moments.parse_time(timestamp, moments.now_ms(), "--timestamp") if timestamp else None
        ),
    )


def _parse_delimiter(text: str) -> bytes:
    from ottla.cli.records.writing import unescape

    found = unescape(text)
    if not found:
        raise typer.BadParameter("the delimiter must not be empty", param_hint="--delimiter")
    return found


async def _send_all(
    cluster: Cluster, topic: str, records: AsyncIterator[NewRecord], options: ProducerOptions
) -> int:
    """Send all records and return how many were sent. The first failure ends it."""
    from ottla.cli.records.reading import BadInput
    from ottla.client.errors import TopicMissing
    from ottla.client.producer.producer import Producer

    tally = Tally()
    number = 0
    async with Producer.over(cluster, **options) as producer:
        try:
            async for record in records:
                number += 1
                tally.raise_failure()
                await producer.send(
                    topic,
                    record.value,
                    record.key,
                    headers=record.headers,
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                    on_delivery=tally,
                )
        except (BadInput, TopicMissing) as error:
            if isinstance(error, TopicMissing) and error.partition is None:
                raise
            # Records before the bad one are sent, as they would be from a slower source.
            await producer.flush()
            sent = f"{tally.count} record(s) before it were" if tally.count else "nothing was"
            place = "" if isinstance(error, BadInput) else f"record {number}: "
            raise BadInput(f"{place}{error}; {sent} sent") from None
        await producer.flush()
    tally.raise_failure()
    return tally.count


class Tally:
    """Counts delivered records, and keeps the first failure."""

    def __init__(self) -> None:
        self.count = 0
        self._failure: Exception | None = None

    def __call__(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        if error is None:
            self.count += 1
        elif self._failure is None:
            self._failure = error

    def raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


def patience(timeout_ms: int, linger_ms: float = 0) -> ProducerOptions:
    """Return the timeouts of a producer: it waits as long as the command may take."""
    return {
        "request_timeout_ms": timeout_ms,
        "delivery_timeout_ms": timeout_ms + ceil(linger_ms),
        "max_block_ms": timeout_ms,
    }


def parse_acks(text: str) -> Acks:
    if text not in ACKS:
        raise typer.BadParameter(f"{text!r} is none of 0, 1, all", param_hint="--acks")
    return ACKS[text]


def parse_codec(text: str) -> CompressionType:
    if text not in CODECS:
        raise typer.BadParameter(
            f"{text!r} is none of {', '.join(CODECS)}", param_hint="--compression"
        )
    return text


def _source(file: str | None) -> IO[bytes]:
    """Open the input unbuffered, so that `select` sees all of it; stdin itself stays open."""
    if file is None or file == "-":
        return open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)
    try:
        return open(file, "rb", buffering=0)
    except OSError as error:
        raise CannotRead(file, error) from error


async def _records(
    runtime: Runtime, source: IO[bytes], delimiter: bytes | None, parse: Parse
) -> AsyncIterator[NewRecord]:
    from ottla.cli.records.reading import Splitter

    if delimiter is None:
        whole = b"".join([chunk async for chunk in _chunks(runtime, source)])
        if (record := parse(whole, 1)) is not None:
            yield record
        return
    splitter = Splitter(delimiter)
    number = 0
    async for chunk in _chunks(runtime, source):
        for piece in splitter.pieces(chunk):
            number += 1
            if (record := parse(piece, number)) is not None:
                yield record
    for piece in splitter.last():
        if (record := parse(piece, number + 1)) is not None:
            yield record


async def _chunks(runtime: Runtime, source: IO[bytes]) -> AsyncIterator[bytes]:
    """Read in a thread, in short waits: neither the loop nor Ctrl-C waits for a slow pipe."""
    from select import select

    def look() -> bytes | None:
        ready, _, _ = select([source], [], [], POLL_S)
        return source.read(CHUNK_BYTES) if ready else None

    while (chunk := await runtime.in_thread(look)) != b"":
        if chunk is not None:
            yield chunk
