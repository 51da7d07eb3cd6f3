"""Builds the sdist and the wheel, and tries each in an empty environment: `make wheel`.

The wheel is built from the sdist, which shows that the sdist has everything that building needs.
Each is then installed with the extra `spark`, and `scripts/try_installed.py` runs a broker, a
producer, a consumer, a pipeline and a managed one from there, in a folder in which the sources
cannot be imported.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
TRY_SCRIPT = Path(__file__).with_name("try_installed.py")
JAVA_HINT = "no Java: the extra `java` is installed as well"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where they are put")
    parser.add_argument("--extras", default=None, help="default: spark, and java if there is none")
    options = parser.parse_args()
    out: Path = options.out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    extras = options.extras if options.extras is not None else default_extras()
    with tempfile.TemporaryDirectory(prefix="ottla-wheel-") as folder:
        with phase("build the sdist"):
            sdist = build_sdist(Path(folder) / "build", out)
        with phase("build the wheel from it"):
            wheel = build_wheel(Path(folder) / "build", sdist, out)
        for file in (wheel, sdist):
            with phase(
                f"install {file.name} with [{extras}] into an empty environment, and try it"
            ):
                try_install(file, extras, Path(folder) / file.suffix[1:])
    for file in (sdist, wheel):
        print(f"{file.stat().st_size:>10,} bytes  {file}")


def default_extras() -> str:
    if shutil.which("java"):
        return "spark"
    print(JAVA_HINT)
    return "spark,java"


@contextmanager
def phase(name: str) -> Iterator[None]:
    print(f"== {name}", flush=True)
    began = time.monotonic()
    yield
    print(f"   {time.monotonic() - began:.0f} s", flush=True)


def build_sdist(environment: Path, out: Path) -> Path:
    """Build with the build backend itself, in an environment with only its requirements."""
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    python = make_environment(environment)
    run(python, "-m", "pip", "install", "--quiet", *needed)
    call = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"
    run(python, "-c", call, str(out), cwd=ROOT, quiet=True)
    (sdist,) = out.glob("ottla-*.tar.gz")
    return sdist


def build_wheel(environment: Path, sdist: Path, out: Path) -> Path:
    python = environment / "bin" / "python"
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-cache-dir"]
    run(python, "-m", "pip", "wheel", *options, "--wheel-dir", str(out), str(sdist))
    (wheel,) = out.glob("ottla-*.whl")
    return wheel


def try_install(file: Path, extras: str, folder: Path) -> None:
    python = make_environment(folder / "environment")
    wanted = f"ottla[{extras}] @ {file.as_uri()}" if extras else str(file)
    run(python, "-m", "pip", "install", "--quiet", wanted)
    run(python, "-m", "pip", "check")
    work = folder / "work"
    work.mkdir()
    pipeline = ["--pipeline"] if "spark" in extras else []
    run(python, "-I", "-u", str(shutil.copy(TRY_SCRIPT, folder)), *pipeline, cwd=work)


def make_environment(folder: Path) -> Path:
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


def run(program: Path, *arguments: str, cwd: Path | None = None, quiet: bool = False) -> None:
    done = subprocess.run(
        [str(program), *arguments],
        cwd=cwd,
        text=True,
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.STDOUT if quiet else None,
    )
    if done.returncode:
        sys.exit(f"{done.stdout or ''}failed: {program} {' '.join(arguments)}")


if __name__ == "__main__":
    main()
