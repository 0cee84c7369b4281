"""Which process this is, without asking the system for it: a number that changes in a forked child.

Connections and clients remember the number they were made under, and are abandoned where it is another. Asking for the
process id at every call would cost a system call each.
"""

from __future__ import annotations

import os


class Lineage:
    """``number``: how many forks lie between the first process and this one, as far as this module was there."""

    number = 0


lineage = Lineage()


def _forked() -> None:
    lineage.number += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
