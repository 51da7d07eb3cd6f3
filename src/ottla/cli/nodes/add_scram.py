"""`--add-scram` of `ottla storage format`, in Kafka's syntax and with its rules:

SCRAM-SHA-256=[name=alice,password=secret,iterations=8192]
SCRAM-SHA-512=[name=bob,salt=BASE64,saltedpassword=BASE64]

Messages show no value, which may be a password.
"""

from __future__ import annotations

import random
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterable
from typing import Final

from ottla.broker.controller.scram_credentials import credential_record
from ottla.cli.nodes.storage_plan import CannotFormat
from ottla.protocol.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from ottla.security.scram import ITERATIONS_MAX, ITERATIONS_MIN, SCRAM_MECHANISMS

SALT_BYTES: Final = 16
_OPTIONS: Final = ("name", "password", "iterations", "salt", "saltedpassword")


def parse_users(given: Iterable[str]) -> list[UserScramCredentialRecord]:
    return [_parse(text) for text in given]


def _parse(text: str) -> UserScramCredentialRecord:
    mechanism, equals, config = text.strip().partition("=")
    if not equals:
        raise _wrong("it has no equals sign after the mechanism")
    scram = SCRAM_MECHANISMS.get(mechanism)
    if scram is None:
        raise _wrong(f"The add-scram mechanism {mechanism} is not supported.")
    options = _options(config)
    user = options.get("name")
    if not user:
        raise _wrong("You must supply 'name' to add-scram")
    password, salted = options.get("password"), options.get("saltedpassword")
    if not (password or salted):
        raise _wrong("You must supply one of 'password' or 'saltedpassword' to add-scram")
    if password and salted:
        raise _wrong("give either 'password' or 'saltedpassword'")
    if salted and "salt" not in options:
        raise _wrong("You must supply 'salt' with 'saltedpassword' to add-scram")
    iterations = _iterations(options.get("iterations"), mechanism)
    salt = random.SystemRandom().randbytes(SALT_BYTES)
    if "salt" in options:
        salt = _decoded("salt", options["salt"])
    if salted:
        salted_password = _decoded("saltedpassword", salted)
    else:
        salted_password = scram.salted_password((password or "").encode(), salt, iterations)
    return credential_record(scram, user, salt, salted_password, iterations)


def _options(config: str) -> dict[str, str]:
    if not config.startswith("["):
        raise _wrong("Expected configuration string to start with [")
    if not config.endswith("]"):
        raise _wrong("Expected configuration string to end with ]")
    options: dict[str, str] = {}
    for number, part in enumerate(config[1:-1].split(","), 1):
        name, equals, value = part.strip().partition("=")
        if not equals:
            raise _wrong(f"No equals sign found in SCRAM component {number}")
        if name not in _OPTIONS:
            raise _wrong(f"component {number} is none of {', '.join(_OPTIONS)}")
        if len(value) >= 2 and value.startswith('"') and value.endswith('"'):
            value = value[1:-1]
        options[name] = value
    return options


def _iterations(text: str | None, mechanism: str) -> int:
    if text is None:
        return ITERATIONS_MIN
    if not (text.isascii() and text.isdigit()):
        raise _wrong(f"Failed to parse iterations count: {text}")
    iterations = int(text)
    if iterations < ITERATIONS_MIN:
        raise _wrong(
            f"The 'iterations' value must be >= {ITERATIONS_MIN} for add-scram using {mechanism}"
        )
    if iterations > ITERATIONS_MAX:
        raise _wrong(
            f"The 'iterations' value must be <= {ITERATIONS_MAX} for add-scram using {mechanism}"
        )
    return iterations


def _decoded(name: str, text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except NotBase64:
        raise _wrong(f"Failed to decode given {name}: it is not Base64") from None


def _wrong(reason: str) -> CannotFormat:
    return CannotFormat(f"--add-scram: {reason}")
