"""``windlass completion``: the script that makes a shell complete commands, options, tasks and queues."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_HOW = {
    "bash": 'eval "$(windlass completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(windlass completion zsh)" in ~/.zshrc',
    "fish": "windlass completion fish > ~/.config/fish/completions/windlass.fish",
}


@click.command(epilog="Install it with: " + "; ".join(_HOW.values()))
@click.argument("shell", type=click.Choice(sorted(_HOW)))
def completion(shell: str) -> None:
    """Print the completion script of a shell: bash, zsh or fish."""
    root = click.get_current_context().find_root().command
    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"click knows no completion for {shell}")
    click.echo(found(root, {}, "windlass", "_WINDLASS_COMPLETE").source())
