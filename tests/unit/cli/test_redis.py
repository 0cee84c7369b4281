"""The command line on Redis: whose keys are meant, what ``doctor`` says of a server, and errors one can act on."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from tests.servers.fixtures import NewRedis, new_redis, redis_cluster
from tests.servers.redis import RedisServer, redis_binary
from tests.servers.topology import Cluster
from windlass.app import Windlass
from windlass.cli import banner, installed
from windlass.cli.main import cli
from windlass.cli.target import run
from windlass.core.packages import pip_install
from windlass.core.store_url import redact_url
from windlass.store.reads import StoreInfo
from windlass.store.redis import durability
from windlass.store.redis.location import parse_url
from windlass.worker.worker_options import CheckedOptions

__all__ = ["new_redis", "redis_cluster"]

SECRET = "s3cret"
SOURCE = """
import os
from windlass import Windlass
app = Windlass("shop", os.environ["SHOP_URL"])

@app.task
async def add(x: int, y: int) -> int:
    return x + y
"""

Windlass_ = Callable[..., Result]


@pytest.fixture
def windlass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Windlass_]:
    """The command, in a folder with an app whose store is at ``url``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    for name in ("WINDLASS_APP", "WINDLASS_URL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "redis_shop.py").write_text(SOURCE, encoding="utf-8")

    def call(*args: str, url: str = "", code: int = 0) -> Result:
        sys.modules.pop("redis_shop", None)
        monkeypatch.setenv("SHOP_URL", url)
        result = CliRunner().invoke(cli, args, prog_name="windlass")
        assert result.exit_code == code, result.output
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert SECRET not in result.output
        return result

    yield call
    sys.modules.pop("redis_shop", None)


@pytest.fixture(scope="module")
def locked() -> Iterator[RedisServer]:
    with RedisServer(redis_binary(), acl=[f"user default on >{SECRET} ~* &* +@all"]) as server:
        yield server


def keep_a_job(url: str, name: str) -> None:
    app = Windlass(name, url)
    run(app, lambda: app.queue("default").add("elsewhere.add", {"x": 1}))


def checks(result: Result) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for check in msgspec.json.decode(result.stdout)["checks"]:
        found.setdefault(check["name"], []).append((check["level"], check["text"]))
    return found


# -- whose keys


def test_a_url_without_a_prefix_is_asked_whose_jobs_are_meant(new_redis: NewRedis, windlass: Windlass_) -> None:
    server = new_redis()
    said = windlass("queues", "--url", server.url, code=2).stderr
    assert "does not say which app is meant" in said
    assert "add ?prefix=NAME to it" in said
    assert "No app has jobs there." in said
    keep_a_job(server.url, "shop")
    keep_a_job(server.url, "shop/eu")
    assert "Found there: prefix=shop, prefix=shop/eu\n" in windlass("queues", "--url", server.url, code=2).stderr
    assert "default" in windlass("queues", "--url", f"{server.url}?prefix=shop").stdout
    assert "default" in windlass("queues", "--url", f"{server.url}?prefix=shop/eu").stdout
    assert "add &prefix=NAME" in windlass("queues", "--url", f"{server.url}?timeout=3", code=2).stderr


def test_the_environment_is_asked_the_same(
    new_redis: NewRedis, windlass: Windlass_, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_URL", new_redis().url)
    assert "does not say which app is meant" in windlass("workers", code=2).stderr


def test_other_databases_are_not_looked_into(new_redis: NewRedis, windlass: Windlass_) -> None:
    server = new_redis()
    keep_a_job(f"{server.url}/3", "third")
    assert "No app has jobs there." in windlass("queues", "--url", f"{server.url}/2", code=2).stderr
    assert "prefix=third" in windlass("queues", "--url", f"{server.url}/3", code=2).stderr


def test_apps_are_found_on_every_node_of_a_cluster(redis_cluster: Cluster, windlass: Windlass_) -> None:
    names = ["cli-a", "cli-b", "cli-c", "cli-d"]
    owners = {parse_url(redis_cluster.url, name).slot * 3 // 16_384 for name in names}
    assert len(owners) == 3, "the names must be on different nodes for this test to mean something"
    for name in names:
        keep_a_job(redis_cluster.url, name)
    said = windlass("queues", "--url", redis_cluster.url, code=2).stderr
    assert all(f"prefix={name}" in said for name in names)


def test_a_server_that_cannot_be_asked_is_said_beside_it(new_redis: NewRedis, windlass: Windlass_) -> None:
    server = new_redis(acl=["user default off", f"user ann on >{SECRET} ~* &* +@all"])
    said = windlass("queues", "--url", server.url_as("ann", "wrong"), code=2).stderr
    assert "does not say which app is meant" in said
    assert "cannot be listed: redis://ann@127.0.0.1" in said
    assert "does not accept the user or the password" in said
    assert "No app has jobs there." in windlass("queues", "--url", server.url_as("ann", SECRET), code=2).stderr


def test_a_search_that_finds_many_stops(new_redis: NewRedis, windlass: Windlass_) -> None:
    server = new_redis()
    for number in range(30):
        server.command("HSET", f"{{app{number}}}:meta", "n", 1)
    assert "and perhaps more" in windlass("queues", "--url", server.url, code=2).stderr


def test_a_url_that_cannot_be_read_is_explained_first(windlass: Windlass_) -> None:
    said = windlass("queues", "--url", f"redis://ann:{SECRET}#x@h", code=2).stderr
    assert "%23" in said


# -- doctor


def test_a_safe_server(new_redis: NewRedis, windlass: Windlass_) -> None:
    found = checks(windlass("doctor", "redis_shop:app", "--json", url=new_redis(fsync="always").url))
    assert found["redis"][0][1].startswith("hiredis ")
    assert found["app"] == [("ok", "shop, 1 tasks")]
    assert found["durability"] == [("ok", "an accepted job survives a power cut (AOF, fsync always)")]
    assert "warning" not in found
    assert "keys {shop}:*" in found["details"][0][1]


@pytest.mark.parametrize(
    ("options", "warns"),
    [
        ({}, "keeps no append-only file; set appendonly yes"),
        ({"config": {"save": "900 1"}}, "keeps no append-only file; set appendonly yes"),
        ({"fsync": "everysec"}, "a power cut may undo the last second or two"),
        ({"fsync": "no"}, "set appendfsync everysec"),
        ({"config": {"maxmemory-policy": "allkeys-lru"}}, "maxmemory-policy is allkeys-lru: .* set it to noeviction"),
    ],
)
def test_what_is_weak_about_a_server(
    new_redis: NewRedis, windlass: Windlass_, options: dict[str, Any], warns: str
) -> None:
    found = checks(windlass("doctor", "redis_shop:app", "--json", url=new_redis(**options).url))
    texts = [text for level, text in found["warning"] if level == "warning"]
    assert any(re.search(warns, text) for text in texts), texts


def test_a_server_that_is_nearly_full_is_foreseen() -> None:
    assert durability.memory_warnings({"used_memory": "89", "maxmemory": "100"}) == []
    assert durability.memory_warnings({"used_memory": "89", "maxmemory": "0"}) == []
    (said,) = durability.memory_warnings({"used_memory": "95", "maxmemory": "100"})
    assert said.startswith("95% of maxmemory are in use; when it is full new jobs are refused")


def test_replicas(new_redis: NewRedis, windlass: Windlass_) -> None:
    master = new_redis(fsync="always")
    said = windlass("doctor", "redis_shop:app", url=f"{master.url}?wait_replicas=1").stdout
    assert "wait_replicas=1, but the server has 0: every call waits 1 s for the others" in said
    replica = new_redis(replicaof=master)
    said = windlass("doctor", "redis_shop:app", url=replica.url, code=1).stdout
    assert "is a read-only replica" in said
    assert "point the URL at the master" in said


def test_a_server_that_does_not_say_how_it_persists(new_redis: NewRedis, windlass: Windlass_) -> None:
    server = new_redis(acl=["user default off", f"user ann on >{SECRET} ~* &* +@all -config"])
    found = checks(windlass("doctor", "redis_shop:app", "--json", url=server.url_as("ann", SECRET)))
    assert "fsync ?" in found["details"][0][1]
    assert durability.promise_of({"aof": "?", "fsync": "?", "save": "?"})[0].startswith("unknown")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("redis://127.0.0.1:{closed}", "Connection refused; is the server running there?"),
        ("redis://no-such-host.invalid", "this host is not known"),
        ("redis://:wrong@127.0.0.1:{port}", "does not accept the user or the password"),
        ("redis://" + SECRET.upper() + "@127.0.0.1:{port}", "a password without a user is written with a colon"),
        ("redis://127.0.0.1:{port}", "asks for a password; write it into the URL: redis://:password@host/0"),
        (f"redis://:{SECRET}@127.0.0.1:{{port}}/99", "names a database the server does not have"),
        (f"redis://:{SECRET}@127.0.0.1:{{port}}/shop", "an app's name is given as ?prefix="),
        (
            f"redis+sentinel://127.0.0.1:{{port}}/main?sentinel_password={SECRET}",
            "is not a sentinel: name those (port 26379), or write a redis:// URL",
        ),
        (f"redis+cluster://:{SECRET}@127.0.0.1:{{port}}", "is not a node of a cluster: write a redis:// URL"),
        ("rediss://127.0.0.1:{port}?connect_timeout=500ms", "rediss:// if and only if it speaks TLS"),
        (f"redis://:{SECRET}@127.0.0.1:{{port}}?prefx=shop", "did you mean 'prefix'?"),
        (f"redis://:{SECRET}?x@127.0.0.1", "write a ? of a password as %3F"),
        ("reddis://127.0.0.1", "did you mean 'redis'?"),
        ("redis://[::1:6379", "IPv6 as [::1]:6379"),
    ],
)
def test_what_keeps_a_newcomer_from_the_server(locked: RedisServer, windlass: Windlass_, url: str, says: str) -> None:
    said = windlass("doctor", "redis_shop:app", url=url.format(port=locked.port, closed=1), code=1).stdout
    assert says in " ".join(said.split())


def test_doctor_without_a_prefix(new_redis: NewRedis, windlass: Windlass_) -> None:
    found = checks(windlass("doctor", "--url", new_redis().url, "--json", code=1))
    ((level, text),) = found["store"]
    assert level == "wrong"
    assert "add ?prefix=NAME" in text


def test_a_missing_extra_is_named(windlass: Windlass_, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "windlass.store.redis", None)
    monkeypatch.setattr(installed, "_version", lambda name: "")
    said = windlass("doctor", "redis_shop:app", url="redis://h", code=1).stdout
    assert pip_install("redis") in said


# -- what is shown of a URL


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:///shop.db", "sqlite:///shop.db"),
        ("sqlite:////srv/c:d@e.db", "sqlite:////srv/c:d@e.db"),
        ("redis://h:6379/0", "redis://h:6379/0"),
        ("redis://ann@h", "redis://ann@h"),
        (f"redis://:{SECRET}@h/0?timeout=3", "redis://:***@h/0?timeout=3"),
        (f"redis://ann:{SECRET}@h", "redis://ann:***@h"),
        (f"unix://ann:{SECRET}@/run/r.sock", "unix://ann:***@/run/r.sock"),
        (f"redis://ann:{SECRET}@x@h", "redis://ann:***@h"),
        (f"redis://ann:x/{SECRET}@h", "redis://ann:***@h"),
        (f"redis://ann:x?{SECRET}@h", "redis://ann:***@h"),
        (f"redis://ann:x#{SECRET}@h", "redis://ann:***@h"),
        (f"redis://[::1:{SECRET}@h", "redis://[:***@h"),
        (
            f"redis+sentinel://:{SECRET}@a,b/main/0?sentinel_password={SECRET}&timeout=3",
            "redis+sentinel://:***@a,b/main/0?sentinel_password=***&timeout=3",
        ),
    ],
)
def test_no_password_is_shown(url: str, shown: str) -> None:
    assert redact_url(url) == shown


def test_the_banner_shows_no_password(capsys: pytest.CaptureFixture[str]) -> None:
    app = Windlass("shop", f"redis+sentinel://:{SECRET}@a,b/main?sentinel_password={SECRET}")
    info = StoreInfo(engine="redis", version="7.0.15", durability="d", location="redis+sentinel://a,b/main/0")
    banner.show(banner.describe(app, CheckedOptions(("default",)), info), 1, "1", "text")
    shown = capsys.readouterr().err
    assert SECRET not in shown
    assert "redis+sentinel://:***@a,b/main" in shown


def test_the_user_of_a_url_without_a_password_is_used(new_redis: NewRedis, windlass: Windlass_) -> None:
    server: RedisServer = new_redis(acl=["user ann on nopass ~* &* +@all"])
    windlass("queues", "redis_shop:app", url=server.url.replace("://", "://ann@"))
    windlass("queues", "redis_shop:app", url=server.url.replace("://", "://ben@"), code=2)
