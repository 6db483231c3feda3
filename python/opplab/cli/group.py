"""Groups of commands: without a command they show their help, and a wrong one gets the nearest name."""

from __future__ import annotations

import difflib
from typing import Any

import click


class Group(click.Group):
    """Commands under a name: without one of them the help is shown, and a wrong one gets the nearest name."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **{"invoke_without_command": True, "no_args_is_help": False, **keywords})

    def invoke(self, ctx: click.Context) -> Any:
        """Show the help if there is no command."""
        if not ctx._protected_args and not ctx.args:
            click.echo(ctx.get_help())
            return None
        return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands, each with all of its first sentence."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, command.get_short_help_str(limit=1000))
                    for name in self.list_commands(ctx)
                    if (command := self.get_command(ctx, name)) is not None and not command.hidden
                ]
            )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest command when there is none of the given name; refuse options that are given too often."""
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], known, n=1, cutoff=0.5)
            hint = f"; did you mean '{near[0]}'?" if near else f" (there is: {', '.join(known)})"
            ctx.fail(f"no such command '{args[0]}'{hint}")
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            _check_once(click.Context(command, ctx, name), rest)
        return name, command, rest


def _check_once(ctx: click.Context, args: list[str]) -> None:
    """Refuse an option that takes one value and is given several times: click would keep the last in silence."""
    ctx.resilient_parsing = True
    _, _, given = ctx.command.make_parser(ctx).parse_args(list(args))
    for option in given:
        of_one = isinstance(option, click.Option) and not (option.multiple or option.is_flag or option.count)
        if of_one and given.count(option) > 1:
            ctx.fail(f"{max(option.opts, key=len)} takes one value and is given {given.count(option)} times")
