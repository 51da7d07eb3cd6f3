"""Measures the memory of a producer that cannot send its records.

The broker is stopped (SIGSTOP) once the producer is connected; then records are passed to it until
its buffer is full. The growth of the process is the cost of `buffer_memory`.

`python -m bench.client_memory ADDRESS TOPIC PID METHOD` is the child process.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

from bench.brokers import Broker
from bench.topics import delete, new_topic

BUFFER_BYTES = 8 << 20
RECORD_BYTES = 1_000
RECORDS_MAX = 10 * BUFFER_BYTES // RECORD_BYTES
BLOCK_MS = 1_000
CHILD_TIMEOUT_S = 60.0
ROOT = Path(__file__).resolve().parent.parent


def measure(broker: Broker) -> dict[str, float]:
    found: dict[str, float] = {}
    for method in ("send", "send_arrow"):
        topic = new_topic(broker)
        try:
            done = subprocess.run(
                [
                    *(sys.executable, "-m", "bench.client_memory"),
                    *(broker.address, topic, str(broker.pid), method),
                ],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=CHILD_TIMEOUT_S,
            )
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        if done.returncode:
            raise RuntimeError(f"{method} against a silent broker failed:\n{done.stderr[-4000:]}")
        taken, grown = json.loads(done.stdout.splitlines()[-1])
        name = f"{method}, buffer_memory {BUFFER_BYTES >> 20} MiB, broker silent"
        found[f"{name}: MB of records taken"] = taken * RECORD_BYTES / 1e6
        found[f"{name}: MB grown"] = grown / 1e6
        delete(broker, topic)
    return found


def _rss_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


async def _fill(address: str, topic: str, pid: int, method: str) -> tuple[int, int]:
    """Return the records accepted before the buffer was full, and the growth of this process."""
    import pyarrow as pa

    from ottla import BufferExhausted, Producer

    producer = Producer(
        bootstrap_servers=address, buffer_memory=BUFFER_BYTES, max_block_ms=BLOCK_MS
    )
    await producer.start()
    await producer.send_and_wait(topic, b"first")
    rows = pa.record_batch({"value": pa.array([bytes(RECORD_BYTES)] * 1_000, pa.binary())})
    await (await producer.send_arrow(topic, rows))
    os.kill(pid, signal.SIGSTOP)
    before = _rss_bytes()
    taken = 0
    try:
        while taken < RECORDS_MAX:
            if method == "send":
                await producer.send(topic, bytes(RECORD_BYTES))
                taken += 1
            else:
                await producer.send_arrow(topic, rows)
                taken += rows.num_rows
    except BufferExhausted:
        pass
    return taken, _rss_bytes() - before


def main() -> int:
    address, topic, pid, method = sys.argv[1:]
    print(json.dumps(asyncio.run(_fill(address, topic, int(pid), method))), flush=True)
    os._exit(0)  # without closing: the stopped broker would not answer


if __name__ == "__main__":
    sys.exit(main())
