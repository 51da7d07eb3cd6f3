"""References to secrets in options: `${env:NAME}`, `${file:PATH}` and `${file:PATH:KEY}`.

They are replaced only where a client is made, in the driver or in a task, so that Spark's plans,
checkpoints and the folder of a pipeline hold the reference and never the secret.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ottla.client.errors import BadSetting
from ottla.config.properties import PropertiesError, parse_properties

_REFERENCE: Final = re.compile(r"\$\{(env|file):([^}]*)\}")
SECRET_BYTES_MAX: Final = 1024 * 1024
JAAS: Final = "sasl.jaas.config"


def resolved(given: Mapping[str, str], *, prefix: str = "") -> dict[str, str]:
    """Return the settings with each reference replaced; `prefix` precedes their names in errors.
    Raises `BadSetting`, which names the reference."""
    return {name: _resolved(name, value, prefix + name) for name, value in given.items()}


def with_stand_ins(given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with something else for each reference, to check them where the secrets
    are not at hand."""
    return {name: _REFERENCE.sub("stand-in", value) for name, value in given.items()}


def _resolved(name: str, value: str, told: str) -> str:
    if "${" not in value:
        return value

    def secret(found: re.Match[str]) -> str:
        kind, place = found.groups()
        try:
            text = _FINDERS[kind](place)
        except LookupError as error:
            raise BadSetting(told, f"{found.group()}: {error.args[0]}") from None
        # Inside a JAAS line the secret is part of a quoted text.
        return re.sub(r'(["\\])', r"\\\1", text) if name == JAAS else text

    return _REFERENCE.sub(secret, value)


def _from_environment(name: str) -> str:
    if name not in os.environ:
        raise LookupError(f"the environment has no {name}; set it where the program runs")
    return os.environ[name]


def _from_file(place: str) -> str:
    """Return the text of a file, or what a properties file has for a key."""
    if Path(place).is_file():
        return _read(place).rstrip("\r\n")
    path, colon, key = place.rpartition(":")
    if not colon:
        return _read(place)
    try:
        properties = parse_properties(_read(path), path)
    except PropertiesError as error:
        raise LookupError(str(error)) from error
    if key not in properties:
        raise LookupError(f"{path} has no line {key}=...")
    return properties[key]


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(SECRET_BYTES_MAX + 1)
    except OSError as error:
        raise LookupError(f"cannot read {path}: {error.strerror}") from error
    if len(data) > SECRET_BYTES_MAX:
        raise LookupError(f"{path} has more than {SECRET_BYTES_MAX} bytes")
    return data.decode("utf-8", "replace")


_FINDERS: Final[Mapping[str, Callable[[str], str]]] = {
    "env": _from_environment,
    "file": _from_file,
}
