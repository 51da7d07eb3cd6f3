"""Delegation tokens: how long they live, who may change them, and who may see them."""

from __future__ import annotations

import inspect
import time
from collections import deque
from collections.abc import Collection
from pathlib import Path
from typing import Any

from handler_stage import Admin, with_admin
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.controller.tokens.decisions import (
    INT64_MAX,
    REMOVED_AT_ONCE_MAX,
    create_token,
    expire_token,
    remove_expired,
    renew_token,
)
from ottla.broker.controller.tokens.index import TokenIndex, Tokens
from ottla.broker.metadata.decision import Decision
from ottla.broker.metadata.image import MetadataImage
from ottla.broker.metadata.security_image import DelegationToken
from ottla.broker.server.caller import Caller
from ottla.broker.server.context import NodeContext, RequestContext
from ottla.broker.server.dispatch import serve_on_broker
from ottla.config.broker import BrokerConfig
from ottla.config.security.tokens import TokenSettings, token_settings
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from ottla.security.principal import ANONYMOUS, KafkaPrincipal
from ottla.security.rights import Operation, ResourceType
from ottla.security.token_hmac import token_hmac

NOW_MS = 1_000_000
SECRET = "cluster-wide-secret"
SETTINGS = TokenSettings(SECRET.encode(), max_lifetime_ms=10_000, expiry_time_ms=1_000)
ALICE, BOB, EVE = (KafkaPrincipal("User", name) for name in ("alice", "bob", "eve"))


def follow(index: TokenIndex, before: Tokens, after: Tokens) -> None:
    deque(index.change(after, before.keys() ^ after.keys()), maxlen=0)


class Cluster:
    """The decisions, and the image that they lead to."""

    def __init__(self, settings: TokenSettings | None = SETTINGS) -> None:
        self.image = MetadataImage()
        self.settings = settings
        self.index = TokenIndex(SECRET.encode()) if settings else None

    def _apply(self, decision: Decision[Any]) -> Any:
        before = self.image
        self.image = before.apply(decision.records, before.offset + len(decision.records), 1)
        if self.index is not None:
            follow(self.index, before.delegation_tokens, self.image.delegation_tokens)
        return decision.response

    def create(
        self, name: str = "id", lifetime_ms: int = -1, who: KafkaPrincipal = ALICE, **fields: Any
    ) -> CreateDelegationTokenResponse:
        request = CreateDelegationTokenRequest(max_lifetime_ms=lifetime_ms, **fields)
        made: CreateDelegationTokenResponse = self._apply(
            create_token(request, who, self.settings, name, NOW_MS)
        )
        return made

    def renew(
        self, hmac: bytes, period_ms: int = -1, who: KafkaPrincipal = ALICE, now_ms: int = NOW_MS
    ) -> tuple[ErrorCode, int]:
        request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
        told = self._apply(renew_token(self.image, request, who, self.settings, self.index, now_ms))
        return ErrorCode.of(told.error_code), told.expiry_timestamp_ms

    def expire(
        self, hmac: bytes, period_ms: int, who: KafkaPrincipal = ALICE, now_ms: int = NOW_MS
    ) -> tuple[ErrorCode, int]:
        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
        told = self._apply(expire_token(self.image, request, who, self.index, now_ms))
        return ErrorCode.of(told.error_code), told.expiry_timestamp_ms


def renewers(*names: str, kind: str = "User") -> list[CreatableRenewers]:
    return [CreatableRenewers(principal_type=kind, principal_name=name) for name in names]


def test_a_token_lives_as_long_as_asked_for_within_the_bounds_of_the_cluster():
    cluster = Cluster()
    for asked_ms, lives_ms in ((-1, 10_000), (0, 10_000), (500, 500), (10**12, 10_000)):
        made = cluster.create(lifetime_ms=asked_ms)
        assert (made.error_code, made.issue_timestamp_ms) == (0, NOW_MS)
        assert made.max_timestamp_ms == NOW_MS + lives_ms
        assert made.expiry_timestamp_ms == NOW_MS + min(lives_ms, 1_000)
    assert made.hmac == token_hmac(SECRET.encode(), "id")
    assert cluster.image.delegation_tokens["id"] == DelegationToken(
        "User:alice", "User:alice", (), NOW_MS, NOW_MS + 10_000, NOW_MS + 1_000
    )


