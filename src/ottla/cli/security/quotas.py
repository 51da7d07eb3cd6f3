"""`ottla quotas`: what users, client ids and addresses may use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

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
    from collections.abc import Mapping

    from ottla.client.admin.admin import Admin
    from ottla.client.admin.quotas import Name, QuotaEntity

app = new_app("Show, set and remove quotas of users, client ids and addresses.")

User: TypeAlias = Annotated[
    str | None, typer.Option("--user", metavar="NAME", help="A user, as its principal names it.")
]
UserDefaults: TypeAlias = Annotated[
    bool, typer.Option("--user-defaults", help="All users without a quota of their own.")
]
Client: TypeAlias = Annotated[
    str | None, typer.Option("--client", metavar="ID", help="A client id; also with a user.")
]
ClientDefaults: TypeAlias = Annotated[
    bool, typer.Option("--client-defaults", help="All client ids without a quota of their own.")
]
Ip: TypeAlias = Annotated[
    str | None, typer.Option("--ip", metavar="ADDRESS", help="An address, for connections.")
]
IpDefaults: TypeAlias = Annotated[
    bool, typer.Option("--ip-defaults", help="All addresses without a quota of their own.")
]
DryRun: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Let the cluster check it, and change nothing.")
]

DEFAULT_SHOWN = "<default>"


@app.command("list")
def list_(
    user: User = None,
    user_defaults: UserDefaults = False,
    client: Client = None,
    client_defaults: ClientDefaults = False,
    ip: Ip = None,
    ip_defaults: IpDefaults = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Only quotas of exactly what is named.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """List quotas: all, or those in which a user, client id or address appears.

    Examples:

    - `ottla quotas list`

    - `ottla quotas list --user alice`
    """
    from ottla.cli.output import print_json, print_table
    from ottla.cli.session import with_admin

    wanted = _entity(user, user_defaults, client, client_defaults, ip, ip_defaults)
    found = with_admin(
        bootstrap,
        lambda admin: admin.describe_client_quotas(
            user=wanted.user, client_id=wanted.client_id, ip=wanted.ip, strict=strict
        ),
        timeout_ms=timeout_ms,
    )
    if as_json:
        print_json([_as_dict(entity, quotas) for entity, quotas in _sorted(found)])
        return
    rows = [
        (*map(_shown, entity), key, _number(value))
        for entity, quotas in _sorted(found)
        for key, value in sorted(quotas.items())
    ]
    print_table(("user", "client id", "address", "quota", "per second"), rows)


@app.command("set")
def set_(
    quotas: Annotated[list[str], typer.Argument(metavar="QUOTA=NUMBER...", show_default=False)],
    user: User = None,
    user_defaults: UserDefaults = False,
    client: Client = None,
    client_defaults: ClientDefaults = False,
    ip: Ip = None,
    ip_defaults: IpDefaults = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
) -> None:
    """Set quotas by Kafka's names: producer_byte_rate, consumer_byte_rate, request_percentage,
    controller_mutation_rate; of addresses connection_creation_rate.

    Examples:

    - `ottla quotas set producer_byte_rate=1048576 --user alice`

    - `ottla quotas set consumer_byte_rate=1e6 request_percentage=50 --user-defaults --client etl`
    """
    from ottla.cli.output import print_line

    entity = _named(_entity(user, user_defaults, client, client_defaults, ip, ip_defaults))
    values = dict(map(_parsed, quotas))
    if len(values) < len(quotas):
        raise typer.BadParameter("a quota is given twice")
    _alter(entity, values, bootstrap, timeout_ms, dry_run=dry_run)
    told = ", ".join(f"{key}={_number(value)}" for key, value in values.items())
    print_line(f"{'Would set' if dry_run else 'Set'} {told} of {_told(entity)}.")


@app.command()
def remove(
    quotas: Annotated[
        list[str] | None, typer.Argument(metavar="[QUOTA]...", show_default=False)
    ] = None,
    user: User = None,
    user_defaults: UserDefaults = False,
    client: Client = None,
    client_defaults: ClientDefaults = False,
    ip: Ip = None,
    ip_defaults: IpDefaults = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
) -> None:
    """Remove quotas: those named, or all of a user, client id or address.

    Examples:

    - `ottla quotas remove producer_byte_rate --user alice`

    - `ottla quotas remove --ip 10.0.0.7 --yes`
    """
    from ottla.cli.output import print_line
    from ottla.cli.session import with_admin
    from ottla.protocol.errors import ErrorCode, KafkaError

    entity = _named(_entity(user, user_defaults, client, client_defaults, ip, ip_defaults))

    async def set_now(admin: Admin) -> Mapping[str, float]:
        found = await admin.describe_client_quotas(
            user=entity.user, client_id=entity.client_id, ip=entity.ip, strict=True
        )
        return found.get(entity, {})

    there = with_admin(bootstrap, set_now, timeout_ms=timeout_ms)
    missing = [key for key in quotas or () if key not in there]
    if missing or not there:
        told = f"no {', '.join(missing)}" if missing else "no quotas"
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"{_told(entity)} has {told}")
    gone = list(quotas or there)
    told = f"{', '.join(gone)} of {_told(entity)}"
    if not dry_run:
        want_consent(f"Remove {told}?", yes)
    _alter(entity, dict.fromkeys(gone), bootstrap, timeout_ms, dry_run=dry_run)
    print_line(f"{'Would remove' if dry_run else 'Removed'} {told}.")


def _alter(
    entity: QuotaEntity,
    values: Mapping[str, float | None],
    bootstrap: str,
    timeout_ms: int,
    *,
    dry_run: bool,
) -> None:
    from ottla.cli.session import with_admin

    outcome = with_admin(
        bootstrap,
        lambda admin: admin.alter_client_quotas({entity: values}, validate_only=dry_run),
        timeout_ms=timeout_ms,
    )
    error = outcome[entity]
    if error is not None:
        raise error


def _entity(
    user: str | None,
    user_defaults: bool,
    client: str | None,
    client_defaults: bool,
    ip: str | None,
    ip_defaults: bool,
) -> QuotaEntity:
    from ottla.client.admin.quotas import QuotaEntity

    return QuotaEntity(
        user=_part("--user", without_type(user, "--user"), user_defaults),
        client_id=_part("--client", client, client_defaults),
        ip=_part("--ip", ip, ip_defaults),
    )


def without_type(name: str | None, where: str) -> str | None:
    """Return a user's name; refuse a principal, which has a type before the name."""
    if name is not None and name.startswith("User:"):
        raise typer.BadParameter(f"{where}: only the name, {name.removeprefix('User:')!r}")
    return name


