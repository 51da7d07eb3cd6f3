"""`ottla users`: users that sign in with SCRAM."""

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
from ottla.cli.security.password import PasswordEnv, PasswordFile, read_password

if TYPE_CHECKING:
    from pathlib import Path

    from ottla.client.admin.admin import Admin
    from ottla.client.admin.users import (
        ScramCredential,
        ScramDeletion,
        ScramMechanism,
        ScramUpsertion,
    )

app = new_app("Show users that sign in with SCRAM, add them, change and remove them.")

UserName: TypeAlias = Annotated[str, typer.Argument(metavar="USER")]
Mechanism: TypeAlias = Annotated[
    str,
    typer.Option("--mechanism", "-m", metavar="NAME", help="SCRAM-SHA-256 or SCRAM-SHA-512."),
]
Iterations: TypeAlias = Annotated[
    int,
    typer.Option(
        "--iterations", min=4_096, max=16_384, help="How much work each guess of the password is."
    ),
]
DryRun: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")
]


@app.command("list")
def list_(
    users: Annotated[
        list[str] | None, typer.Argument(metavar="[USER]...", show_default=False)
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """List users, the mechanisms that they can sign in with, and their iterations.

    Examples:

    - `ottla users list`

    - `ottla users list alice --json`
    """
    from ottla.cli.output import print_json, print_note, print_table
    from ottla.cli.session import with_admin
    from ottla.protocol.errors import KafkaError

    found = with_admin(
        bootstrap,
        lambda admin: admin.describe_user_scram_credentials(users or None),
        timeout_ms=timeout_ms,
    )
    failed = {user: one for user, one in found.items() if isinstance(one, KafkaError)}
    rows = [
        (user, credential.mechanism.mechanism_name, credential.iterations)
        for user, credentials in sorted(found.items())
        if not isinstance(credentials, KafkaError)
        for credential in credentials
    ]
    columns = ("user", "mechanism", "iterations")
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    elif rows or not failed:
        print_table(columns, rows)
    for user in failed:
        print_note(f"ottla: user {user} does not exist")
    if failed:
        raise typer.Exit(1)


@app.command()
def add(
    user: UserName,
    mechanism: Mechanism = "SCRAM-SHA-512",
    iterations: Iterations = 4_096,
    password_file: PasswordFile = None,
    password_env: PasswordEnv = None,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
) -> None:
    """Add a user, or another mechanism of one. The password is asked for.

    The cluster stores no password, but keys that are made from it with a random salt.

    Examples:

    - `ottla users add alice`

    - `ottla users add alice --mechanism SCRAM-SHA-256 --password-file alice.secret`
    """
    _set(
        user, mechanism, iterations, password_file, password_env, dry_run, bootstrap, timeout_ms,
        exists=False,
    )  # fmt: skip


@app.command()
def alter(
    user: UserName,
    mechanism: Mechanism = "SCRAM-SHA-512",
    iterations: Iterations = 4_096,
    password_file: PasswordFile = None,
    password_env: PasswordEnv = None,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
) -> None:
    """Give a user a new password for a mechanism that it has. Connections that it has stay.

    Example:

    - `ottla users alter alice --password-env NEW_PASSWORD`
    """
    _set(
        user, mechanism, iterations, password_file, password_env, dry_run, bootstrap, timeout_ms,
        exists=True,
    )  # fmt: skip


@app.command()
def remove(
    user: UserName,
    mechanism: Annotated[
        str | None,
        typer.Option(
            "--mechanism", "-m", metavar="NAME", help="Only this one; all of them, if not given."
        ),
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
) -> None:
    """Remove a user: it can no longer sign in. Connections that it has stay.

    Example:

    - `ottla users remove alice --yes`
    """
    from ottla.cli.output import print_line
    from ottla.cli.session import with_admin
    from ottla.client.admin.users import ScramDeletion
    from ottla.protocol.errors import ErrorCode, KafkaError

    only = None if mechanism is None else _mechanism(mechanism)

    async def has(admin: Admin) -> list[ScramMechanism]:
        there = [one.mechanism for one in await _credentials(admin, user)]
        return [one for one in there if only in (None, one)]

    mechanisms = with_admin(bootstrap, has, timeout_ms=timeout_ms)
    if not mechanisms:
        missing = f"user {user} does not exist" if only is None else f"{user} has no {mechanism}"
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, missing)
    told = f"{', '.join(one.mechanism_name for one in mechanisms)} of {user}"
    if dry_run:
        print_line(f"Would remove {told}.")
        return
    want_consent(f"Remove {told}?", yes)

    async def work(admin: Admin) -> None:
        for one in mechanisms:  # a request may change a user once
            await _change(admin, ScramDeletion(user, one))

    with_admin(bootstrap, work, timeout_ms=timeout_ms)
    print_line(f"Removed {told}.")


def _set(
    user: str,
    mechanism: str,
    iterations: int,
    password_file: Path | None,
    password_env: str | None,
    dry_run: bool,
    bootstrap: str,
    timeout_ms: int,
    *,
    exists: bool,
) -> None:
    """Set a password, after a check that the user has the mechanism already, or not yet."""
    from ottla.cli.output import print_line
    from ottla.cli.security.quotas import without_type
    from ottla.cli.session import with_admin
    from ottla.client.admin.users import ScramUpsertion
    from ottla.protocol.errors import ErrorCode, KafkaError

    wanted = _mechanism(mechanism)
    without_type(user, "USER")
    if not exists and not (user.isascii() and user.isprintable()):
        raise typer.BadParameter(
            f"{user!r}: names of users are printable ASCII, others cannot sign in by SCRAM"
        )

    async def check(admin: Admin) -> None:
        there = any(one.mechanism is wanted for one in await _credentials(admin, user))
        if there and not exists:
            message = f"{user} has {mechanism} already; `ottla users alter` gives a new password"
            raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, message)
        if exists and not there:
            message = f"{user} has no {mechanism}; `ottla users add` adds it"
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, message)

    with_admin(bootstrap, check, timeout_ms=timeout_ms)
    done = ("set a new password of" if exists else "add", f"{user} with {mechanism}")
    if dry_run:
        print_line(f"Would {' '.join(done)}.")
        return
    password = read_password(user, password_file, password_env)
    upsertion = ScramUpsertion(user, password, wanted, iterations)
    with_admin(bootstrap, lambda admin: _change(admin, upsertion), timeout_ms=timeout_ms)
    print_line(f"Set a new password of {done[1]}." if exists else f"Added {done[1]}.")


def _mechanism(name: str) -> ScramMechanism:
    from ottla.client.admin.users import ScramMechanism

    for one in ScramMechanism:
        if one.mechanism_name == name.upper():
            return one
    known = " or ".join(one.mechanism_name for one in ScramMechanism)
    raise typer.BadParameter(f"--mechanism: expected {known}, not {name!r}")


async def _credentials(admin: Admin, user: str) -> list[ScramCredential]:
    """Return the credentials of a user; none if it does not exist."""
    from ottla.protocol.errors import ErrorCode, KafkaError

    found = (await admin.describe_user_scram_credentials([user]))[user]
    if not isinstance(found, KafkaError):
        return found
    if found.code is ErrorCode.RESOURCE_NOT_FOUND:
        return []
    raise found


async def _change(admin: Admin, change: ScramUpsertion | ScramDeletion) -> None:
    for error in (await admin.alter_user_scram_credentials([change])).values():
        if error is not None:
            raise error
