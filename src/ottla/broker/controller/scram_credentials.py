"""Decides on SCRAM credentials: how users sign in. Kafka's rules and messages.

Of a password the client sends only what it derived from it, and of that only the two keys are
stored: nobody can sign in with what the metadata log shows.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.broker.metadata.decision import Decision
from ottla.broker.metadata.image import MetadataImage
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.protocol.metadata_records.remove_user_scram_credential_record import (
    RemoveUserScramCredentialRecord,
)
from ottla.protocol.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from ottla.protocol.schema import Message
from ottla.security.scram import ITERATIONS_MAX, ITERATIONS_MIN, SCRAM_MECHANISMS, ScramHash

_HASHES: Final = {scram.number: scram for scram in SCRAM_MECHANISMS.values()}


class _Refusal(NamedTuple):
    code: ErrorCode
    message: str


_TWICE: Final = _Refusal(
    ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
)
_NO_USER: Final = _Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
_UNKNOWN: Final = _Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
_TOO_FEW: Final = _Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
_TOO_MANY: Final = _Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
_NO_PASSWORD: Final = _Refusal(
    ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salted password must not be empty"
)
_NOT_THERE: Final = _Refusal(
    ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
)


def alter_scram_credentials(
    image: MetadataImage, request: AlterUserScramCredentialsRequest
) -> Decision[AlterUserScramCredentialsResponse]:
    """Each user may occur once, whatever the mechanism; others are changed nevertheless."""
    records: dict[str, Message] = {}
    refused: dict[str, _Refusal] = {}
    changes: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*request.deletions]
    for change in [*changes, *request.upsertions]:
        user = change.name
        if user in refused:
            continue
        if records.pop(user, None) is not None:
            refused[user] = _TWICE
            continue
        outcome = _decide(image, change)
        if isinstance(outcome, _Refusal):
            refused[user] = outcome
        else:
            records[user] = outcome
    results = [AlterUserScramCredentialsResult(user=user, error_message=None) for user in records]
    results += [
        AlterUserScramCredentialsResult(
            user=user, error_code=refusal.code, error_message=refusal.message
        )
        for user, refusal in refused.items()
    ]
    return Decision(list(records.values()), AlterUserScramCredentialsResponse(results=results))


def _decide(
    image: MetadataImage, change: ScramCredentialDeletion | ScramCredentialUpsertion
) -> Message | _Refusal:
    """Return the record of a change. A refusal is no exception: a request may cause thousands."""
    user = change.name
    if not user:
        return _NO_USER
    scram = _HASHES.get(change.mechanism)
    if scram is None:
        return _UNKNOWN
    if isinstance(change, ScramCredentialDeletion):
        if (user, change.mechanism) not in image.scram_credentials:
            return _NOT_THERE
        return RemoveUserScramCredentialRecord(name=user, mechanism=change.mechanism)
    if change.iterations < ITERATIONS_MIN:
        return _TOO_FEW
    if change.iterations > ITERATIONS_MAX:
        return _TOO_MANY
    if not change.salted_password:
        return _NO_PASSWORD
    salt, salted_password = bytes(change.salt), bytes(change.salted_password)
    return credential_record(scram, user, salt, salted_password, change.iterations)


def credential_record(
    scram: ScramHash, user: str, salt: bytes, salted_password: bytes, iterations: int
) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name=user,
        mechanism=scram.number,
        salt=salt,
        stored_key=scram.stored_key(scram.client_key(salted_password)),
        server_key=scram.server_key(salted_password),
        iterations=iterations,
    )