def _part(option: str, name: str | None, is_default: bool) -> Name:
    from ottla.client.admin.quotas import QuotaName

    if name is not None and is_default:
        raise typer.BadParameter(f"{option} and {option}-defaults exclude each other")
    return QuotaName.DEFAULT if is_default else name


def _named(entity: QuotaEntity) -> QuotaEntity:
    if all(part is None for part in entity):
        raise typer.BadParameter(
            "name whom the quota is for: --user, --client, --ip, or their --...-defaults"
        )
    return entity


def _parsed(text: str) -> tuple[str, float]:
    key, equals, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not key or not equals or not number > 0:
        raise typer.BadParameter(f"expected QUOTA=NUMBER with a number above 0, not {text!r}")
    return key, number


def _sorted(
    found: Mapping[QuotaEntity, Mapping[str, float]],
) -> list[tuple[QuotaEntity, Mapping[str, float]]]:
    return sorted(found.items(), key=lambda item: tuple(map(_shown, item[0])))


def _shown(part: Name) -> str:
    if part is None:
        return ""
    return part if isinstance(part, str) else DEFAULT_SHOWN


def _told(entity: QuotaEntity) -> str:
    names = ("user", "client id", "address")
    parts = zip(names, map(_shown, entity), strict=True)
    return ", ".join(
        f"each {name}" if shown == DEFAULT_SHOWN else f"{name} {shown}"
        for name, shown in parts
        if shown
    )


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else str(value)


def _as_dict(entity: QuotaEntity, quotas: Mapping[str, float]) -> dict[str, object]:
    """Return the entity as Kafka's tools write it: None is the default; parts that it does not have
    are left out."""
    kinds = zip(("user", "client-id", "ip"), entity, strict=True)
    parts = {
        kind: part if isinstance(part, str) else None for kind, part in kinds if part is not None
    }
    return {"entity": parts, "quotas": dict(sorted(quotas.items()))}
