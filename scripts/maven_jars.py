"""Jars from Maven Central in the user's cache: fetched once, found again by whoever needs them.

Tests and bench use them and go on without: where neither Java nor Maven is to be had, `fetch` says
what is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

FETCH_TIMEOUT_S = 300
POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>ottla</groupId><artifactId>peer</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
DEPENDENCY = (
    "    <dependency><groupId>{}</groupId><artifactId>{}</artifactId>"
    "<version>{}</version>{exclusions}</dependency>"
)
ALONE = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)


@dataclass(frozen=True)
class JarSet:
    """What to fetch, and where it is kept."""

    title: str
    folder: str
    """Below the cache of this project."""
    variable: str
    """The environment variable that names a folder of jars to use instead."""
    wanted: tuple[str, ...]
    """`group:artifact:version`; the first is the one whose presence stands for all."""
    alone: bool = False
    """Whether to leave out what these depend on."""

    @property
    def cache(self) -> Path:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(base) / "ottla" / self.folder

    def find(self) -> Path | None:
        """The folder that the environment names or that an earlier fetch left, if any."""
        named = os.environ.get(self.variable)
        if named:
            return Path(named)
        return self.cache if self._is_whole(self.cache) else None

    def fetch(self) -> Path:
        """The folder of jars, downloaded if need be; `RuntimeError` says what is missing."""
        found = self.find()
        if found is not None:
            return found
        for program in ("java", "mvn"):
            if shutil.which(program) is None:
                raise RuntimeError(f"{program} is not on the PATH")
        self.cache.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.cache.parent) as scratch:
            self._download(Path(scratch))
            # A rename, so that a fetch cut short never looks like a whole set of jars.
            shutil.rmtree(self.cache, ignore_errors=True)
            (Path(scratch) / "libs").rename(self.cache)
        return self.cache

    def main(self) -> int:
        """Print the folder, or why there is none."""
        try:
            print(self.fetch())
        except RuntimeError as error:
            print(f"No {self.title} here: {error}", file=sys.stderr)
            return 1
        return 0

    def _is_whole(self, folder: Path) -> bool:
        _, artifact, version = self.wanted[0].split(":")
        return (folder / f"{artifact}-{version}.jar").exists()

    def _download(self, scratch: Path) -> None:
        exclusions = ALONE if self.alone else ""
        lines = [DEPENDENCY.format(*one.split(":"), exclusions=exclusions) for one in self.wanted]
        (scratch / "pom.xml").write_text(POM.format(dependencies="\n".join(lines)))
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies"]
        command += [f"-DoutputDirectory={scratch}/libs"]
        try:
            done = subprocess.run(
                command, cwd=scratch, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"Maven did not finish within {FETCH_TIMEOUT_S} s") from None
        if done.returncode != 0 or not self._is_whole(scratch / "libs"):
            raise RuntimeError(f"Maven could not fetch the jars: {done.stdout[-600:]}")
