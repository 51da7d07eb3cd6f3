"""The compiled modules, which pyproject.toml has no words for.

They are optional: where there is no C compiler, a warning is all that comes of them, and their
twins in Python do the work (see `ottla.records.engine`).
"""

import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

NATIVE = Path("src/ottla/records/native")
FLAGS = ["-O2", "-g0"]
"""Of what Python itself was compiled with, more takes half as long again and gains nothing."""
DIRECTIVES = {"language_level": 3, "cdivision": True, "embedsignature": True}


def extensions() -> list[Extension]:
    if sys.byteorder != "little":  # as the columns they write and hash are
        return []
    sources = [
        Extension(f"ottla.records.native.{path.stem}", [path.as_posix()], extra_compile_args=FLAGS)
        for path in sorted(NATIVE.glob("*.pyx"))
    ]
    made: list[Extension] = cythonize(
        sources, build_dir="build/cython", compiler_directives=DIRECTIVES, quiet=True
    )
    for extension in made:
        extension.optional = True  # not before: Cython makes new ones, and forgets it
    return made


setup(
    ext_modules=extensions(),
    options={"build_ext": {"parallel": os.cpu_count() or 1}},
)
