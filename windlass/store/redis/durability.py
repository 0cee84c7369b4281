"""What an accepted job on this server is worth: its persistence, eviction and replicas, in words for people.

It only reads; a server that does not let us ask (managed services forbid CONFIG) is said to be unknown, not safe.
"""

from __future__ import annotations

from windlass.errors import StoreError
from windlass.store.reads import StoreInfo
from windlass.store.redis.link import Link
from windlass.store.redis.location import Location

NEARLY_FULL = 0.9


async def describe(link: Link, location: Location) -> StoreInfo:
    """For ``doctor``."""
    facts = read_info(await link.command("INFO"))
    config = await read_config(link, facts)
    tag = location.tag
    corrupt = int(await link.command("HLEN", f"{tag}corrupt"))
    jobs = int(await link.command("HLEN", f"{tag}jobs"))
    details = {
        "keys": f"{tag}*", "jobs": str(jobs), "memory": facts.get("used_memory_human", "?"),
        "maxmemory": "none" if facts.get("maxmemory") == "0" else facts.get("maxmemory_human", "?"),
        "eviction": facts.get("maxmemory_policy", "?"),
        "replicas": facts.get("connected_slaves", "?"), "waits for replicas": str(location.wait_replicas),
        "aof": config["aof"], "fsync": config["fsync"], "role": facts.get("role", "?"),
        "mode": facts.get("redis_mode", "?"),
    }  # fmt: skip
    warnings = memory_warnings(facts) + replica_warnings(facts, location)
    if corrupt:
        warnings.append(f"{corrupt} damaged records were put aside in {tag}corrupt; their jobs are dead letters")
    promise, weak = promise_of(config)
    name = "valkey" if "valkey_version" in facts else "redis"
    return StoreInfo(
        engine=name, version=facts.get(f"{name}_version", "?"), durability=promise, location=location.shown,
        warnings=weak + warnings, details=details,
    )  # fmt: skip


def read_info(text: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in text.decode().splitlines() if ":" in line)
    return {name: value for name, _, value in lines}


async def read_config(link: Link, facts: dict[str, str]) -> dict[str, str]:
    """Whether there is an append-only file and how often it is synced; ``?`` where we may not ask."""
    aof = {"1": "yes", "0": "no"}.get(facts.get("aof_enabled", ""), "?")
    try:
        found = await link.command("CONFIG", "GET", "appendfsync", "save")
    except StoreError:
        return {"aof": aof, "fsync": "?", "save": "?"}
    if isinstance(found, list):
        found = dict(zip(found[::2], found[1::2], strict=True))
    return {"aof": aof, "fsync": found.get(b"appendfsync", b"?").decode(), "save": found.get(b"save", b"?").decode()}


def promise_of(config: dict[str, str]) -> tuple[str, list[str]]:
    """The promise, and what is weak about it."""
    if config["aof"] == "yes" and config["fsync"] == "always":
        return "an accepted job survives a power cut (AOF, fsync always)", []
    alive = "an accepted job survives the death of the server process"
    if config["aof"] == "yes" and config["fsync"] == "everysec":
        weak = "a power cut may undo the last second or two"
        return f"{alive}; {weak} (AOF, fsync everysec)", [f"{weak}; if that is too much set appendfsync always"]
    if config["aof"] == "yes":
        weak = "a power cut may undo what the system had not written yet"
        return f"{alive}; {weak} (AOF, fsync {config['fsync']})", [f"{weak}; for more set appendfsync everysec"]
    if config["aof"] == "?":
        return "unknown: the server does not say how it persists", ["see in its console whether it has an AOF"]
    advice = "the server keeps no append-only file; set appendonly yes"
    if config["save"] not in ("", "?"):
        return "a restart of the server goes back to its last snapshot, jobs accepted since are gone (no AOF)", [advice]
    return "none: a restart of the server loses every job (no AOF, no snapshots)", [advice]


def memory_warnings(facts: dict[str, str]) -> list[str]:
    """Eviction drops jobs; a server without it refuses new ones instead, which is right and should be foreseen."""
    found, policy = [], facts.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        found.append(
            f"maxmemory-policy is {policy}: when memory runs out the server drops jobs, or parts of them; set it to "
            "noeviction"
        )
    used, most = (int(facts.get(name, "0") or 0) for name in ("used_memory", "maxmemory"))
    if most and used > most * NEARLY_FULL:
        share = f"{used / most:.0%} of maxmemory are in use"
        found.append(f"{share}; when it is full new jobs are refused, while those that are there go on")
    return found


def replica_warnings(facts: dict[str, str], location: Location) -> list[str]:
    replicas = int(facts.get("connected_slaves", "0") or 0)
    if location.wait_replicas > replicas:
        what = f"every call waits {location.wait_timeout:g} s for the others and then raises StoreUnavailable"
        return [f"wait_replicas={location.wait_replicas}, but the server has {replicas}: {what}"]
    if replicas and not location.wait_replicas:
        return ["a failover may undo what the replicas had not received; wait_replicas=1 in the URL narrows that"]
    return []
