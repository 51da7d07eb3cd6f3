"""`ottla acls`: shows, adds and removes ACLs, and says what somebody may do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias, TypeVar

import typer

from ottla.cli.consent import want_consent
from ottla.cli.options import (
    BOOTSTRAP_DEFAULT,
    TIMEOUT_MS_DEFAULT,
    Bootstrap,
    BootstrapController,
    Json,
    TimeoutMs,
    Yes,
    new_app,
)

if TYPE_CHECKING:
    from ottla.client.admin.acls import Acl, AclFilter
    from ottla.client.admin.admin import Admin

T = TypeVar("T")

app = new_app("Show, add and remove ACLs, and say what somebody may do.")

Topics: TypeAlias = Annotated[
    list[str] | None, typer.Option("--topic", metavar="NAME", help="A topic; may be repeated.")
]
Groups: TypeAlias = Annotated[
    list[str] | None, typer.Option("--group", metavar="NAME", help="A group; may be repeated.")
]
TransactionalIds: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--transactional-id", metavar="ID", help="A transactional id; may be repeated."),
]
Tokens: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--delegation-token", metavar="ID", help="A delegation token; may be repeated."),
]
Users: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--user-resource",
        metavar="PRINCIPAL",
        help="A user whose tokens are meant; may be repeated.",
    ),
]
OnCluster: TypeAlias = Annotated[bool, typer.Option("--cluster", help="The cluster.")]
Allowed: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--allow", metavar="PRINCIPAL", help="User:NAME, or User:* for all."),
]
Denied: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--deny", metavar="PRINCIPAL", help="The same, to deny; a denial always wins."),
]
AllowedHosts: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--allow-host", metavar="IP", help="Allow from this address; from all if none."),
]
DeniedHosts: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--deny-host", metavar="IP", help="Deny from this address; from all if none."),
]
Operations: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--operation", metavar="NAME", help="read, write, describe, ..., all; may be repeated."
    ),
]
Dry: TypeAlias = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]


class _Asked(NamedTuple):
    """The brokers or controllers that a command asks."""

    bootstrap: str
    controllers: str | None
    timeout_ms: int

    def do(self, work: Callable[[Admin], Awaitable[T]]) -> T:
        from ottla.cli.session import with_admin

        return with_admin(
            self.bootstrap, work, timeout_ms=self.timeout_ms, controllers=self.controllers
        )


@app.command("list")
def list_(
    topics: Topics = None,
    groups: Groups = None,
    transactional_ids: TransactionalIds = None,
    tokens: Tokens = None,
    users: Users = None,
    cluster: OnCluster = False,
    principals: Annotated[
        list[str] | None,
        typer.Option("--principal", metavar="PRINCIPAL", help="Only of these; may be repeated."),
    ] = None,
    pattern: Annotated[
        str,
        typer.Option(
            metavar="TYPE",
            help="any (of this very name), literal, prefixed, or match (all that apply to it).",
        ),
    ] = "any",
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    bootstrap_controller: BootstrapController = None,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """List ACLs: all, or those of some resources and principals.

    Examples:

    - `ottla acls list`

    - `ottla acls list --topic orders --pattern match`
    """
    from ottla.cli.output import print_json
    from ottla.cli.security.acls.output import as_dict, show
    from ottla.cli.security.acls.selection import Resources, Who, filters_of, pattern_named

    resources = Resources(topics, groups, transactional_ids, tokens, users, cluster)
    filters = filters_of(resources, Who(), principals or (), (), pattern_named(pattern))
    asked = _Asked(bootstrap, bootstrap_controller, timeout_ms)
    found = asked.do(lambda admin: _found(admin, filters))
    if as_json:
        print_json([as_dict(acl) for acl in found])
    else:
        show(found)


@app.command()
def add(
    topics: Topics = None,
    groups: Groups = None,
    transactional_ids: TransactionalIds = None,
    tokens: Tokens = None,
    users: Users = None,
    cluster: OnCluster = False,
    allowed: Allowed = None,
    denied: Denied = None,
    allowed_hosts: AllowedHosts = None,
    denied_hosts: DeniedHosts = None,
    operations: Operations = None,
    producer: Annotated[
        bool, typer.Option("--producer", help="All that a producer to the topics needs.")
    ] = False,
    idempotent: Annotated[
        bool, typer.Option("--idempotent", help="With --producer: for brokers before 2.8.")
    ] = False,
    consumer: Annotated[
        bool, typer.Option("--consumer", help="All that a consumer in the groups needs.")
    ] = False,
    pattern: Annotated[
        str, typer.Option(metavar="TYPE", help="literal, or prefixed: all names that begin so.")
    ] = "literal",
    dry_run: Dry = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    bootstrap_controller: BootstrapController = None,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Add ACLs. Without an operation, they are for all operations. One that exists is no error.

    Examples:

    - `ottla acls add --allow User:ann --operation read --topic orders`

    - `ottla acls add --allow User:shop --producer --topic shop- --pattern prefixed`

    - `ottla acls add --allow User:ann --consumer --topic orders --group billing`
    """
    from ottla.cli.security.acls.selection import (
        Resources,
        Who,
        acls_wanted,
        check_hosts,
        check_names,
        check_who,
        pattern_named,
    )
    from ottla.client.admin.acls import AclPatternType

    resources = Resources(topics, groups, transactional_ids, tokens, users, cluster)
    who = Who(allowed, denied, allowed_hosts, denied_hosts)
    check_who(who)
    check_hosts(who)
    kind = pattern_named(pattern)
    if kind not in (AclPatternType.LITERAL, AclPatternType.PREFIXED):
        raise typer.BadParameter("an ACL is literal or prefixed", param_hint="--pattern")
    check_names(resources, kind)
    if not (who.allowed or who.denied):
        raise typer.BadParameter("name a principal: --allow User:NAME, or --deny User:NAME")
    wanted = acls_wanted(
        resources, who, operations, kind,
        producer=producer, consumer=consumer, idempotent=idempotent,
    )  # fmt: skip
    if dry_run:
        _show_plan(wanted, "would be added", as_json=as_json)
        return
    _add(wanted, _Asked(bootstrap, bootstrap_controller, timeout_ms), as_json=as_json)


