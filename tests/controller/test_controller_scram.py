"""SCRAM credentials: what is stored, and Kafka's refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from handler_stage import Admin, with_admin

from ottla.broker.controller.scram_credentials import alter_scram_credentials
from ottla.broker.metadata.image import MetadataImage
from ottla.broker.metadata.security_image import ScramCredential
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from ottla.security.scram import SCRAM_MECHANISMS

SHA_256 = SCRAM_MECHANISMS["SCRAM-SHA-256"]
IMAGE = replace(
    MetadataImage(), scram_credentials={("alice", 1): ScramCredential(b"s", b"k", b"k", 4096)}
)


def upsertion(
    name: str, mechanism: int = 1, iterations: int = 4096, salted_password: bytes = b"salted"
) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name,
        mechanism=mechanism,
        iterations=iterations,
        salt=b"salt",
        salted_password=salted_password,
    )


def deletion(name: str, mechanism: int = 1) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def outcome(
    *changes: ScramCredentialDeletion | ScramCredentialUpsertion,
) -> dict[str, tuple[ErrorCode, str | None]]:
    request = AlterUserScramCredentialsRequest(
        deletions=[one for one in changes if isinstance(one, ScramCredentialDeletion)],
        upsertions=[one for one in changes if isinstance(one, ScramCredentialUpsertion)],
    )
    decision = alter_scram_credentials(IMAGE, request)
    results = {
        one.user: (ErrorCode.of(one.error_code), one.error_message)
        for one in decision.response.results
    }
    changed = {user for user, (code, _) in results.items() if not code}
    assert {record.name for record in decision.records} == changed  # type: ignore[attr-defined]
    return results


def test_only_keys_are_stored_from_which_the_password_cannot_be_told() -> None:
    request = AlterUserScramCredentialsRequest(upsertions=[upsertion("bob")])
    (record,) = alter_scram_credentials(IMAGE, request).records
    client_key = SHA_256.hmac(b"salted", b"Client Key")
    assert record.stored_key == SHA_256.stored_key(client_key)  # type: ignore[attr-defined]
    assert record.server_key == SHA_256.hmac(b"salted", b"Server Key")  # type: ignore[attr-defined]
    assert b"salted" not in repr(record).encode()


def test_what_is_wrong_with_one_user_does_not_touch_others() -> None:
    unacceptable = ErrorCode.UNACCEPTABLE_CREDENTIAL
    twice = (
        ErrorCode.DUPLICATE_RESOURCE,
        "A user credential cannot be altered twice in the same request",
    )
    unknown = (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    done = (ErrorCode.NONE, None)
    assert outcome(
        deletion("alice"),
        deletion("nobody"),
        deletion("strange", 3),
        upsertion(""),
        upsertion("weak", iterations=4095),
        upsertion("slow", iterations=16385),
        upsertion("hasty", 2, 16384),
        upsertion("odd", mechanism=0),
        upsertion("twice", 1),
        upsertion("twice", 2),
        upsertion("twice", 1),
        upsertion("empty", salted_password=b""),
    ) == {
        "alice": done,
        "nobody": (
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to delete a user credential that does not exist",
        ),
        "strange": unknown,
        "": (unacceptable, "Username must not be empty"),
        "weak": (unacceptable, "Too few iterations"),
        "slow": (unacceptable, "Too many iterations"),
        "hasty": done,
        "odd": unknown,
        "twice": twice,
        "empty": (unacceptable, "The salted password must not be empty"),
    }
    assert outcome(deletion("alice"), upsertion("alice")) == {"alice": twice}


def test_credentials_are_described_without_their_secrets(tmp_path: Path) -> None:
    async def use(admin: Admin) -> None:
        async def describe(*names: str) -> dict[str, tuple[int, str | None, list[tuple[int, int]]]]:
            request = DescribeUserScramCredentialsRequest(
                users=[UserName(name=name) for name in names]
            )
            answer = await admin(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, request)
            assert answer.error_code == 0
            return {
                one.user: (
                    one.error_code,
                    one.error_message,
                    [(info.mechanism, info.iterations) for info in one.credential_infos],
                )
                for one in answer.results
            }

        for mechanism in (2, 1):
            many = [upsertion(f"user{number}", mechanism, 5000) for number in range(600)]
            request = AlterUserScramCredentialsRequest(upsertions=many)
            answer = await admin(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request)
            assert not any(one.error_code for one in answer.results)
        everybody = await describe()
        assert len(everybody) == 600
        assert everybody["user7"] == (0, None, [(1, 5000), (2, 5000)])
        some = await describe("user1", "nobody", "user2", "user2")
        assert some["user1"] == everybody["user1"]
        assert some["nobody"] == (
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to describe a user credential that does not exist: nobody",
            [],
        )
        assert some["user2"] == (
            ErrorCode.DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single request: user2",
            [],
        )

    with_admin(tmp_path, use)
