"""`python -m bench [names] [--quick]`: measures Ottla side by side with Apache Kafka, and its
client beside others.

Both brokers run here in turns, on free ports of 127.0.0.1, with their defaults, the same client and
the same settings. Without Kafka's jars (see scripts/fetch_kafka.py) Ottla runs alone. `--beside`
measures a change: the Ottla of another checkout takes Kafka's place.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from bench import (
    clients,
    cluster,
    commits,
    groups,
    idempotence,
    latency,
    quotas,
    requests,
    scale,
    sign_in,
    spark,
    throughput,
    tls,
    transactions,
)
from bench.sides import Bench

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))
import fetch_kafka

TABLE_COLUMNS = 110

# Scenarios on lasting brokers come first; those on fresh brokers end them.
SCENARIOS: dict[str, Callable[[Bench], None]] = {
    "requests": requests.run,
    "latency": latency.run,
    "throughput": throughput.run,
    "idempotence": idempotence.run,
    "tls": tls.run,
    "sign-ins": sign_in.run,
    "quotas": quotas.run,
    "transactions": transactions.run,
    "commits": commits.run,
    "groups": groups.run,
    "clients": clients.run,
    "spark": spark.run,
    "memory": scale.run_memory,
    "startup": scale.run_startup,
    "partitions": scale.run_partitions,
    "connections": scale.run_connections,
    "cluster": cluster.run,
}


def main() -> int:
    options = _arguments()
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=TABLE_COLUMNS)
    libs = None if options.alone or options.beside else _libs(console)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ottla-bench-", dir=options.folder) as folder:
        bench = Bench(
            Path(folder),
            libs,
            quick=options.quick,
            say=lambda text: _say(console, text),
            beside=options.beside,
        )
        try:
            for name in options.names or SCENARIOS:
                SCENARIOS[name](bench)
        finally:
            bench.close()
    bench.results.show(console)
    facts = {
        "cores": os.cpu_count(),
        "kafka": fetch_kafka.VERSION if libs else None,
        "seconds": round(time.monotonic() - started),
        "scenarios": options.names or list(SCENARIOS),
    }
    console.print(f"Written to {bench.results.save(facts)}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        choices=[[], *SCENARIOS],
        metavar="name",
        help=f"which to run, of {', '.join(SCENARIOS)} (default: all)",
    )
    parser.add_argument("--quick", action="store_true", help="smaller loads: four or five minutes")
    parser.add_argument("--alone", action="store_true", help="measure Ottla only")
    parser.add_argument(
        "--beside",
        type=Path,
        metavar="CHECKOUT",
        help="another checkout of Ottla, where `make setup` was run, instead of Kafka",
    )
    parser.add_argument("--folder", help="where the brokers keep their data (default: temporary)")
    return parser.parse_args()


def _libs(console: Console) -> Path | None:
    try:
        return fetch_kafka.fetch()
    except RuntimeError as error:
        console.print(f"[yellow]Measuring Ottla alone; no Apache Kafka here: {error}[/]")
        return None


def _say(console: Console, text: str) -> None:
    console.print(f"[dim]{time.strftime('%H:%M:%S')} {text}[/]")


if __name__ == "__main__":
    sys.exit(main())
