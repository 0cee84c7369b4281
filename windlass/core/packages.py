"""What Windlass is called where packages come from, and how its optional parts are asked for.

The one place that knows the distribution's name. It is not the name of the import: on the public index ``windlass`` is
somebody else's project.
"""

from __future__ import annotations

DISTRIBUTION = "windlass-jobs"
"""What pip calls it; ``import windlass`` and the command ``windlass`` are another name."""

STRANGER = "windlass"
"""A distribution of somebody else's with the same import, which overwrites files of this one."""


def pip_install(*extras: str) -> str:
    """The command that brings extras along, in quotes that every shell takes."""
    return f'pip install "{DISTRIBUTION}[{",".join(extras)}]"'
