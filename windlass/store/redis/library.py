"""The library of functions that the engine calls on the server, put together from the files in ``lua/``.

Its name and those of its functions carry a hash of the code, so that processes of different versions can work on one
server at the same time, each with its own.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from windlass.core import lifecycle
from windlass.store.redis.commands import Library

SHARED = (
    "records", "step", "rows", "news", "jobs/skills", "graphs/nodes",
    "jobs/moves", "jobs/faults", "graphs/ending", "jobs/acceptance", "jobs/damage", "jobs/expiry", "jobs/retention",
    "jobs/telling", "closing", "flow/terms", "flow/gates", "flow/lanes", "flow/strict", "flow/places", "flow/uniques",
    "jobs/recovery", "graphs/spreading", "graphs/reopening", "graphs/opening", "graphs/todos", "graphs/repair",
    "graphs/audits",
)  # fmt: skip
"""What all calls are made of. A local name is known to the parts below its own; what is in a table (``flow``,
``gates``, ``lanes``, ``unique``, ``faults``, ``graphs``) is known to all of them, wherever it is written."""

CALLS = (
    ("jobs/intake", "items/items", "items/logs", "items/reading", "items/commit"), ("graphs/staging",),
    ("flow/grants", "flow/plain", "flow/turns", "flow/solo", "flow/claim", "jobs/settle", "jobs/exchange"),
    ("jobs/workers",), ("jobs/sweeps",), ("reads/records", "reads/find"), ("reads/queues",),
    ("reads/summaries", "reads/news"), ("flow/holds",), ("graphs/lookups",), ("jobs/changes",), ("jobs/watches",),
    ("flow/tuning",), ("upgrade",),
)  # fmt: skip
"""The calls, each in a scope of its own: Lua allows 200 local names in one."""

FUNCTIONS = (
    "insert", "exchange", "beat", "leave", "note", "sweep", "change", "watch", "unwatch", "signal", "get", "find",
    "queues", "workers", "lines", "insert_graph", "inputs", "graph", "workflows", "members", "tune", "gates", "holds",
    "uniques", "moment", "totals", "faults", "events", "commit",
    "items", "shelf", "records", "logs", "retain", "upgrade",
)  # fmt: skip


@functools.cache
def build() -> tuple[Library, dict[str, bytes]]:
    """The library, and by what name each function is called."""
    folder = files("windlass.store.redis") / "lua"

    def text(parts: Sequence[str]) -> str:
        return "\n".join((folder / f"{part}.lua").read_text() for part in parts)

    code = text(SHARED) + "".join(f"do\n{text(call)}end\n" for call in CALLS)
    name = f"windlass_{hashlib.sha256((errors() + code).encode()).hexdigest()[:12]}"
    whole = f"#!lua name={name}\nlocal LIBRARY = {{ name = '{name}', errors = {errors()} }}\n{code}"
    return Library(name, whole.encode()), {function: f"{name}_{function}".encode() for function in FUNCTIONS}


def errors() -> str:
    """The errors that the store itself gives are worded in ``core`` alone: here they are made with marks in the places
    which a function fills in."""
    many = lifecycle.crash_error(99_999, "@worker@").replace(b"99999", b"@times@")
    silent = [lifecycle.crash_error(crashes, "@worker@", 88_888_000) for crashes in (1, 99_999)]
    silent = [error.replace(b"88888", b"@seconds@").replace(b"99999", b"@times@") for error in silent]
    unknown = lifecycle.unknown_error("@task@", 99_999, 88_888_000)
    made = {
        "expired": lifecycle.expired_error(),
        "crashed_once": lifecycle.crash_error(1, "@worker@"),
        "crashed": many,
        "silent_once": silent[0],
        "silent": silent[1],
        "unknown": unknown.replace(b"99999", b"@version@").replace(b"88888", b"@seconds@"),
        "corrupt": lifecycle.corrupt_error(),
        "dropped": lifecycle.dropped_error("@queue@", 99_999).replace(b"99999", b"@most@"),
    }
    return "{ " + ", ".join(f"{name} = [==[{error.decode()}]==]" for name, error in made.items()) + " }"


build()  # read along with the Python that goes with it: the files may belong to a newer version by the first call
