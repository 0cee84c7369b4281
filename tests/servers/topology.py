"""Several Redis servers that belong together: a cluster of three masters, and a master with replicas and sentinels.

Both are formed by plain commands, so that nothing beyond the server program is needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import hiredis

from tests.servers.process import HOST, free_port, wait_until
from tests.servers.redis import RedisServer, Value

SLOTS = 16384


class _Together:
    """Servers that are started one by one and closed together."""

    servers: list[RedisServer]

    def _run(self, server: RedisServer) -> RedisServer:
        self.servers.append(server)
        return server.start()

    def close(self) -> None:
        for server in self.servers:
            server.close()

    def _all_or_none(self) -> Any:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def start(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *_: object) -> None:
        self.close()


# ---- cluster -----------------------------------------------------------------------------------------------------


class ClusterNode(RedisServer):
    """One node. Its bus port is written down: the usual one, ten thousand higher, may be taken or beyond the range."""

    bus = 0

    def _settings(self) -> dict[str, Value]:
        if not (self.folder / "nodes.conf").exists():
            self.bus = free_port()
        return {**super()._settings(), "cluster-port": self.bus}

    def cluster_info(self) -> dict[str, str]:
        return dict(line.split(":", 1) for line in self.command("CLUSTER", "INFO").splitlines())


class Cluster(_Together):
    """Three masters that share the slots and notice a dead one after ``node_timeout`` milliseconds."""

    def __init__(self, binary: str, *, node_timeout: int = 1000, **options: Any) -> None:
        self.servers = []
        config = {
            "cluster-enabled": "yes",
            "cluster-node-timeout": node_timeout,
            "cluster-config-file": "nodes.conf",
            **options.pop("config", {}),
        }
        self._make = lambda: ClusterNode(binary, config=config, **options)

    @property
    def nodes(self) -> list[RedisServer]:
        return self.servers

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [(HOST, node.port) for node in self.nodes]

    @property
    def url(self) -> str:
        return f"redis+cluster://{_hosts(self.addresses)}"

    def start(self) -> Cluster:
        for _ in range(3):
            self._run(self._make())
        first, *others = self.nodes
        step = -(-SLOTS // 3)
        for index, node in enumerate(self.nodes):
            node.command("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
            node.command("CLUSTER", "ADDSLOTSRANGE", index * step, min((index + 1) * step, SLOTS) - 1)
        for node in others:
            assert isinstance(node, ClusterNode)
            first.command("CLUSTER", "MEET", HOST, node.port, node.bus)
        self.wait()
        return self

    def wait(self) -> None:
        """Until every node sees all slots served and all nodes."""
        wait_until(lambda: all(map(_settled, self.nodes)), "the cluster is whole", timeout=20)

    def owner(self, key: str) -> RedisServer:
        """The node that serves a key."""
        slot = self.nodes[0].command("CLUSTER", "KEYSLOT", key)
        return next(node for node in self.nodes if any(a <= slot <= b for a, b in _ranges(node)))

    def restart(self, node: RedisServer) -> None:
        node.restart()
        self.wait()

    def __enter__(self) -> Cluster:
        return self._all_or_none()


def _settled(node: RedisServer) -> bool:
    assert isinstance(node, ClusterNode)
    try:
        info = node.cluster_info()
    except (OSError, hiredis.HiredisError):
        return False
    return (info["cluster_state"], info["cluster_known_nodes"], info["cluster_slots_ok"]) == ("ok", "3", str(SLOTS))


def _ranges(node: RedisServer) -> Iterable[tuple[int, int]]:
    for start, end, master, *_ in node.command("CLUSTER", "SLOTS"):
        if master[1] == node.port:
            yield start, end


def _hosts(addresses: Iterable[tuple[str, int]]) -> str:
    return ",".join(f"{host}:{port}" for host, port in addresses)


# ---- sentinel ----------------------------------------------------------------------------------------------------


# How often a sentinel asks and tells, in milliseconds: oftener than in service, for the tests' patience. A master must
# miss several pings before it is called dead, or live ones are replaced. News of a replica is good for five pings' time
# and comes once a second while the master is missed.
EAGER = {"info-period": 200, "ping-period": 300, "ask-period": 100, "publish-period": 200, "election-timeout": 1000}


class SentinelServer(RedisServer):
    """One sentinel. It writes what it learns into its configuration, which a restart must find."""

    def start(self) -> RedisServer:
        super().start()
        for name, value in EAGER.items():
            self.command("SENTINEL", "DEBUG", name, value)
        return self

    def _keeps_its_file(self) -> bool:
        return True


class Sentinel(_Together):
    """A master, two replicas and three sentinels that replace a master they miss for ``down_after`` milliseconds."""

    def __init__(self, binary: str, *, name: str = "main", down_after: int = 1000, **options: Any) -> None:
        self.binary, self.name, self.down_after, self.options = binary, name, down_after, options
        self.servers = []
        self.redises: list[RedisServer] = []
        self.sentinels: list[RedisServer] = []

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [(HOST, sentinel.port) for sentinel in self.sentinels]

    @property
    def url(self) -> str:
        return f"redis+sentinel://{_hosts(self.addresses)}/{self.name}"

    def start(self) -> Sentinel:
        master = self._run(RedisServer(self.binary, **self.options))
        self.redises = [master]
        for _ in range(2):
            self.redises.append(self._run(RedisServer(self.binary, replicaof=master, **self.options)))
        for _ in range(3):
            self.sentinels.append(self._run(self._sentinel(master)))
        wait_until(self.whole, "the sentinels know each other and the replicas", timeout=20)
        return self

    def _sentinel(self, master: RedisServer) -> RedisServer:
        config = {
            "sentinel resolve-hostnames": "no",
            f"sentinel monitor {self.name}": f"{HOST} {master.port} 2",
            f"sentinel down-after-milliseconds {self.name}": self.down_after,
            f"sentinel failover-timeout {self.name}": 2000,  # also how soon a failed election is tried again
            f"sentinel parallel-syncs {self.name}": 2,
        }
        return SentinelServer(self.binary, config=config, arguments=["--sentinel"])

    def whole(self) -> bool:
        """Whether both replicas follow the master, and every sentinel sees them and the other sentinels."""
        try:
            return _replicas(self.master) == 2 and all(map(self._sees_all, self.sentinels))
        except (OSError, hiredis.HiredisError, AssertionError):
            return False

    def _sees_all(self, sentinel: RedisServer) -> bool:
        seen = _pairs(sentinel.command("SENTINEL", "MASTER", self.name))
        replicas = map(_pairs, sentinel.command("SENTINEL", "REPLICAS", self.name))
        alive = sum(replica["flags"] == "slave" for replica in replicas)
        return (seen["flags"], alive, seen["num-other-sentinels"]) == ("master", 2, "2")

    @property
    def master(self) -> RedisServer:
        """The server that all sentinels call the master."""
        ports = {
            int(sentinel.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.name)[1]) for sentinel in self.sentinels
        }
        assert len(ports) == 1, f"the sentinels do not agree: {ports}"
        return next(server for server in self.redises if server.port in ports)

    @property
    def failovers(self) -> int:
        """How many there were, ordered or not: a busy machine can make sentinels replace a master that lives."""
        return max(sentinel.logged().count("+switch-master") for sentinel in self.sentinels)

    def fail_over(self) -> RedisServer:
        """Kill the master and wait until another is one; returns the dead one, to be restarted."""
        dead = self.master
        dead.kill()
        wait_until(lambda: self._replaced(dead), "the sentinels replaced the dead master", timeout=30, every=0.05)
        return dead

    def _replaced(self, dead: RedisServer) -> bool:
        try:
            return self.master is not dead and self.master.info("replication")["role"] == "master"
        except AssertionError:
            return False

    def restart(self, server: RedisServer) -> None:
        """Bring a dead server back and wait until it follows the master of the day."""
        server.restart()
        wait_until(self.whole, "the returned server follows", timeout=30, every=0.05)

    def __enter__(self) -> Sentinel:
        return self._all_or_none()


def _replicas(master: RedisServer) -> int:
    """How many replicas follow. One that has not confirmed anything yet is counted "online" and gets no data."""
    info = master.info("replication")
    lines = [value for name, value in info.items() if name.startswith("slave")]
    return sum("state=online" in line and "offset=0," not in line for line in lines)


def _pairs(flat: list[Any]) -> dict[str, str]:
    return dict(zip(flat[::2], flat[1::2], strict=True))
