"""The URL of a PostgreSQL store."""

from __future__ import annotations

import pytest

from windlass.errors import ConfigError
from windlass.store.postgres.location import parse_url


def test_the_schema_is_named_after_the_app_unless_given() -> None:
    assert parse_url("postgresql://ann@h/d", "My Shop").schema == "windlass_my_shop"
    assert parse_url("postgresql://ann@h/d?schema=jobs", "shop").schema == "jobs"


def test_what_libpq_knows_is_handed_on() -> None:
    found = parse_url("postgres://ann:secret@h1:1,h2:2/d?sslmode=require&target_session_attrs=read-write", "shop")
    assert found.server == {
        "user": "ann", "password": "secret", "host": "h1,h2", "port": "1,2", "dbname": "d", "sslmode": "require",
        "target_session_attrs": "read-write",
    }  # fmt: skip
    assert found.listen == found.server
    assert "secret" not in found.shown


def test_who_listens_may_go_another_way_or_not_listen_at_all() -> None:
    assert parse_url("postgresql://pooler/d?listen=postgresql://server/d", "shop").listen["host"] == "server"
    assert parse_url("postgresql://pooler/d?listen=poll", "shop").listen == {}


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://h/d?shema=jobs", "did you mean 'schema'"),
        ("postgresql://h/d?timeout=soon", "give seconds"),
        ("postgresql://h/d?timeout=0", "give seconds"),
        (f"postgresql://h/d?schema={'x' * 51}", "longer than 50"),
        ("postgresql://[h/d", "is no PostgreSQL URL"),
    ],
)
def test_what_cannot_be_meant_is_said(url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_url(url, "shop")


def test_no_message_shows_a_password() -> None:
    with pytest.raises(ConfigError) as raised:
        parse_url("postgresql://ann:hunter2@h/d?shema=jobs", "shop")
    assert "hunter2" not in str(raised.value)
