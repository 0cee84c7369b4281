"""The name of Windlass's distribution, and how its optional parts are installed.

This is the one place that knows the distribution's name. It differs from the import's: on the public index ``windlass``
is another project.
"""

from __future__ import annotations

DISTRIBUTION = "windlass-jobs"
"""What pip calls it; ``import windlass`` and the command ``windlass`` are another name."""

STRANGER = "windlass"
"""A distribution of somebody else's with the same import, which overwrites files of this one."""


def pip_install(*extras: str) -> str:
    """The command that installs these extras, with quotes that every shell takes."""
    return f'pip install "{DISTRIBUTION}[{",".join(extras)}]"'
