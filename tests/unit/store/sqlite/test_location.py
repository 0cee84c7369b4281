"""Where a SQLite store may be: URLs, options, filesystems, and files that are not ours."""

from __future__ import annotations

import os
from pathlib import Path

import apsw
import pytest

from windlass.errors import ConfigError, StoreError
from windlass.store.base import StoreSettings
from windlass.store.sqlite import SQLiteStore
from windlass.store.sqlite.location import check_location, parse_url

MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:26 / /srv/share rw,relatime shared:1 - nfs4 server:/export rw
31 22 0:27 / /srv/share/local rw - ext4 /dev/vdb rw
32 22 0:28 / /srv/with\\040blank rw - fuse.sshfs me@there: rw
33 22 0:29 / /srv/shared rw - xfs /dev/vdc rw
"""


def store(path: Path, options: str = "") -> SQLiteStore:
    return SQLiteStore(f"sqlite:///{path}{options}", StoreSettings())


def test_three_slashes_are_relative_and_four_absolute() -> None:
    assert parse_url("sqlite:///jobs.db").path == Path.cwd() / "jobs.db"
    assert parse_url("sqlite:////srv/a%20b/jobs.db").path == Path("/srv/a b/jobs.db")


def test_full_durability_and_half_a_minute_are_the_defaults() -> None:
    assert parse_url("sqlite:///jobs.db")[1:] == ("full", 30.0)
    assert parse_url("sqlite:///jobs.db?durability=normal&timeout=2.5")[1:] == ("normal", 2.5)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sqlite:///jobs.db?durablity=full", "did you mean 'durability'"),
        ("sqlite:///jobs.db?durability=ful", "did you mean 'full'"),
        ("sqlite:///jobs.db?timeout=soon", "give seconds"),
        ("sqlite:///jobs.db?timeout=0", "give seconds"),
        ("sqlite://jobs.db", "sqlite:///relative/file.db"),
        ("sqlite:///", "sqlite:///relative/file.db"),
    ],
)
def test_a_wrong_url_says_what_is_wrong(url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_url(url)


@pytest.mark.parametrize(
    ("folder", "kind"),
    [("/srv/share", "nfs4"), ("/srv/share/deep/er", "nfs4"), ("/srv/with blank", "fuse.sshfs")],
)
def test_network_filesystems_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, kind: str
) -> None:
    (tmp_path / "mountinfo").write_text(MOUNTS)
    monkeypatch.setattr(Path, "is_dir", lambda self: str(self) == folder)
    with pytest.raises(ConfigError, match=rf"network filesystem \({kind}\)"):
        check_location(Path(folder, "jobs.db"), tmp_path / "mountinfo")


@pytest.mark.parametrize("folder", ["/", "/srv/share/local", "/srv/shared"])
def test_local_ones_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    (tmp_path / "mountinfo").write_text(MOUNTS)
    monkeypatch.setattr(Path, "is_dir", lambda self: str(self) == folder)
    check_location(Path(folder, "jobs.db"), tmp_path / "mountinfo")


async def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no directory"):
        await store(tmp_path / "nowhere" / "jobs.db").open()


async def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is a directory"):
        await store(tmp_path).open()


async def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    path.write_bytes(b"not a database, " * 1000)
    with pytest.raises(StoreError, match="not a SQLite database"):
        await store(path).open()
    assert path.read_bytes() == b"not a database, " * 1000


async def test_somebody_elses_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    with apsw.Connection(str(path)) as db:
        db.execute("CREATE TABLE customers (name)")
    db.close()
    with pytest.raises(StoreError, match=r"something else.*customers"):
        await store(path).open()


async def test_a_newer_schema_asks_for_an_upgrade(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    await make(path)
    db = apsw.Connection(str(path))
    db.execute("UPDATE windlass SET schema = 999")
    db.close()
    with pytest.raises(StoreError, match=r"schema 999.*upgrade Windlass"):
        await store(path).open()


async def test_a_damaged_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    await make(path)
    data = bytearray(path.read_bytes())
    data[100:4096] = os.urandom(3996)
    path.write_bytes(data)
    with pytest.raises(StoreError, match="damaged"):
        await store(path).open()


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anything")
async def test_a_read_only_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    await make(path)
    path.chmod(0o400)
    with pytest.raises(StoreError, match="read-only"):
        await store(path).open()


async def make(path: Path) -> None:
    made = store(path)
    await made.open()
    await made.close()
