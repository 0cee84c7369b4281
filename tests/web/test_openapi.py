"""The API is as its own description says, on every engine."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import msgspec
import pytest

from tests.web.cases import READS, WRITES
from tests.web.kit import World, bearer, dashboard, populate, visiting
from windlass import Windlass
from windlass.core.access import RIGHTS
from windlass.web.api import TABLE
from windlass.web.openapi import document
from windlass.web.operation import EVENTS
from windlass.web.problems import Problem

DOCUMENT = msgspec.json.decode(msgspec.json.encode(document(TABLE, "shop", "/jobs")))


@pytest.fixture
async def world(any_app: Windlass) -> World:
    return await populate(any_app)


@pytest.fixture
async def visitor(any_app: Windlass, world: World) -> AsyncIterator[httpx2.AsyncClient]:
    async with visiting(dashboard(any_app, {"all": ["*"]}, streams=False), headers=bearer("all")) as visitor:
        yield visitor


# -- the document


def walk(value: Any) -> Iterator[Any]:
    yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walk(each)


def resolve(ref: str) -> Any:
    found = DOCUMENT
    for part in ref.removeprefix("#/").split("/"):
        found = found[part]
    return found


def test_every_operation_is_described() -> None:
    described = {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert described == {(operation.method, f"/api{operation.path}") for operation in TABLE}
    names = [each["operationId"] for methods in DOCUMENT["paths"].values() for each in methods.values()]
    assert len(names) == len(set(names))
    assert DOCUMENT["openapi"] == "3.1.0"
    assert DOCUMENT["servers"] == [{"url": "/jobs"}]


def test_every_reference_leads_somewhere_and_everything_is_used() -> None:
    refs = {each["$ref"] for each in walk(DOCUMENT) if isinstance(each, dict) and "$ref" in each}
    assert all(resolve(ref) for ref in refs)
    used = {ref.rpartition("/")[2] for ref in refs if "/schemas/" in ref}
    queries = {kind.__name__ for operation in TABLE if (kind := operation.asked) and operation.method == "GET"}
    assert used | queries == set(DOCUMENT["components"]["schemas"])


@pytest.mark.parametrize("operation", TABLE, ids=lambda operation: operation.name)
def test_an_operation_says_all_it_takes_and_answers(operation: Any) -> None:
    entry = DOCUMENT["paths"][f"/api{operation.path}"][operation.method.lower()]
    assert entry["summary"].endswith(".")
    assert entry["x-windlass-right"] == operation.right
    assert RIGHTS[operation.right] in entry["description"]
    in_path = [each["name"] for each in entry["parameters"] if each["in"] == "path"]
    assert in_path == re.findall(r"{(\w+)}", operation.path)
    asked = [each["name"] for each in entry["parameters"] if each["in"] == "query"]
    fields = list(operation.asked.__struct_fields__) if operation.asked is not None else []
    assert asked == (fields if operation.method == "GET" else [])
    assert ("requestBody" in entry) == (operation.method != "GET" and operation.asked is not None)
    assert {"401", "403", "404", "422", "503", str(operation.status)} <= entry["responses"].keys()
    (content,) = entry["responses"][str(operation.status)]["content"].values()
    assert content["schema"]


def test_schemas_say_their_caps() -> None:
    """Every text and list in a body or query has an end."""
    schemas = DOCUMENT["components"]["schemas"]
    taken = {operation.asked.__name__ for operation in TABLE if operation.asked is not None}
    for name in taken:
        for field, schema in schemas[name]["properties"].items():
            kinds = [schema, *schema.get("anyOf", ())]
            for kind in kinds:
                if kind.get("type") == "string" and "enum" not in kind:
                    assert kind["maxLength"] <= 4_000, (name, field)
                if kind.get("type") == "array":
                    assert kind["maxItems"] <= 500, (name, field)
                if kind.get("type") == "integer":
                    assert kind["maximum"] <= 1_000_000_000, (name, field)


# -- the answers


@pytest.mark.parametrize("way", ["reads", "writes"])
async def test_answers_are_as_described(visitor: httpx2.AsyncClient, world: World, way: str) -> None:
    """Each is of its type, and has nothing that the type does not."""
    for case in READS if way == "reads" else reversed(WRITES):
        answer = await visitor.request(case.operation.method, case.url(world), json=case.body)
        operation = case.operation
        if way == "writes" and answer.status_code in (404, 409):
            continue  # an action before it was in its way; each is alone in the tests of rights
        assert answer.status_code == operation.status, (case.id, answer.text)
        assert answer.headers["content-type"].split(";")[0] == (operation.sends or "application/json")
        if operation.sends:
            if operation.sends == EVENTS:
                datas = re.findall(r"^event: (?:state|\w+ed)\nid: .*\ndata: (.*)$", answer.text, re.MULTILINE)
                for data in datas:
                    msgspec.json.decode(data, type=operation.answers)
                assert datas, case.id
            continue
        value = msgspec.json.decode(answer.content, type=operation.answers)
        assert msgspec.json.decode(msgspec.json.encode(value)) == answer.json(), case.id


async def test_problems_are_as_described(visitor: httpx2.AsyncClient) -> None:
    asked = [
        ("GET", "/api/jobs/none", 404), ("GET", "/api/nowhere", 404), ("GET", "/api/jobs?limit=0", 422),
        ("POST", "/api/me", 405), ("GET", "/api/queues/none", 404), ("GET", "/api/workers/none", 404),
        ("GET", "/api/schedules/none", 404), ("GET", "/api/workflows/none", 404), ("GET", "/api/tasks/none", 404),
        ("POST", "/api/schedules/none/run", 404), ("POST", "/api/workflows/none/retry", 404),
        ("POST", "/api/breakers/none/close", 404), ("DELETE", "/api/views/none", 404),
        ("POST", "/api/tasks/none/pause", 404), ("GET", "/api/jobs/none/logs", 404),
        ("GET", "/api/jobs/none/events", 404),
    ]  # fmt: skip
    for method, url, status in asked:
        answer = await visitor.request(method, url)
        assert answer.headers["content-type"] == "application/problem+json"
        problem = msgspec.json.decode(answer.content, type=Problem)
        assert (problem.status, answer.status_code) == (status, status), url


async def test_what_cannot_be_done_now_is_a_conflict(visitor: httpx2.AsyncClient, world: World) -> None:
    first = await visitor.post(
        "/api/jobs", json={"task": "bill.charge", "args": {"order": 1}, "options": {"id": "one"}}
    )
    assert first.status_code == 201
    other = {"task": "mail.send", "args": {"to": "a"}, "options": {"id": "one"}}
    assert (await visitor.post("/api/jobs", json=other)).status_code == 409
    running = await visitor.post(f"/api/workflows/{world.flow}/retry")
    assert running.status_code == 409, running.text
    assert "running" in running.json()["detail"]
    assert (await visitor.post("/api/queues/mail/drain")).status_code == 200
    refused = await visitor.post("/api/jobs", json={"task": "mail.send", "args": {"to": "a"}})
    assert refused.status_code == 409


async def test_a_listing_is_walked_to_its_end(visitor: httpx2.AsyncClient) -> None:
    for number in range(7):
        call = {"task": "bill.charge", "args": {"order": number}, "options": {"id": f"n{number}"}}
        assert (await visitor.post("/api/jobs", json=call)).status_code == 201
    for filter in ("task:bill.charge", "task:bill.*", "args.order:1,2,3,4,5", ""):
        found: list[str] = []
        after = ""
        while True:
            page = (await visitor.get("/api/jobs", params={"filter": filter, "after": after, "limit": "2"})).json()
            found += [job["id"] for job in page["jobs"]]
            after = page["cursor"]
            if not after:
                break
        whole = (await visitor.get("/api/jobs", params={"filter": filter, "limit": "200"})).json()
        assert found == [job["id"] for job in whole["jobs"]]
        assert len(set(found)) == len(found)
        count = (await visitor.get("/api/count", params={"filter": filter})).json()
        assert (count["count"], count["exact"]) == (len(found), True)
        lines = (await visitor.get("/api/export", params={"filter": filter})).text.splitlines()
        assert [msgspec.json.decode(line)["id"] for line in lines] == found


async def test_numbers_at_the_edge(visitor: httpx2.AsyncClient) -> None:
    """As large as the API takes: no engine chokes on them."""
    most = "9" * 18
    for url in (f"/api/jobs?after={most}", f"/api/events?since={most}", f"/api/events?since={most}-{most}",
                f"/api/workflows?after={most}", "/api/jobs/done-1/logs?after=1000000000", "/api/jobs?after=0",
                "/api/jobs?filter=since:1970-01-01", "/api/jobs?filter=until:9999-12-31",
                f"/api/jobs?filter=workflow:none&after=w{most}"):  # fmt: skip
        assert (await visitor.get(url)).status_code == 200, url
    tuned = await visitor.post("/api/queues/mail/tune", json={"limit": 1_000_000_000, "max_ready": 1_000_000_000})
    assert tuned.status_code == 200
    opened = await visitor.post("/api/breakers/smtp/open", json={"seconds": 31_536_000})
    assert opened.status_code == 200
