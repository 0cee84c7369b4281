"""Where the file is and whether it may be there: the URL, its options, and the filesystem under the path."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from windlass.core.hints import did_you_mean
from windlass.errors import ConfigError, StoreError

DURABILITY = ("full", "normal")
OPTIONS = ("durability", "timeout")

NETWORK_FILESYSTEMS = frozenset(
    {"9p", "afs", "ceph", "cifs", "davfs", "gfs", "gfs2", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2"}
    | {"smb2", "smb3", "smbfs", "fuse.cephfs", "fuse.davfs", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs"}
)
"""Filesystems on which SQLite's locks or its shared memory do not work between machines, or at all."""


class Location(NamedTuple):
    """A parsed URL. ``timeout`` is in seconds."""

    path: Path
    durability: str
    timeout: float


def parse_url(url: str) -> Location:
    """``sqlite:///file.db`` is relative to the working directory, ``sqlite:////srv/file.db`` is absolute.

    Options: ``durability=full`` (the default: an accepted job survives a power cut) or ``normal`` (it survives the
    death of every process, and a power cut may undo the last moments); ``timeout=30``, how long to wait for other
    writers.
    """
    parts = urlsplit(url)
    if parts.scheme != "sqlite" or parts.netloc or len(parts.path) < 2:
        raise ConfigError(f"{url!r} is no SQLite URL: write sqlite:///relative/file.db or sqlite:////absolute/file.db")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in options:
        if name not in OPTIONS:
            raise ConfigError(f"unknown option {name!r} in {url!r}{did_you_mean(name, OPTIONS)}")
    durability = options.get("durability", "full")
    if durability not in DURABILITY:
        hint = did_you_mean(durability, DURABILITY)
        raise ConfigError(f"durability is {durability!r} in {url!r}{hint}; give full or normal")
    return Location(Path(unquote(parts.path[1:])).absolute(), durability, _seconds(options.get("timeout", "30"), url))


def _seconds(text: str, url: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 86_400:
        raise ConfigError(f"timeout is {text!r} in {url!r}: give seconds, more than 0 and less than a day")
    return seconds


def check_location(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> None:
    """Refuse what cannot work before SQLite finds out the hard way."""
    if not path.parent.is_dir():
        raise StoreError(f"cannot open {path}: there is no directory {path.parent}")
    if path.is_dir():
        raise StoreError(f"cannot open {path}: it is a directory")
    kind = filesystem(path, mounts)
    if kind in NETWORK_FILESYSTEMS:
        raise ConfigError(
            f"{path} is on a network filesystem ({kind}), where SQLite's locks cannot be trusted and jobs could be "
            "lost or run twice; put the file on a local disk, or use a redis:// store"
        )


def filesystem(path: Path, mounts: Path) -> str:
    """The type of the filesystem a path is on, as Linux names it; empty where that cannot be told."""
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return ""
    target = os.path.realpath(path)
    best, kind = "", ""
    for line in lines:
        # "36 35 98:0 /root /mount/point options … - type source options", with blanks written as octal.
        before, _, after = line.partition(" - ")
        point = before.split(" ")[4].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, after.split(" ")[0]
    return kind
