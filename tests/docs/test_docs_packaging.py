"""What is not Python goes along: into the wheel for running, into the sdist for building.

`make wheel` builds both and tries them; this is the part of it that takes no time.
"""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import ottla

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
BUILT = {".so", ".c", ".pyc"}
FOR_BUILDING = {".pyx", ".pxd"}


def files_that_are_not_python() -> list[Path]:
    found = [path for path in SOURCE.rglob("*") if path.is_file() and path.suffix != ".py"]
    return [
        path
        for path in found
        if path.suffix not in BUILT and not any(".egg-info" in part for part in path.parts)
    ]


def test_the_wheel_has_every_file_that_is_needed_to_run() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    package_data = project["tool"]["setuptools"]["package-data"]
    patterns = [
        f"{package.replace('.', '/')}/{pattern}"
        for package, kinds in package_data.items()
        for pattern in kinds
    ]
    for path in files_that_are_not_python():
        name = path.relative_to(SOURCE).as_posix()
        assert path.suffix in FOR_BUILDING or any(fnmatch(name, one) for one in patterns), (
            f"the wheel would not have {name}: add it to package-data in pyproject.toml"
        )


def test_the_sdist_has_every_file_that_is_needed_to_build() -> None:
    patterns = (ROOT / "MANIFEST.in").read_text().split()[1:]
    sources = [path for path in files_that_are_not_python() if path.suffix in FOR_BUILDING]
    assert sources
    for path in sources:
        name = path.relative_to(ROOT).as_posix()
        assert any(fnmatch(name, one) for one in patterns), f"add {name} to MANIFEST.in"


def test_pages_and_manifests_name_the_version_of_the_program() -> None:
    """`ottla:0.1.0` of an image, `ottla-0.1.0` of a wheel, and `Ottla 0.1` in prose."""
    paths = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    paths += [path for path in (ROOT / "deploy").rglob("*") if path.is_file()]
    paths.remove(ROOT / "CHANGELOG.md")
    minor = ".".join(ottla.__version__.split(".")[:2])
    naming = set()
    for path in paths:
        text = path.read_text()
        whole = re.findall(r"\bottla[:-](\d+\.\d+\.\d+)", text)
        short = re.findall(r"\bOttla (\d+\.\d+)\b", text)
        name = path.relative_to(ROOT).as_posix()
        assert set(whole) <= {ottla.__version__}, name
        assert set(short) <= {minor}, name
        naming.update([name] if whole or short else [])
    assert {"deploy/kubernetes/ottla.yaml", "docs/deployment/container.md"} <= naming
    assert {"docs/install.md", "README.md"} <= naming