def test_a_token_can_be_made_for_somebody_else():
    cluster = Cluster()
    made = cluster.create(
        owner_principal_type="User", owner_principal_name="bob", renewers=renewers("carol")
    )
    assert (made.principal_name, made.token_requester_principal_name) == ("bob", "alice")
    token = cluster.image.delegation_tokens["id"]
    assert (token.owner, token.requester, token.renewers) == (
        *("User:bob", "User:alice"),
        ("User:carol",),
    )


def test_the_longest_lifetime_does_not_overflow():
    cluster = Cluster(TokenSettings(b"x", max_lifetime_ms=INT64_MAX, expiry_time_ms=INT64_MAX))
    made = cluster.create()
    assert (made.max_timestamp_ms, made.expiry_timestamp_ms) == (INT64_MAX, INT64_MAX)


def test_a_renewer_has_to_be_a_user():
    cluster = Cluster()
    made = cluster.create(renewers=renewers("x", kind="Group"))
    assert made.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert not cluster.image.delegation_tokens


def test_without_a_secret_key_everything_is_refused():
    cluster = Cluster(token_settings(BrokerConfig.parse({"delegation.token.secret.key": ""})))
    off = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert cluster.create().error_code == off
    assert cluster.renew(b"x") == (off, 0)
    assert cluster.expire(b"x", -1) == (off, 0)


def test_owner_and_renewers_renew_a_token_and_nobody_else():
    cluster = Cluster()
    hmac = cluster.create(renewers=renewers("bob")).hmac
    later = NOW_MS + 800
    by_token = KafkaPrincipal("User", "alice", token_authenticated=True)
    for who in (ALICE, BOB, by_token):
        assert cluster.renew(hmac, who=who, now_ms=later) == (ErrorCode.NONE, later + 1_000)
    assert cluster.renew(hmac, 5, now_ms=later) == (ErrorCode.NONE, later + 5)
    assert cluster.renew(hmac, 10**12, now_ms=later) == (ErrorCode.NONE, later + 1_000)
    mismatch = (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0)
    assert cluster.renew(hmac, who=EVE) == mismatch
    assert cluster.expire(hmac, -1, who=EVE) == mismatch
    assert cluster.renew(b"another") == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0)


def test_no_renewal_outlives_the_token():
    cluster = Cluster()
    hmac = cluster.create(lifetime_ms=1_500).hmac
    assert cluster.renew(hmac, now_ms=NOW_MS + 900) == (ErrorCode.NONE, NOW_MS + 1_500)
    assert cluster.renew(hmac, now_ms=NOW_MS + 1_500) == (ErrorCode.NONE, NOW_MS + 1_500)
    gone = (ErrorCode.DELEGATION_TOKEN_EXPIRED, 0)
    assert cluster.renew(hmac, now_ms=NOW_MS + 1_501) == gone
    assert cluster.expire(hmac, 5, now_ms=NOW_MS + 1_501) == gone


def test_a_token_is_expired_later_or_at_once():
    cluster = Cluster()
    hmac = cluster.create().hmac
    assert cluster.expire(hmac, 10**18) == (ErrorCode.NONE, NOW_MS + 10_000)
    assert cluster.expire(hmac, 0) == (ErrorCode.NONE, NOW_MS)
    assert cluster.expire(hmac, -1, now_ms=NOW_MS + 5) == (ErrorCode.NONE, NOW_MS + 5)
    assert not cluster.image.delegation_tokens
    assert cluster.expire(hmac, -1) == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0)


