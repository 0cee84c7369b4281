"""The reference pages are complete and say what the code says."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import get_args

import click
import pytest

from tests.docs.pages import read
from windlass import Chord, Flow, Group, Signature, SyncWorkflow, Tree, Work, Workflow, WorkflowInfo, errors
from windlass.cli.main import cli
from windlass.core.duration import to_ms
from windlass.core.event import KINDS
from windlass.core.flow_rules import FlowRules
from windlass.core.graph import WORK
from windlass.core.job import State
from windlass.core.keep import DEFAULT_KEEP, Keep
from windlass.core.links import WIDTH
from windlass.core.options import APP_NAMES, CALL_NAMES, QUEUE_NAMES, TASK_NAMES, Resolved
from windlass.observe.names import STORE, WORKER, Spec
from windlass.settings import AppOptions, Settings, WorkerOptions
from windlass.store.base import StoreSettings
from windlass.store.redis import errors as redis_errors
from windlass.store.redis import library as redis_library
from windlass.store.redis import location
from windlass.store.sqlite.location import DURABILITY, OPTIONS
from windlass.worker.worker_options import CheckedOptions
from windlass.workflows import plan
from windlass.workflows.work import IfFails
from windlass.workflows.workflow import WorkflowProgress

Rows = dict[str, list[str]]


def section(page: str, title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", read(page), re.MULTILINE | re.DOTALL)
    assert found, f"{page} has no section {title!r}"
    return found[1]


def rows(text: str) -> Rows:
    """A table's rows by the names in their first cell."""
    found: Rows = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("|") else []
        for name in re.findall(r"`([^`]+)`", cells[0]) if len(cells) > 1 else ():
            found[name] = cells[1:]
    return found


OPTIONS_PAGE = "docs/reference/options.md"


def test_every_job_option_is_there_with_its_scopes() -> None:
    names = QUEUE_NAMES | TASK_NAMES | CALL_NAMES
    expected = {name: [scope for scope, known in SCOPES.items() if name in known] for name in names}
    found = {name: cells[0].split(", ") for name, cells in rows(section(OPTIONS_PAGE, "Of a job")).items()}
    assert found == expected


SCOPES = {"app": APP_NAMES, "queue": QUEUE_NAMES, "task": TASK_NAMES, "call": CALL_NAMES}


def test_defaults_of_jobs() -> None:
    table = {name: cells[1].strip('`"') for name, cells in rows(section(OPTIONS_PAGE, "Of a job")).items()}
    rules = Resolved("default")
    assert int(table["retries"]) == rules.retry.retries
    assert table["backoff"] == type(rules.retry.backoff).__name__ + "()"
    assert to_ms(table["cancel_grace"]) == rules.cancel_grace
    assert int(table["priority"]) == rules.priority
    assert int(table["max_crashes"]) == rules.max_crashes
    assert table["result"] == str(rules.result)
    assert table["on_expire"] == {State.CANCELLED: "cancel", State.FAILED: "fail"}[rules.expire_to]
    assert (rules.timeout, rules.soft_timeout, rules.expires_in, rules.expires_at) == (0, 0, 0, 0)
    assert (table["timeout"], table["soft_timeout"], table["expires"]) == ("none", "none", "never")
    assert to_ms(table["full_timeout"]) == rules.full_wait
    flow = FlowRules()
    assert to_ms(table["gap_timeout"]) == flow.gap_timeout
    for name in ("units", "ordered", "unique", "unique_policy", "when_full"):
        assert table[name] == str(getattr(flow, name)), name
    off = {"key", "key_limit", "key_rate", "seq", "unique_for", "debounce_max", "ageing", "max_ready", "breaker"}
    assert not any(getattr(flow, name) for name in off)
    assert {table[name] for name in (*off, "batch", "rate", "limit")} == {"none"}


def test_every_app_option_is_there_with_its_default() -> None:
    table = rows(section(OPTIONS_PAGE, "Of the app"))
    own = set(AppOptions.__annotations__) - APP_NAMES
    assert table.keys() == own
    for name, cells in table.items():
        written, default = cells[0].strip("`"), getattr(Settings(), name)
        if isinstance(default, bool):
            assert written == str(default), name
        else:
            assert (int(written) if written.isdigit() else to_ms(written)) == default, name
    assert 'Keep(count=100_000, age="1h", failed=Keep(count=100_000, age="30d"))' in read(OPTIONS_PAGE)
    assert Keep(count=100_000, age="1h", failed=Keep(count=100_000, age="30d")) == DEFAULT_KEEP


