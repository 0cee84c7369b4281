"""A group of commands that lists when no command of it is named: ``windlass queues shop:app`` is ``queues list``."""

from __future__ import annotations

import click

from windlass.core.hints import did_you_mean

LIST = "list"
_HELP = ("-h", "--help")


class ListGroup(click.Group):
    """A group where every word that is not one of its commands is an argument of ``list``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = bool(args) and (args[0] in self.commands or args[0] in _HELP)
        if args and not named and ":" not in args[0] and (hint := did_you_mean(args[0], self.commands)):
            raise click.UsageError(f"no such command: {args[0]!r}{hint}", ctx)
        return super().parse_args(ctx, args if named or ctx.resilient_parsing else [LIST, *args])
