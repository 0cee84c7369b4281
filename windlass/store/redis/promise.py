"""What an accepted job on this server is worth: its persistence, eviction and replicas, in words for people.

It only reads; a server that does not let us ask (managed services forbid CONFIG) is said to be unknown, not safe.
"""

from __future__ import annotations

from windlass.errors import StoreError
from windlass.store.base import StoreInfo
from windlass.store.redis.link import Link
from windlass.store.redis.place import Place


async def describe(link: Link, place: Place) -> StoreInfo:
    """For ``doctor``."""
    facts = read_info(await link.command("INFO"))
    config = await read_config(link, facts)
    tag = place.tag
    corrupt = int(await link.command("HLEN", f"{tag}corrupt"))
    jobs = int(await link.command("HLEN", f"{tag}jobs"))
    details = {
        "prefix": tag, "jobs": str(jobs), "memory": facts.get("used_memory_human", "?"),
        "maxmemory": facts.get("maxmemory_human", "?"), "eviction": facts.get("maxmemory_policy", "?"),
        "replicas": facts.get("connected_slaves", "?"), "waits for replicas": str(place.wait_replicas),
        "aof": config["aof"], "fsync": config["fsync"], "role": facts.get("role", "?"),
        "mode": facts.get("redis_mode", "?"),
    }  # fmt: skip
    warnings = eviction_warnings(facts) + replica_warnings(facts, place)
    if corrupt:
        warnings.append(f"{corrupt} damaged records were put aside in {tag}corrupt; their jobs are dead letters")
    promise, weak = durability(config)
    name = "valkey" if "valkey_version" in facts else "redis"
    return StoreInfo(
        engine=name, version=facts.get(f"{name}_version", "?"), durability=promise, location=place.shown,
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


def durability(config: dict[str, str]) -> tuple[str, list[str]]:
    """The promise, and what is weak about it."""
    if config["aof"] == "yes" and config["fsync"] == "always":
        return "an accepted job survives a power cut (AOF, fsync always)", []
    alive = "an accepted job survives the death of the server process"
    if config["aof"] == "yes" and config["fsync"] == "everysec":
        weak = "a power cut may undo the last second"
        return f"{alive}; {weak} (AOF, fsync everysec)", [f"{weak}; for more set appendfsync always"]
    if config["aof"] == "yes":
        weak = "a power cut may undo what the system had not written yet"
        return f"{alive}; {weak} (AOF, fsync {config['fsync']})", [f"{weak}; for more set appendfsync everysec"]
    if config["aof"] == "?":
        return "unknown: the server does not say how it persists", ["the server does not say how it persists"]
    snapshots = config["save"] not in ("", "?")
    promise = (
        "jobs live as long as the server process; a restart goes back to the last snapshot (no AOF)"
        if snapshots
        else "none: jobs live as long as the server process (no AOF, no snapshots)"
    )
    return promise, [f"{promise}; set appendonly yes"]


def eviction_warnings(facts: dict[str, str]) -> list[str]:
    policy = facts.get("maxmemory_policy", "noeviction")
    if policy == "noeviction":
        return []
    return [f"maxmemory-policy is {policy}: when memory runs out the server may drop jobs; set it to noeviction"]


def replica_warnings(facts: dict[str, str], place: Place) -> list[str]:
    replicas = int(facts.get("connected_slaves", "0") or 0)
    if place.wait_replicas > replicas:
        return [f"wait_replicas={place.wait_replicas}, but the server has {replicas}: every enqueue will fail"]
    if replicas and not place.wait_replicas:
        return ["a failover may undo what the replicas had not received; wait_replicas=1 narrows that"]
    return []
