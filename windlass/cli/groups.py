"""A group of commands that lists when no command of it is named: ``windlass queues shop:app`` is ``queues list``."""

from __future__ import annotations

import click

LIST = "list"
_HELP = ("-h", "--help")


class ListGroup(click.Group):
    """Whatever is not the name of one of its commands is an argument of ``list``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = bool(args) and (args[0] in self.commands or args[0] in _HELP)
        return super().parse_args(ctx, args if named or ctx.resilient_parsing else [LIST, *args])