def test_expired_tokens_are_removed_in_decisions_of_bounded_size():
    cluster = Cluster()
    for number in range(REMOVED_AT_ONCE_MAX + 5):
        cluster.create(f"old{number}", lifetime_ms=10)
    cluster.create("young")
    assert remove_expired(cluster.image, NOW_MS + 10) == Decision([], False)
    assert cluster._apply(remove_expired(cluster.image, NOW_MS + 11))
    assert len(cluster.image.delegation_tokens) == 6
    assert not cluster._apply(remove_expired(cluster.image, NOW_MS + 11))
    assert list(cluster.image.delegation_tokens) == ["young"]


@given(st.lists(st.sets(st.sampled_from("abcdefgh")), max_size=8))
def test_tokens_are_found_by_their_hmac_however_the_image_changes(images: list[set[str]]) -> None:
    index = TokenIndex(b"secret")
    before: Tokens = {}
    for ids in images:
        tokens = dict.fromkeys(ids, DelegationToken("User:a", "User:a", (), 1, 2, 3))
        follow(index, before, tokens)
        before = tokens
        for token_id in "abcdefgh":
            found = index.find(tokens, token_hmac(b"secret", token_id))
            assert found == (token_id if token_id in ids else None)
    assert index.find({}, token_hmac(b"secret", "a")) is None


def test_a_token_is_found_as_fast_among_a_hundred_thousand_that_just_changed():
    index = TokenIndex(b"secret")
    one = DelegationToken("User:a", "User:a", (), 1, 2, 3)
    tokens = dict.fromkeys(map(str, range(100_000)), one)
    follow(index, {}, tokens)
    images = tokens, {**tokens, "new": one}
    hmac = token_hmac(b"secret", "7")
    begun_s = time.thread_time()
    for number in range(100):
        image = images[number % 2]
        deque(index.change(image, ["new"]), maxlen=0)
        assert index.find(image, hmac) == "7"
    assert time.thread_time() - begun_s < 0.2  # looking through all of them takes seconds


def test_no_repr_shows_the_secret():
    assert "secret" not in repr(SETTINGS).replace("secret_key", "")


# --- the handlers -------------------------------------------------------------------------------


class Allowing:
    """An authorizer that allows what is listed."""

    def __init__(self, *rights: tuple[Operation, ResourceType, str]) -> None:
        self._rights: Collection[Any] = rights

    def allows(self, context: NodeContext, *right: Any, quiet: bool = False) -> bool:
        return right in self._rights


async def ask(
    admin: Admin,
    request: Any,
    who: KafkaPrincipal = ALICE,
    protocol: str = "SASL_PLAINTEXT",
    *,
    is_forwarded: bool = False,
) -> Any:
    key = ApiKey(request.API_KEY)
    caller = Caller(
        who, ("127.0.0.1", 1), "CLIENTS", security_protocol=protocol, is_forwarded=is_forwarded
    )
    context: RequestContext[Any] = RequestContext(
        key, api(key).latest_stable, None, caller, admin.node
    )
    answer = serve_on_broker(key)(context, request)
    return await answer if inspect.isawaitable(answer) else answer


CREATE = CreateDelegationTokenRequest(max_lifetime_ms=-1)
FOR_BOB = CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="bob")
REQUESTS = (
    CREATE,
    RenewDelegationTokenRequest(),
    ExpireDelegationTokenRequest(),
    DescribeDelegationTokenRequest(),
)


def play(folder: Path, story: Any) -> None:
    with_admin(folder, story, delegation_token_secret_key=SECRET)


