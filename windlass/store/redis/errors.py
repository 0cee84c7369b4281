"""What the server's errors mean: the one place where they become ours, as sentences a human can act on.

``StoreUnavailable`` is for what passes by itself or with a failover, so that sending again may help; ``StoreError`` is
for what somebody has to repair. No sentence may hold a password.
"""

from __future__ import annotations

import os
import re
import socket
import ssl

from windlass.errors import StoreError, StoreOutdated, StoreUnavailable
from windlass.store.redis.location import Address, Location

PASSING = {
    "LOADING": "is still loading its data from disk; wait until it has finished",
    "READONLY": "is a read-only replica; if a failover is not under way, point the URL at the master",
    "MASTERDOWN": "is a replica that has lost its master; wait for the failover, or point the URL at the master",
    "CLUSTERDOWN": "belongs to a cluster that is down; see CLUSTER INFO for the slots that nobody serves",
    "TRYAGAIN": "is handing our keys to another node of its cluster; wait until it has finished",
    "ASK": "is handing our keys to another node of its cluster; wait until it has finished",
    "MOVED": "has handed our keys to another node of its cluster",
    "BUSY": "is busy with somebody's long script; FUNCTION KILL or SCRIPT KILL ends one that has not written yet",
    "NOREPLICAS": "has fewer replicas in step than its min-replicas-to-write asks for; bring them back, or lower that",
    "MISCONF": "refuses writes since it cannot save to disk; see its log, and the space on its disk",
    "OOM": "has used all the memory its maxmemory allows; raise maxmemory, delete old jobs or shorten what is kept",
    "EXECABORT": "aborted the call",
}
"""By the first word of the error. ASK is not followed, on purpose: while a slot moves, some of the app's keys are here
and some there, so that a call made on the other node would miss those that have not arrived, and decide wrongly."""

DROPPING = frozenset({"READONLY", "MOVED", "MASTERDOWN"})
"""Errors that say we talk to the wrong server: the connection is given up, and the right one is looked for."""

OUTDATED = "OUTDATED"
"""What our own functions say where a newer version has changed the format of the keys."""

SPLIT = "access a non local key"
"""What a function says that finds half of its keys gone, because their slot is just moving."""


def code_of(error: Exception) -> str:
    """The first word of the server's error."""
    return str(error).partition(" ")[0]


def drops(error: Exception) -> bool:
    return code_of(error) in DROPPING


def is_missing_function(error: Exception) -> bool:
    """The library is gone (FUNCTION FLUSH, a restart without persistence, a failover): the call cannot have run."""
    return str(error).startswith("ERR Function not found")


def is_loaded_already(error: Exception) -> bool:
    return "already exists" in str(error)


def explain(error: Exception, location: Location, where: str = "") -> StoreError:
    """An error reply as ours. One of ours (a lost connection) stays what it is."""
    if isinstance(error, StoreError):
        return error
    text, code, where = str(error), code_of(error), where or location.shown
    if code == "MOVED" and location.kind != "cluster":
        return StoreError(f"{where} is a node of a cluster that has our keys elsewhere; write redis+cluster:// URLs")
    if code in PASSING:
        return StoreUnavailable(f"{where} {PASSING[code]} ({text})")
    if SPLIT in text:
        return StoreUnavailable(f"{where} {PASSING['ASK']} ({text})")
    if code == "NOAUTH":
        forms = "redis://:password@host/0, or redis://user:password@host/0 for a user of its own"
        return StoreError(f"{where} asks for a password; write it into the URL: {forms}")
    if code == "WRONGPASS":
        return StoreError(
            f"{where} does not accept the user or the password of the URL, or the user is disabled; a password without "
            "a user is written with a colon, redis://:password@host/0"
        )
    if code == "NOPERM":
        return StoreError(f"{where} does not allow this to the user of the URL ({text}); it needs {rights(location)}")
    if code == OUTDATED:
        return StoreOutdated(f"{where}: {text.partition(' ')[2]}")
    if "DB index is out of range" in text:
        return StoreError(f"{where} names a database the server does not have, see its setting 'databases' ({text})")
    return StoreError(f"{where} refused: {text}")


def rights(location: Location) -> str:
    """What an ACL must grant: functions run with the rights of their caller, hence also what they do inside.

    ``-@dangerous`` takes back what came with the groups and reaches beyond the app's own keys, such as FLUSHALL.
    """
    user = location.user or "default"
    return (
        f"ACL SETUSER {user} ~{location.tag}* &{location.tag}* +@read +@write +@connection -@dangerous "
        "+fcall +function|load +subscribe +unsubscribe +publish +time +wait +info +config|get"
        + (" +cluster|slots" if location.kind == "cluster" else "")
    )


def unreachable(where: Address | str, error: Exception) -> StoreError:
    """A connection that could not be made, or that broke while it was being set up."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = f"its certificate is not accepted ({error.verify_message})"
        return StoreError(f"cannot trust {where}: {reason}; name the authority that signed it as tls_ca=…")
    if isinstance(error, TimeoutError):
        hints = "is it up, is the way to it open, and does the URL say rediss:// if and only if it speaks TLS?"
        return StoreUnavailable(f"{where} does not answer in time; {hints}")
    if isinstance(error, socket.gaierror):
        return StoreUnavailable(
            f"cannot connect to {where}: this host is not known ({error.strerror}); is it misspelt?"
        )
    return StoreUnavailable(f"cannot connect to {where}: {_reason(error)}; is the server running there?")


def _reason(error: Exception) -> str:
    """In the system's words: asyncio puts its own in their place, and joins them where a host has several addresses."""
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        codes = {error.errno} if error.errno else set(map(int, re.findall(r"\[Errno (\d+)\]", str(error))))
        if len(codes) == 1:
            return os.strerror(codes.pop())
    return str(error) or type(error).__name__


def lost(where: str, reason: str) -> StoreUnavailable:
    return StoreUnavailable(f"the connection to {where} was lost: {reason}; whether the call was done is unknown")


def too_few_copies(location: Location, copies: object) -> StoreUnavailable | None:
    """What WAIT answered, judged: None if as many replicas have the write as the URL asks for."""
    if isinstance(copies, int) and copies >= location.wait_replicas:
        return None
    found = f"{copies} of {location.wait_replicas} replicas have it" if isinstance(copies, int) else f"WAIT: {copies}"
    return StoreUnavailable(
        f"{location.shown} did the call, but after {location.wait_timeout:g} s {found}: the job may exist, and would "
        "be lost if the master died now; bring the replicas back, or lower wait_replicas"
    )
