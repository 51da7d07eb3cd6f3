"""AlterUserScramCredentials, API 51."""

from __future__ import annotations

from ottla.protocol.schema import Message, Struct, array, int8, int16, int32, octets, string


class ScramCredentialDeletion(Struct):
    name: str = string()
    mechanism: int = int8()


class ScramCredentialUpsertion(Struct):
    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: bytes = octets()
    salted_password: bytes = octets()


class AlterUserScramCredentialsRequest(Message, api_key=51, versions=(0, 0), flexible=0):
    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


class AlterUserScramCredentialsResult(Struct):
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)


class AlterUserScramCredentialsResponse(Message, api_key=51, versions=(0, 0), flexible=0):
    throttle_time_ms: int = int32()
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult)