def test_every_worker_option_is_there_with_its_default() -> None:
    table = rows(section(OPTIONS_PAGE, "Of a worker"))
    assert table.keys() == WorkerOptions.__annotations__.keys()
    plan = CheckedOptions(())
    assert int(table["concurrency"][0].strip("`")) == plan.concurrency
    for name in ("grace", "stall_warning", "stall_limit"):
        assert to_ms(table[name][0].strip("`")) == getattr(plan, name) * 1000, name
    assert (plan.children, plan.max_jobs, plan.max_memory) == (0, 0, 0)


def test_sqlite_url_options() -> None:
    text = section(OPTIONS_PAGE, "Of a SQLite URL")
    assert all(word in text for word in (*OPTIONS, *DURABILITY))


REDIS_PAGE = "docs/reference/redis.md"


def test_every_redis_scheme_and_option_is_there_with_its_default() -> None:
    assert rows(section(REDIS_PAGE, "URLs")).keys() == location.KINDS.keys()
    table = rows(section(REDIS_PAGE, "Options"))
    assert table.keys() == set(location.OPTIONS)
    found = location.parse_url("rediss+sentinel://h/main", "shop")
    assert found.tls is not None
    for name in location.TIME_OPTIONS:
        assert to_ms(table[name][0].strip("`")) == getattr(found, name) * 1000, name
    for name in ("db", "wait_replicas"):
        assert table[name][0].strip("`") == str(getattr(found, name)), name
    assert table["tls_check_hostname"][0].strip("`") == str(found.tls.check_hostname).lower()
    assert f"1 to {location.PREFIX_MAX} characters" in table["prefix"][1]


def test_every_redis_key_is_there() -> None:
    """Whatever the functions put behind the prefix, and nothing that they do not."""
    code = "".join(path.read_text() for path in Path(redis_library.__file__).parent.glob("lua/**/*.lua"))
    used = set(re.findall(r"(?:t\.p \.\. '|t\.k\.)([a-z]+)", code)) | {"meta"}
    assert "t.k[STATES[state]]" in code
    used |= {str(state) for state in State if state.terminal and state is not State.SUCCEEDED}
    named = {name for row in rows(section(REDIS_PAGE, "Keys")) for name in re.findall("^[a-z]+", row)}
    assert used - named == {"to"}, "channels are no keys"
    assert named - used == set()


def test_the_rights_of_a_redis_user() -> None:
    text = read("docs/how-to/use-redis.md").replace("'", "")
    granted = redis_errors.rights(location.parse_url("redis://shop:secret@h", "shop")).removeprefix("ACL SETUSER shop ")
    assert f"ACL SETUSER shop on >secret {granted}\n" in text
    clustered = redis_errors.rights(location.parse_url("redis+cluster://shop:secret@h", "shop"))
    assert f"In a Cluster add `{clustered.rpartition(' ')[2]}`" in text


def test_every_state_is_there() -> None:
    text = read("docs/reference/states.md")
    table = rows(text.partition("## What moves a job")[0])
    assert {name: cells[1] for name, cells in table.items()} == {
        state.value: "yes" if state.terminal else "no" for state in State
    }


def test_every_event_kind_is_there() -> None:
    found = rows(read("docs/reference/events.md").partition("| kind |")[2])
    assert found.keys() == KINDS


def test_every_error_is_there() -> None:
    found = {name.partition("(")[0] for name in rows(read("docs/reference/errors.md"))}
    expected = {name for name, value in vars(errors).items() if inspect.isclass(value)} - {"WindlassError"}
    assert found == expected


# -- workflows

WORKFLOW_PAGE = "docs/reference/workflows.md"


def words(title: str) -> set[str]:
    """What the first cells of a section's tables name, without arguments and what it is a method of."""
    names = [re.sub(r"^(return )?(await )?(current\(\)\.)?", "", name) for name in rows(section(WORKFLOW_PAGE, title))]
    return {re.split(r"[(\s]", name)[0].rpartition(".")[2] for name in names}


