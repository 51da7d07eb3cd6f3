"""`ottla tokens`: delegation tokens, with which jobs sign in instead of a password."""

from __future__ import annotations

import binascii
from base64 import b64decode
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from ottla.cli.consent import want_consent
from ottla.cli.options import (
    BOOTSTRAP_DEFAULT,
    TIMEOUT_MS_DEFAULT,
    Bootstrap,
    Json,
    TimeoutMs,
    Yes,
    new_app,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.client.admin.tokens import DelegationToken

app = new_app("Show delegation tokens, create, renew and expire them.")

Hmac: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="HMAC", help="The token's HMAC in Base64, as `create` prints it."),
]
Period: TypeAlias = Annotated[
    str | None,
    typer.Option("--period", metavar="DURATION", help="From now: 90s, 2h, 7d."),
]


@app.command("list")
def list_(
    owners: Annotated[
        list[str] | None,
        typer.Option(
            "--owner", metavar="PRINCIPAL", help="Only of this owner or renewer; may be repeated."
        ),
    ] = None,
    with_hmac: Annotated[
        bool, typer.Option("--hmac", help="Show the HMACs, too. They are passwords.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """List the tokens that you may see: your own, those you may renew, and those of others with the
    right to describe them.

    Examples:

    - `ottla tokens list`

    - `ottla tokens list --owner User:alice --json`
    """
    from ottla.cli.output import print_json, print_table
    from ottla.cli.session import with_admin

    wanted = _principals(owners or [], "--owner") or None
    found = with_admin(
        bootstrap, lambda admin: admin.describe_delegation_token(wanted), timeout_ms=timeout_ms
    )
    tokens = sorted(found, key=lambda token: (token.owner, token.issue_timestamp_ms))
    if as_json:
        print_json([_as_dict(token, with_hmac=with_hmac) for token in tokens])
        return
    columns = ["token", "owner", "requester", "renewers", "issued", "expires", "at the latest"]
    rows: list[list[Any]] = [
        [
            token.token_id,
            token.owner,
            token.requester,
            ", ".join(token.renewers),
            *map(_moment, _times(token)),
        ]
        for token in tokens
    ]
    if with_hmac:
        columns.append("hmac")
        for row, token in zip(rows, tokens, strict=True):
            row.append(token.password)
    print_table(columns, rows, spare=("requester", "issued", "renewers"))


# Kafka's name for it
app.command("describe", hidden=True)(list_)


@app.command()
def create(
    owner: Annotated[
        str | None,
        typer.Option(
            "--owner", metavar="PRINCIPAL", help="For this user, as in User:alice; not for you."
        ),
    ] = None,
    renewers: Annotated[
        list[str] | None,
        typer.Option(
            "--renewer", metavar="PRINCIPAL", help="May renew and expire it; may be repeated."
        ),
    ] = None,
    max_lifetime: Annotated[
        str | None,
        typer.Option(
            "--max-lifetime",
            metavar="DURATION",
            help="How long it can live, however often it is renewed; the cluster decides, if not "
            "given.",
        ),
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Create a token, and print its id and its HMAC: the name and the password to sign in with.

    Clients then need `sasl_token_auth=True`, or Kafka's `tokenauth="true"` in their JAAS line.

    Examples:

    - `ottla tokens create`

    - `ottla tokens create --renewer User:scheduler --max-lifetime 2d`
    """
    from ottla.cli.output import print_json, print_line
    from ottla.cli.session import with_admin

    (for_whom,) = _principals([owner], "--owner") if owner else (None,)
    named = _principals(renewers or [], "--renewer")
    lifetime_ms = _period_ms(max_lifetime, "--max-lifetime")
    if lifetime_ms == 0:
        raise typer.BadParameter("--max-lifetime: 0 would be as long as the cluster allows")
    token = with_admin(
        bootstrap,
        lambda admin: admin.create_delegation_token(
            owner=for_whom, renewers=named, max_lifetime_ms=lifetime_ms
        ),
        timeout_ms=timeout_ms,
    )
    if as_json:
        print_json(_as_dict(token, with_hmac=True))
        return
    print_line(f"Token:   {token.token_id}")
    print_line(f"HMAC:    {token.password}")
    print_line(f"Owner:   {token.owner}")
    print_line(f"Expires: {_moment(token.expiry_timestamp_ms)}, unless it is renewed")
    print_line(f"Ends:    {_moment(token.max_timestamp_ms)}")


@app.command()
def renew(
    hmac: Hmac,
    period: Period = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
) -> None:
    """Let a token expire later: after `--period` from now, or after what the cluster allows.

    Example:

    - `ottla tokens renew "$HMAC" --period 12h`
    """
    from ottla.cli.output import print_line
    from ottla.cli.session import with_admin

    named, period_ms = _hmac(hmac), _period_ms(period, "--period")
    expiry_ms = with_admin(
        bootstrap,
        lambda admin: admin.renew_delegation_token(named, period_ms=period_ms),
        timeout_ms=timeout_ms,
    )
    print_line(f"The token expires at {_moment(expiry_ms)}.")


@app.command()
def expire(
    hmac: Hmac,
    period: Period = None,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
) -> None:
    """Remove a token, or let it expire after `--period` from now. Connections that exist stay until
    the time at which it would have expired.

    Examples:

    - `ottla tokens expire "$HMAC" --yes`

    - `ottla tokens expire "$HMAC" --period 10m`
    """
    from ottla.cli.output import print_line
    from ottla.cli.session import with_admin

    named, period_ms = _hmac(hmac), _period_ms(period, "--period")
    if period_ms is None:
        want_consent("Remove the token?", yes)
    expiry_ms = with_admin(
        bootstrap,
        lambda admin: admin.expire_delegation_token(named, period_ms=period_ms),
        timeout_ms=timeout_ms,
    )
    print_line(
        "Removed the token." if period_ms is None else f"The token expires at {_moment(expiry_ms)}."
    )


def _principals(texts: Sequence[str], option: str) -> list[str]:
    from ottla.security.principal import KafkaPrincipal

    try:
        return [str(KafkaPrincipal.parse(text.strip())) for text in texts]
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def _hmac(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except binascii.Error:
        raise typer.BadParameter("it is not Base64", param_hint="HMAC") from None


def _period_ms(text: str | None, option: str) -> int | None:
    """Return None for what the cluster decides; -1 means that, too, as in Kafka's tool."""
    from ottla.cli.durations import parse_duration_ms

    if text is None or text == "-1":
        return None
    return int(text) if text.isdigit() else parse_duration_ms(text, option)


def _times(token: DelegationToken) -> tuple[int, int, int]:
    return token.issue_timestamp_ms, token.expiry_timestamp_ms, token.max_timestamp_ms


def _moment(timestamp_ms: int) -> str:
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000).astimezone()
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return moment.isoformat(timespec="seconds")


def _as_dict(token: DelegationToken, *, with_hmac: bool) -> dict[str, Any]:
    shown = {
        "token": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issue_timestamp_ms": token.issue_timestamp_ms,
        "expiry_timestamp_ms": token.expiry_timestamp_ms,
        "max_timestamp_ms": token.max_timestamp_ms,
    }
    return {**shown, "hmac": token.password} if with_hmac else shown
