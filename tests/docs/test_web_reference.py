"""The pages on the HTTP API and on filters are complete and say what the code says."""

from __future__ import annotations

import re

from tests.docs.test_reference import rows, section
from windlass import Windlass
from windlass.console.desk import Desk
from windlass.console.search import LOOKED, OF_VALUES, SECONDS, plan_search
from windlass.core.access import EVERYTHING, RIGHTS
from windlass.core.filters import LONGEST, NAMES, parse_filter
from windlass.web.api import TABLE
from windlass.web.operation import Operation
from windlass.web.probes import ROUTES
from windlass.web.streams import LIFETIME_SECONDS

API, FILTERS = "docs/reference/http-api.md", "docs/reference/filters.md"


def row(operation: Operation) -> str:
    says = " ".join(operation.says.partition("\n\n")[0].split()).replace("``", "`")
    takes = ", ".join(f"`{name}`" for name in (operation.asked.__struct_fields__ if operation.asked else ()))
    return f"| `{operation.method} {operation.path}` | `{operation.right}` | {takes} | {says} |"


def test_every_operation_has_its_row() -> None:
    found = [line for line in section(API, "Operations").splitlines() if line.startswith("| `")]
    assert found == [row(operation) for operation in TABLE]


def test_every_right_is_there() -> None:
    assert {name: cells[0].rstrip(" |") for name, cells in rows(section(API, "Rights")).items()} == RIGHTS


def test_every_probe_is_there() -> None:
    told = {name.partition("?")[0] for name in rows(section(API, "Probes"))}
    assert {route.path for route in ROUTES} <= told


def test_streams_last_as_long_as_is_said() -> None:
    assert f"after {LIFETIME_SECONDS / 60:.0f} minutes" in section(API, "Streams")


def test_every_name_of_a_filter_is_there_with_an_example_that_reads() -> None:
    table = rows(section(FILTERS, "Names"))
    assert {name: cells[0] for name, cells in table.items() if name in NAMES} == NAMES
    examples = re.findall(r"\| `(\w+)` \| .* \| `(.+)` \|$", section(FILTERS, "Names"), re.MULTILINE)
    assert [name for name, _ in examples] == list(NAMES)
    for name, example in examples:
        found = parse_filter(example, 1_800_000_000_000)
        assert example.startswith(f"{name}:" if name != "args" else "args.")
        assert found.terms or found.since or found.until
    for example in re.findall(r"`([a-z]+(?:\.\w+)*:[^`]+|\"[^`]+\")`", section(FILTERS, "Rules")):
        parse_filter(example, 1_800_000_000_000)


def test_the_bounds_are_as_is_said() -> None:
    assert f"at most {LONGEST:,} characters" in section(FILTERS, "Rules")
    assert f"after {LOOKED:,} records or {SECONDS} seconds" in section(FILTERS, "What it costs")


def test_what_an_index_answers_is_as_is_said() -> None:
    desk = Desk(Windlass("shop", "memory://"), EVERYTHING, "code")
    cheap = (
        "state:failed,ready",
        "queue:a",
        "task:a",
        "fingerprint:a",
        "since:1h until:1m",
        "-state:failed",
        "age:>1h",
        "state:running worker:web-1-4711-0Q7iAqXjjRPfw4shswgO",
    )
    assert all(plan_search(desk, filter).indexed for filter in cheap)
    dear = ["queue:a,b", "task:a*", "worker:w", "word", "args.x:1", "error:x", "key:x", "tag:x"]
    assert not any(plan_search(desk, filter).indexed for filter in dear)


def test_what_needs_the_right_to_values_is_as_is_said() -> None:
    told = section(FILTERS, "Who may").partition(" need the right")[0]
    assert {name.strip("`") for name in re.findall(r"`\w+`", told)} | {"text"} == set(OF_VALUES)
    assert told.strip().startswith("Words")