def public(*kinds: type) -> set[str]:
    return {name for kind in kinds for name in dir(kind) if not name.startswith("_")}


def test_every_builder_of_workflows_is_there() -> None:
    named = words("Builders")
    assert named >= {"chain", "group", "chord", "flow", "s", "si", "sig", "map", "starmap", "chunks"}


def test_every_method_of_works_is_there() -> None:
    own = {"kind", "parts", "extras", "has_callbacks", "find_app", "reader"}  # for the plan, not for users
    own |= {"keeps_errors", "least", "members", "steps", "header", "body", "parent", "needs"}
    own |= {"app", "args", "kwargs", "name", "options", "task", "immutable", "each", "draft", "alone"}
    expected = public(Work, Signature, Group, Chord, Flow) - own
    assert expected - words("Methods of every builder") == set()


def test_every_policy_of_flows_is_there() -> None:
    table = rows(section(WORKFLOW_PAGE, "What a failure does").partition("\n| `if_fails` |")[2])
    assert {name.strip('"') for name in table} == set(get_args(IfFails))


def test_every_member_of_handles_is_there() -> None:
    expected = public(Workflow, SyncWorkflow) - {"graph"}
    assert expected - words("The handle") == set()
    table = section(WORKFLOW_PAGE, "The handle")
    for kind in (WorkflowInfo, WorkflowProgress, Tree):
        assert all(f"`{name}`" in table for name in kind.__struct_fields__), kind
    assert words("Inside a task") == {"workflow", "results", "replace", "wait_for"}


def test_limits_of_workflows() -> None:
    table = {key: cells[-1] for key, *cells in cells_of(section(WORKFLOW_PAGE, "Limits"))}
    known, settings = iter(table.values()), StoreSettings()
    assert next(known) == f"none; it is sent in parts of {plan.PART} nodes"
    assert next(known).startswith(f"{WIDTH};")
    assert next(known) == str(WIDTH)
    assert next(known) == str(plan.MOST_CALLBACKS)
    assert next(known) == str(WORK)
    assert to_ms(next(known)) == settings.staged_for
    assert to_ms(next(known)) == settings.audit_every


def cells_of(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


# -- metrics


@pytest.mark.parametrize(("title", "known"), [("Of the store", STORE), ("Of a worker", WORKER)])
def test_every_metric_is_there(title: str, known: dict[str, Spec]) -> None:
    table = rows(section("docs/reference/metrics.md", title))
    found = {name: Spec(kind, tuple(re.findall(r"\w+", labels)), text) for name, (kind, labels, text) in table.items()}
    assert found == {name: spec._replace(labels=spec.labels or ("none",)) for name, spec in known.items()}


# -- the command line


def commands(group: click.Group = cli, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], click.Command]:
    context, found = click.Context(group), {}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            found.update(commands(command, (*path, name)))
        else:
            found[(*path, name)] = command
    return found


def options_of(command: click.Command) -> set[str]:
    """The long names, without those all commands share."""
    given = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    return {name for option in given for name in option.opts if name.startswith("--")} - SHARED


SHARED = {"--app", "--url", "--json", "--debug", "--help", "--version"}
COMMAND_PAGE = "docs/reference/command-line.md"


@pytest.mark.parametrize("path", commands(), ids=" ".join)
def test_every_command_and_option_is_there(path: tuple[str, ...]) -> None:
    text = command_text(path)
    for option in options_of(commands()[path]):
        assert re.search(rf"`{option}[ `]", text), f"{' '.join(path)} has {option}, and the page does not say so"


def command_text(path: tuple[str, ...]) -> str:
    parts = re.split(r"^###? ", read(COMMAND_PAGE), flags=re.MULTILINE)
    found = [part for part in parts if re.search(rf"`windlass {path[0]}\b", part.partition("\n")[0])]
    assert found, f"the page has no heading for windlass {path[0]}"
    text = "\n".join(found)
    assert path[-1] in text, f"the page does not mention windlass {' '.join(path)}"
    return text


def test_the_page_names_no_option_that_does_not_exist() -> None:
    known = SHARED.union(*(options_of(command) for command in commands().values()))
    assert set(re.findall(r"`(--[a-z-]+)", read(COMMAND_PAGE))) - known == set()
