"""Command families: the behaviour that all commands and groups of commands share.

They accept options of Kafka's tools (`kafka_habits`) and of the connection (`connection_options`),
and complete names of topics and groups in the shell (`completion`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from ottla.cli.connection_options import add_connection_options
from ottla.cli.kafka_habits import UnknownHabit, translate, translate_entity

F = TypeVar("F", bound=Callable[..., Any])


class FamilyCommand(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, in_our_words(self, ctx, args))


class FamilyGroup(TyperGroup):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        args = self._with_command_first(args)
        if not args or args[0] not in self.commands:  # otherwise all belong to that command
            args = in_our_words(self, ctx, args)
        return super().parse_args(ctx, args)

    def _with_command_first(self, args: list[str]) -> list[str]:
        """Turn `--bootstrap-server A --create --topic T` into `create --bootstrap-server ...`."""
        if not args or not args[0].startswith("-"):
            return args
        for at, word in enumerate(args):
            if word in self.commands:
                return args
            if word.startswith("--") and word[2:] in self.commands:
                return [word[2:], *args[:at], *args[at + 1 :]]
        return args


def refuse_options_before_subcommand(context: typer.Context) -> None:
    """Refuse options before a subcommand: each subcommand has its own, so they would be lost."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is not None and source.name == "COMMANDLINE":
            sub = context.invoked_subcommand
            context.fail(f"write {parameter.opts[0]} after `{context.command_path} {sub}`")


def in_our_words(command: Any, ctx: Any, args: list[str]) -> list[str]:
    flags, valued, first = set[str](), set[str](), ""
    for parameter in command.get_params(ctx):
        if parameter.param_type_name == "argument":
            first = first or parameter.metavar or ""
            continue
        names = {*parameter.opts, *parameter.secondary_opts}
        if getattr(parameter, "is_flag", False) or getattr(parameter, "count", False):
            flags |= names
        else:
            valued |= names
    if ctx.resilient_parsing:
        # For completion the last words may be part of an option.
        return args
    try:
        path = ctx.command_path.removeprefix(ctx.find_root().command_path).strip()
        if path.startswith("configs "):
            args = translate_entity(args)
        return translate(path, args, flags, valued, first)
    except UnknownHabit as error:
        ctx.fail(str(error))
        raise AssertionError("unreachable") from error


class Family(typer.Typer):
    """A typer application whose commands share this behaviour."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[[F], F]:
        settings.setdefault("cls", FamilyCommand)
        register = super().command(name, **settings)

        def decorate(function: F) -> F:
            register(add_connection_options(function))
            return function

        return decorate

    def callback(self, **settings: Any) -> Callable[[F], F]:
        register = super().callback(**settings)

        def decorate(function: F) -> F:
            register(add_connection_options(function))
            return function

        return decorate