def _add(wanted: list[Acl], asked: _Asked, *, as_json: bool) -> None:
    from ottla.cli.output import print_json, print_note
    from ottla.cli.security.acls.output import as_dict, show

    outcomes = asked.do(lambda admin: admin.create_acls(wanted))
    added = [acl for acl, error in outcomes.items() if error is None]
    if as_json:
        print_json([as_dict(acl) for acl in added])
    elif added:
        show(added)
        print_note(f"({_counted(len(added))} there now.)")
    errors = dict.fromkeys(str(error) for error in outcomes.values() if error is not None)
    for error in errors:
        print_note(f"ottla: {error}")
    if errors:
        raise typer.Exit(1)


@app.command()
def remove(
    topics: Topics = None,
    groups: Groups = None,
    transactional_ids: TransactionalIds = None,
    tokens: Tokens = None,
    users: Users = None,
    cluster: OnCluster = False,
    allowed: Allowed = None,
    denied: Denied = None,
    allowed_hosts: AllowedHosts = None,
    denied_hosts: DeniedHosts = None,
    principals: Annotated[
        list[str] | None,
        typer.Option("--principal", metavar="PRINCIPAL", help="What allows or denies it."),
    ] = None,
    operations: Operations = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE",
            help="literal, prefixed, any, or match (all that apply). Literal if a resource is "
            "named, else any.",
        ),
    ] = None,
    dry_run: Dry = False,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    bootstrap_controller: BootstrapController = None,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Remove the ACLs that match: what is not named may be anything. Shows them and asks first.

    Examples:

    - `ottla acls remove --topic orders --allow User:ann --operation read`

    - `ottla acls remove --principal User:ann`
    """
    from ottla.cli.output import print_note
    from ottla.cli.security.acls.selection import (
        Resources,
        Who,
        check_principal,
        check_who,
        filters_of,
        operation_named,
        pattern_named,
    )

    resources = Resources(topics, groups, transactional_ids, tokens, users, cluster)
    who = Who(allowed, denied, allowed_hosts, denied_hosts)
    check_who(who)
    for principal in principals or ():
        check_principal(principal, "--principal")
    if not (list(resources) or who.allowed or who.denied or principals):
        raise typer.BadParameter("name a resource or a principal whose ACLs are to go")
    named = list(map(operation_named, operations or ()))
    kind = pattern_named(pattern or ("literal" if list(resources) else "any"))
    filters = filters_of(resources, who, principals or (), named, kind)
    asked = _Asked(bootstrap, bootstrap_controller, timeout_ms)
    found = asked.do(lambda admin: _found(admin, filters))
    if not found:
        print_note("ottla: no ACL matches")
        raise typer.Exit(1)
    if dry_run:
        _show_plan(found, "would be removed", as_json=as_json)
        return
    if not yes:
        _show_plan(found, "match", as_json=False)
        want_consent(f"Remove {len(found)} ACL{'s' * (len(found) > 1)}?", yes)
    _remove(found, asked, as_json=as_json)


def _remove(found: list[Acl], asked: _Asked, *, as_json: bool) -> None:
    from ottla.cli.output import deed
    from ottla.cli.security.acls.output import as_dict
    from ottla.client.admin.acls import AclFilter
    from ottla.protocol.errors import KafkaError

    # Exactly those that were shown, not what matches by now.
    outcomes = asked.do(lambda admin: admin.delete_acls(AclFilter(*acl) for acl in found))
    removed: list[Acl] = []
    for outcome in outcomes.values():
        if isinstance(outcome, KafkaError):
            raise outcome
        removed += outcome
    deed(as_json, [as_dict(acl) for acl in removed], f"{_counted(len(removed))} removed.")


async def _found(admin: Admin, filters: list[AclFilter]) -> list[Acl]:
    found: dict[Acl, None] = {}
    for one in filters:
        found |= dict.fromkeys(await admin.describe_acls(one))
    return sorted(found)


def _show_plan(acls: list[Acl], what: str, *, as_json: bool) -> None:
    from ottla.cli.output import print_json, print_note
    from ottla.cli.security.acls.output import as_dict, show

    if as_json:
        print_json([as_dict(acl) for acl in acls])
        return
    show(acls)
    print_note(f"({len(acls)} {what}.)")


def _counted(count: int) -> str:
    return "1 ACL is" if count == 1 else f"{count} ACLs are"


@app.command("test")
def decide(
    principal: Annotated[str, typer.Option("--principal", metavar="PRINCIPAL", help="User:NAME.")],
    operation: Annotated[str, typer.Option("--operation", metavar="NAME", help="read, write, ...")],
    topic: Annotated[str | None, typer.Option("--topic", help="On this topic.")] = None,
    group: Annotated[str | None, typer.Option("--group", help="On this group.")] = None,
    transactional_id: Annotated[
        str | None, typer.Option("--transactional-id", help="On this transactional id.")
    ] = None,
    cluster: Annotated[bool, typer.Option("--cluster", help="On the cluster.")] = False,
    host: Annotated[
        str, typer.Option("--host", metavar="IP", help="From this address.", show_default=False)
    ] = "*",
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    bootstrap_controller: BootstrapController = None,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Say whether somebody may do something, and by which ACL. Exits with 1 if not.

    The brokers do not tell who their super users are: those may do everything.

    Examples:

    - `ottla acls test --principal User:ann --operation read --topic orders`

    - `ottla acls test --principal User:ann --operation create --cluster --host 10.0.0.7`
    """
    from ottla.cli.output import deed
    from ottla.cli.security.acls.selection import (
        Resources,
        address_of,
        check_principal,
        operation_named,
    )
    from ottla.cli.security.acls.verdict import NOT_KNOWN, bound_to_addresses, verdict_of
    from ottla.client.admin.acls import AclFilter, AclPatternType

    check_principal(principal, "--principal")
    host = address_of(host)
    resources = Resources(
        topics=[topic] if topic else (),
        groups=[group] if group else (),
        transactional_ids=[transactional_id] if transactional_id else (),
        cluster=cluster,
    )
    if len(list(resources)) != 1:
        raise typer.BadParameter(
            "name one resource: --topic, --group, --transactional-id or --cluster"
        )
    ((kind, name),) = resources
    wanted = operation_named(operation)
    matching = AclFilter(kind, name, pattern_type=AclPatternType.MATCH)
    asked = _Asked(bootstrap, bootstrap_controller, timeout_ms)
    acls = asked.do(lambda admin: admin.describe_acls(matching))
    verdict = verdict_of(acls, principal, host, wanted, kind, name)
    word = "allowed" if verdict.is_allowed else "denied"
    hint = "" if verdict.acl else f" ({NOT_KNOWN[verdict.reason]})"
    if bound := bound_to_addresses(acls, principal, host, wanted):
        hint += f"; but see --host: there are ACLs for {', '.join(bound)}"
    deed(
        as_json,
        {"allowed": verdict.is_allowed, "rule": verdict.rule, "principal": principal},
        f"{word}: {verdict.rule}{hint}",
    )
    if not verdict.is_allowed:
        raise typer.Exit(1)
