"""`ottla perf`: measures how fast a cluster takes and returns records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from ottla.cli import moments
from ottla.cli.connection_options import given_options
from ottla.cli.options import (
    BOOTSTRAP_DEFAULT,
    TIMEOUT_MS_DEFAULT,
    Bootstrap,
    Json,
    TimeoutMs,
    new_app,
)
from ottla.cli.records.produce import CODECS, parse_acks, parse_codec, patience

if TYPE_CHECKING:
    from ottla.client.network.cluster import Cluster

app = new_app("Measure throughput and latency.")

RecordCount = Annotated[int, typer.Option("--records", "-n", min=1, help="How many records.")]


@app.command()
def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    records: RecordCount = 1_000_000,
    size: Annotated[int, typer.Option("--size", "-s", min=1, help="Bytes of each value.")] = 100,
    throughput: Annotated[
        int | None, typer.Option("--throughput", min=1, help="Records a second; default: all out.")
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", min=1, help="Create the topic with so many, if missing."),
    ] = None,
    batch_bytes: Annotated[
        int, typer.Option("--batch-bytes", min=1, help="Size of a batch before compression.")
    ] = 16 << 10,
    in_flight: Annotated[
        int, typer.Option("--in-flight", min=1, max=5, help="Requests under way at a time.")
    ] = 5,
    compression: Annotated[
        str, typer.Option("--compression", "-z", help=", ".join(CODECS) + ".")
    ] = "none",
    acks: Annotated[str, typer.Option("--acks", help="0, 1 or all.")] = "all",
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Send records as fast as the broker takes them, or at a fixed rate.

    The records of a batch are built and compressed once and sent again and again, so that the
    broker is measured and not this tool. Latency runs from the moment a batch is due to its answer.

    Examples:

    - `ottla perf produce bench --partitions 6`

    - `ottla perf produce bench -n 100000 -s 1000 --throughput 5000 --json`
    """
    from ottla.cli.records.perf_load import Load, run_load
    from ottla.cli.session import with_cluster
    from ottla.client.settings.producer import ProducerOptions, ProducerSettings

    codec = parse_codec(compression)
    load = Load(topic, records, size, throughput, partitions, batch_bytes, in_flight, codec)
    options: ProducerOptions = {"acks": parse_acks(acks), "linger_ms": 0, **patience(timeout_ms)}
    options |= cast("ProducerOptions", given_options(ProducerSettings))

    async def work(cluster: Cluster) -> dict[str, Any]:
        return await run_load(cluster, load, options)

    _report(with_cluster(bootstrap, work, timeout_ms=timeout_ms), as_json)


@app.command()
def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    records: Annotated[
        int | None, typer.Option("--records", "-n", min=1, help="How many; default: to the end.")
    ] = None,
    start: Annotated[
        str, typer.Option("--from", "-o", help=f"Where to begin: {moments.HELP}.")
    ] = "earliest",
    partition: Annotated[
        list[str] | None, typer.Option("--partition", "-p", help="Which: 0,2 or 0-3; default all.")
    ] = None,
    fetch_bytes: Annotated[
        int, typer.Option("--fetch-bytes", min=1, help="Most bytes of a partition in a fetch.")
    ] = 1 << 20,
    decode: Annotated[
        bool, typer.Option("--decode", help="Check and take apart each batch, as a consumer does.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Read records as fast as the broker gives them, counting batches without opening them.

    Examples:

    - `ottla perf consume bench`

    - `ottla perf consume bench --records 100000 --decode --json`
    """
    from ottla.cli.records.perf_drain import Drain, run_drain
    from ottla.cli.session import with_cluster

    drain = Drain(
        topic,
        records,
        moments.parse_moment(start, moments.now_ms(), "--from"),
        moments.parse_partitions(partition),
        fetch_bytes,
        decode,
    )

    async def work(cluster: Cluster) -> dict[str, Any]:
        return await run_drain(cluster, drain)

    _report(with_cluster(bootstrap, work, timeout_ms=timeout_ms), as_json)


def _report(result: dict[str, Any], as_json: bool) -> None:
    from ottla.cli.output import print_json, print_table

    if as_json:
        print_json(result)
        return
    rows = [
        (name.replace("_", " "), f"{value:,.2f}" if isinstance(value, float) else f"{value:,}")
        for name, value in result.items()
        if not isinstance(value, (str, type(None)))
    ]
    print_table((result["topic"], ""), rows)
