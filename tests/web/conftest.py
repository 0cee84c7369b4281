"""The servers that some of these need, and apps on each engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import jinja2
import pytest
from jinja2.bccache import Bucket

from tests.servers.fixtures import new_redis, redis7
from tests.servers.redis import RedisServer, fresh_prefix
from tests.web.kit import World, make_app, populate
from windlass import Windlass
from windlass.web.site import Site

__all__ = ["new_redis", "redis7"]


class Compiled(jinja2.BytecodeCache):
    """The code of templates, in memory. Every dashboard compiles its own, and these tests make hundreds."""

    def __init__(self) -> None:
        self.code: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if code := self.code.get(bucket.key):
            bucket.bytecode_from_string(code)

    def dump_bytecode(self, bucket: Bucket) -> None:
        self.code[bucket.key] = bucket.bytecode_to_string()


@pytest.fixture(scope="session", autouse=True)
def _templates_are_compiled_once() -> Iterator[None]:
    compiled, plain = Compiled(), Site.__init__

    def make(site: Site, *args: Any) -> None:
        plain(site, *args)
        site.templates.bytecode_cache = compiled

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Site, "__init__", make)
        yield


@pytest.fixture
async def app() -> AsyncIterator[Windlass]:
    """The app in memory, for what does not depend on the engine."""
    app = make_app()
    yield app
    await app.close()


@pytest.fixture
async def world(app: Windlass) -> World:
    return await populate(app)


@pytest.fixture(params=["memory", "sqlite", "redis"])
async def any_app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Windlass]:
    """The app on each engine in turn."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}" if request.param == "sqlite" else ""
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("redis7")
        url = server.url
    app = make_app(url, fresh_prefix())
    yield app
    await app.close()
