"""Put Apache Kafka's jars into the user's cache and print the folder.

The tests read our files with Kafka's own tools and the bench measures side by side with it. Both go
on without: where neither Java nor Maven is to be had, this says so and exits with 1.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VERSION = "4.3.0"
FETCH_TIMEOUT_S = 300
POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>ottla</groupId><artifactId>kafka-peer</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
      <version>{version}</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId>
      <version>{version}</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId>
      <version>1.7.36</version></dependency>
  </dependencies>
</project>
"""


def cache_dir() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "ottla" / f"kafka-{VERSION}" / "libs"


def present(libs: Path) -> bool:
    return (libs / f"kafka_2.13-{VERSION}.jar").exists()


def find() -> Path | None:
    """The folder of jars that the environment names or that an earlier fetch left, if any."""
    named = os.environ.get("OTTLA_KAFKA_LIBS")
    if named:
        return Path(named)
    return cache_dir() if present(cache_dir()) else None


def fetch() -> Path:
    """The folder of jars, downloaded with Maven if need be; `RuntimeError` says what is missing."""
    found = find()
    if found is not None:
        return found
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise RuntimeError(f"{program} is not on the PATH")
    target = cache_dir()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        _download(Path(scratch))
        # A rename, so that a fetch cut short never looks like a whole set of jars.
        shutil.rmtree(target, ignore_errors=True)
        (Path(scratch) / "libs").rename(target)
    return target


def _download(scratch: Path) -> None:
    (scratch / "pom.xml").write_text(POM.format(version=VERSION))
    command = [
        "mvn",
        "-q",
        "-B",
        "dependency:copy-dependencies",
        f"-DoutputDirectory={scratch}/libs",
    ]
    try:
        done = subprocess.run(
            command, cwd=scratch, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"Maven did not finish within {FETCH_TIMEOUT_S} s") from None
    if done.returncode != 0 or not present(scratch / "libs"):
        raise RuntimeError(f"Maven could not fetch the jars: {done.stdout[-600:]}")


def main() -> int:
    try:
        print(fetch())
    except RuntimeError as error:
        print(f"No Apache Kafka {VERSION} here: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
