"""`ottla produce`: records from stdin or a file to a topic."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from math import ceil
from typing import IO, TYPE_CHECKING, Annotated

import typer

from ottla.cli import moments
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
    from ottla.cli.record_input import LineRules, NewRecord, Parse
    from ottla.client.network.cluster import Cluster
    from ottla.client.settings.producer import Acks, CompressionType, ProducerOptions
    from ottla.client.values import RecordMetadata
    from ottla.runtime.runtime import Runtime

app = new_app()

CHUNK_BYTES = 256 << 10
POLL_S = 0.1
"""How long one look at stdin may block: Ctrl-C waits no longer than this."""

BUFFER_BYTES = 64 << 20

CODECS: tuple[CompressionType, ...] = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS: dict[str, Acks] = {"0": 0, "1": 1, "all": -1, "-1": -1}


@app.command()
def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    file: Annotated[
        str | None, typer.Option("--file", help="Read this file instead of stdin.")
    ] = None,
    form: Annotated[
        str, typer.Option("--format", "-f", help="lines, raw (all input is one record) or json.")
    ] = "lines",
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of all records.")] = None,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-K", help="What stands between key and value in a line."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header for all records."),
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Send all records there.")
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option("--timestamp", help="For all records: @MS, an ISO time, or how long ago."),
    ] = None,
    null: Annotated[
        str | None, typer.Option("--null", help="A key or value with this text is null.")
    ] = None,
    delimiter: Annotated[
        str, typer.Option("--delimiter", "-D", help="What stands between records.")
    ] = "\\n",
    compression: Annotated[
        str, typer.Option("--compression", "-z", help=", ".join(CODECS) + ".")
    ] = "none",
    acks: Annotated[
        str, typer.Option("--acks", help="Who must have it: 0 nobody, 1 the leader, all.")
    ] = "all",
    batch_bytes: Annotated[
        int, typer.Option("--batch-bytes", min=1, help="Gather this much before sending.")
    ] = 64 << 10,
    linger_ms: Annotated[
        float, typer.Option("--linger-ms", min=0, help="Wait this long for more.")
    ] = 5.0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing at the end.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    r"""Send records to a topic, one for each line of stdin.

    With `--format json` each line is an object as `ottla consume --format json` prints it: key,
    value (or key_base64, value_base64), headers, partition, timestamp; all may be left out.

    Examples:

    - `echo hello | ottla produce greetings`

    - `printf 'k1:v1\nk2:v2\n' | ottla produce orders -K :`

    - `ottla produce orders --file orders.jsonl --format json -z zstd`

    - `ottla produce images --file cat.png --format raw --key cat -H type=image/png`
    """
    from ottla.cli.output import print_json, print_note
    from ottla.cli.record_input import parser
    from ottla.cli.session import with_cluster

    if form not in ("lines", "raw", "json"):
        raise typer.BadParameter(f"{form!r} is none of lines, raw, json", param_hint="--format")
    options: ProducerOptions = {
        "acks": parse_acks(acks),
        "compression_type": parse_codec(compression),
        "batch_size": batch_bytes,
        "linger_ms": linger_ms,
        # How large a record may be is for the topic to say.
        "max_request_size": BUFFER_BYTES,
        "buffer_memory": BUFFER_BYTES,
        **patience(timeout_ms, linger_ms),
    }
    rules = _rules(key_separator, key, null, header or [], partition, timestamp)
    ends = None if form == "raw" else _parse_delimiter(delimiter)

    async def work(cluster: Cluster) -> int:
        with _source(file) as source:
            records = _records(cluster.runtime, source, ends, parser(form, rules))
            return await _send_all(cluster, topic, records, options)

    count = with_cluster(bootstrap, work, timeout_ms=timeout_ms)
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
    from ottla.cli.record_input import LineRules
    from ottla.cli.record_output import unescape

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
    from ottla.cli.record_output import unescape

    found = unescape(text)
    if not found:
        raise typer.BadParameter("the delimiter must not be empty", param_hint="--delimiter")
    return found


async def _send_all(
    cluster: Cluster, topic: str, records: AsyncIterator[NewRecord], options: ProducerOptions
) -> int:
    """How many were sent. The first that cannot be ends it."""
    from ottla.cli.record_input import BadInput
    from ottla.client.producer.producer import Producer

    tally = Tally()
    async with Producer.over(cluster, **options) as producer:
        try:
            async for record in records:
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
        except BadInput as error:
            # What came before the bad line is sent, as it would be from a slower source.
            await producer.flush()
            raise BadInput(f"{error}; {tally.count} record(s) before it were sent") from None
        await producer.flush()
    tally.raise_failure()
    return tally.count


class Tally:
    """Counts what has arrived, and remembers the first thing that has not."""

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
    """As long as the command may take, for everything that a producer waits for."""
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
    """Unbuffered, so that `select` knows of all that is there; stdin itself stays open."""
    if file is None or file == "-":
        return open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)
    return open(file, "rb", buffering=0)


async def _records(
    runtime: Runtime, source: IO[bytes], delimiter: bytes | None, parse: Parse
) -> AsyncIterator[NewRecord]:
    from ottla.cli.record_input import Splitter

    if delimiter is None:
        whole = b"".join([chunk async for chunk in _chunks(runtime, source)])
        yield parse(whole, 1)
        return
    splitter = Splitter(delimiter)
    number = 0
    async for chunk in _chunks(runtime, source):
        for piece in splitter.pieces(chunk):
            number += 1
            yield parse(piece, number)
    for piece in splitter.last():
        yield parse(piece, number + 1)


async def _chunks(runtime: Runtime, source: IO[bytes]) -> AsyncIterator[bytes]:
    """Read beside the loop in short looks, so that neither it nor Ctrl-C waits for a slow pipe."""
    from select import select

    def look() -> bytes | None:
        ready, _, _ = select([source], [], [], POLL_S)
        return source.read(CHUNK_BYTES) if ready else None

    while (chunk := await runtime.in_thread(look)) != b"":
        if chunk is not None:
            yield chunk