def test_a_client_has_to_prove_who_it_is_by_other_means_than_a_token(tmp_path: Path):
    async def story(admin: Admin) -> None:
        by_token = ALICE._replace(token_authenticated=True)
        for request in REQUESTS:
            for who, protocol, forwarded in (
                (ANONYMOUS, "PLAINTEXT", False),
                (ANONYMOUS, "SSL", False),
                (by_token, "SASL_SSL", False),
                (by_token, "SASL_SSL", True),
            ):
                told = await ask(admin, request, who, protocol, is_forwarded=forwarded)
                assert told.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
                assert getattr(told, "expiry_timestamp_ms", -1) == -1
        for who, protocol, forwarded in (
            (ALICE, "SASL_PLAINTEXT", False),
            (ALICE, "SSL", False),
            (ALICE, "PLAINTEXT", True),
        ):
            assert (await ask(admin, CREATE, who, protocol, is_forwarded=forwarded)).error_code == 0

    play(tmp_path, story)


def test_a_token_for_another_owner_takes_a_right(tmp_path: Path):
    async def story(admin: Admin) -> None:
        admin.node.authorizer = Allowing()
        told = await ask(admin, FOR_BOB)
        assert told.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        assert (told.principal_name, told.token_requester_principal_name) == ("bob", "alice")
        assert (await ask(admin, CREATE)).error_code == 0
        admin.node.authorizer = Allowing((Operation.CREATE_TOKENS, ResourceType.USER, "User:bob"))
        assert (await ask(admin, FOR_BOB)).error_code == 0
        nobody = CreateDelegationTokenRequest(owner_principal_type=None, owner_principal_name="x")
        told = await ask(admin, nobody)
        assert told.error_code == ErrorCode.UNKNOWN_SERVER_ERROR

    play(tmp_path, story)


def test_who_sees_which_tokens(tmp_path: Path):
    async def story(admin: Admin) -> None:
        request = CreateDelegationTokenRequest(max_lifetime_ms=-1, renewers=renewers("carol"))
        made = {who.name: await ask(admin, request, who) for who in (ALICE, BOB)}

        async def seen(who: str, *rights: Any, owners: list[str] | None = None) -> set[str]:
            admin.node.authorizer = Allowing(*rights)
            named = owners and [
                DescribeDelegationTokenOwner(principal_type="User", principal_name=name)
                for name in owners
            ]
            told = await ask(
                admin, DescribeDelegationTokenRequest(owners=named), KafkaPrincipal("User", who)
            )
            assert told.error_code == 0
            for token in told.tokens:
                one = made[token.principal_name]
                assert (token.token_id, token.hmac) == (one.token_id, one.hmac)
                assert [r.principal_name for r in token.renewers] == ["carol"]
            return {token.principal_name for token in told.tokens}

        one_token = (
            *(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN),
            made["alice"].token_id,
        )
        all_of_bob = (Operation.DESCRIBE_TOKENS, ResourceType.USER, "User:bob")
        assert await seen("alice") == {"alice"}
        assert await seen("carol") == {"alice", "bob"}
        assert await seen("eve") == set()
        assert await seen("eve", one_token) == {"alice"}
        assert await seen("eve", all_of_bob) == {"bob"}
        assert await seen("eve", one_token, all_of_bob, owners=["bob"]) == {"bob"}
        assert await seen("carol", owners=["carol"]) == {"alice", "bob"}
        assert await seen("alice", owners=[]) == set()

        # Who asked for a token sees it, too, but may not change it.
        admin.node.authorizer = None
        made["bob"] = for_bob = await ask(admin, FOR_BOB, KafkaPrincipal("User", "dan"))
        admin.node.authorizer = Allowing()
        told = await ask(admin, DescribeDelegationTokenRequest(), KafkaPrincipal("User", "dan"))
        assert [token.token_id for token in told.tokens] == []
        request = DescribeDelegationTokenRequest(owners=None)
        told = await ask(admin, request, KafkaPrincipal("User", "dan"))
        assert [token.token_id for token in told.tokens] == [for_bob.token_id]
        renewal = RenewDelegationTokenRequest(hmac=for_bob.hmac)
        told = await ask(admin, renewal, KafkaPrincipal("User", "dan"))
        assert told.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH

    play(tmp_path, story)
