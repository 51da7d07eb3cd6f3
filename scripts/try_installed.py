"""Uses an installed Ottla like a user: a broker, a producer, a consumer, pipelines on Spark.

`scripts/build_wheel.py` runs it with the Python of an empty environment, in its own folder.
"""

import json
import signal
import subprocess
import sys
import sysconfig
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

RECORDS = 1000
PIPELINE = """\
name: big-payments
source:
  topic: payments
  format: json
  schema: account string, amount double
steps:
  - filter: amount >= 900
sink:
  topic: big-payments
  key: account
"""
MANAGED_PIPELINE = """\
name: taxed-payments
source:
  topic: payments
  format: json
  schema: account string, amount double
steps:
  - python: tax.py:taxed
sink:
  topic: taxed-payments
  key: account
"""
STEP = """\
def taxed(payments):
    def each(batches):
        for batch in batches:
            yield batch.assign(tax=batch.amount * 0.2)[["account", "amount", "tax"]]

    return payments.mapInPandas(each, "account string, amount double, tax double")
"""
BATCH_S_MAX = 120.0


def main() -> None:
    check_files()
    ottla = str(Path(sysconfig.get_path("scripts")) / "ottla")
    broker = subprocess.Popen(
        [ottla, "start", "--data", "data", "--listener", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        address = ready_address(broker)
        send_and_read(address)
        if "--pipeline" in sys.argv:
            run_pipeline(ottla, address)
            run_managed_pipeline(ottla, address)
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(30) in (0, 143), broker.returncode
    finally:
        broker.kill()


def check_files() -> None:
    import ottla
    from ottla.records import engine

    assert ottla.__file__ is not None
    assert Path(ottla.__file__).is_relative_to(sys.prefix), ottla.__file__
    package = files("ottla")
    for name in ("py.typed", "spark/conf/quiet.properties", "spark/conf/file.properties"):
        assert package.joinpath(name).is_file(), f"{name} is missing"
    words = "compiled" if engine.NATIVE else "in Python only (no C compiler when it was built)"
    print(f"   ottla {ottla.__version__}, record code {words}")


def ready_address(broker: subprocess.Popen[str]) -> str:
    assert broker.stdout is not None
    line = broker.stdout.readline()
    assert " ready in " in line, line
    print(f"   {line.strip()}")
    return line.partition(" s: ")[2].partition(",")[0]


def send_and_read(address: str) -> None:
    from ottla.blocking import Consumer, Producer

    with Producer(bootstrap_servers=address) as producer:
        for number in range(RECORDS):
            value = b'{"account": "a%d", "amount": %d}' % (number % 7, number)
            producer.send("payments", key=b"a%d" % (number % 7), value=value)
    seen = read_all("payments", address, RECORDS, Consumer)
    print(f"   {len(seen)} records sent and read")


def run_pipeline(ottla: str, address: str) -> None:
    from ottla.blocking import Consumer

    Path("big_payments.yaml").write_text(PIPELINE)
    options = ["--once", "--bootstrap", address, "--state-dir", "pipelines", "--master", "local[2]"]
    subprocess.run([ottla, "pipeline", "run", "big_payments.yaml", *options], check=True)
    seen = read_all("big-payments", address, RECORDS - 900, Consumer)
    print(f"   {len(seen)} records out of the pipeline")


def run_managed_pipeline(ottla: str, address: str) -> None:
    """Run a pipeline in the background, with a user's function in Spark's workers: started,
    watched, stopped and deleted by commands."""
    from ottla.blocking import Consumer

    Path("taxed_payments.yaml").write_text(MANAGED_PIPELINE)
    Path("tax.py").write_text(STEP)

    def pipeline(command: str, *arguments: str) -> Any:
        call = [ottla, "pipeline", command, *arguments, "--state-dir", "pipelines", "--json"]
        done = subprocess.run(call, stdout=subprocess.PIPE, text=True)
        assert done.returncode == 0, done.stdout
        return json.loads(done.stdout)

    options = ["--detach", "--bootstrap", address, "--master", "local[2]"]
    started = pipeline("run", "taxed_payments.yaml", *options)
    try:
        assert started["state"] == "running", started
        check_process(started["pid"])
        deadline = time.monotonic() + BATCH_S_MAX
        while (status := pipeline("status", "taxed-payments"))["rows_out"] != RECORDS:
            assert status["state"] == "running", status
            assert time.monotonic() < deadline, status
            time.sleep(1)
    finally:
        stopped = pipeline("stop", "taxed-payments")
    assert stopped["state"] == "stopped", stopped
    seen = read_all("taxed-payments", address, RECORDS, Consumer)
    assert all("tax" in json.loads(value) for value in seen)
    deleted = pipeline("delete", "taxed-payments", "--yes")
    assert deleted["groups"], deleted
    print(f"   {len(seen)} records out of a managed pipeline, process {started['pid']}")


def check_process(pid: int) -> None:
    """Check that the pipeline's process runs the Python of this environment."""
    command = Path(f"/proc/{pid}/cmdline")
    if command.exists():
        arguments = command.read_bytes().decode().split("\0")
        assert arguments[0].startswith(sys.prefix), arguments
        assert "ottla.pipelines.driver" in arguments, arguments


def read_all(topic: str, address: str, count: int, consumer_class: Any) -> list[Any]:
    seen = []
    with consumer_class(
        topic, bootstrap_servers=address, group_id=f"read-{topic}", auto_offset_reset="earliest"
    ) as consumer:
        for record in consumer:
            seen.append(record.value)
            if len(seen) == count:
                break
        more = consumer.poll(timeout_ms=500)
    assert not more, f"more than {count} records in {topic}"
    assert len(set(seen)) == count
    return seen


if __name__ == "__main__":
    main()
