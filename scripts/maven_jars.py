"""Jars from Maven Central in the user's cache: fetched once, then found there.

Tests and bench use them, and also run without: if Java or Maven is missing, `fetch` says so.
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
    """The jars to fetch, and where they are kept."""

    title: str
    folder: str
    """Below this project's cache folder."""
    variable: str
    """The environment variable that names a folder of jars to use instead."""
    wanted: tuple[str, ...]
    """`group:artifact:version`; the first one's presence stands for all."""
    alone: bool = False
    """True to leave out their dependencies."""

    @property
    def cache(self) -> Path:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(base) / "ottla" / self.folder

    def find(self) -> Path | None:
        """Return the folder that the environment names or that an earlier fetch left, if any."""
        named = os.environ.get(self.variable)
        if named:
            return Path(named)
        return self.cache if self._is_whole(self.cache) else None

    def fetch(self) -> Path:
        """Return the folder of jars, downloaded if needed; `RuntimeError` says what is missing."""
        found = self.find()
        if found is not None:
            return found
        for program in ("java", "mvn"):
            if shutil.which(program) is None:
                raise RuntimeError(f"{program} is not on the PATH")
        self.cache.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.cache.parent) as scratch:
            self._download(Path(scratch))
            # A rename, so that an interrupted fetch never looks complete.
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
