"""Which job systems are measured, and in which configurations. Describes; starts nothing and imports no peer."""

from benchmarks.peers import bare, celery, dbos, django, huey, on_redis, windlass
from benchmarks.peers.model import Peer

WINDLASS = windlass.PEER
SQLITE: tuple[Peer, ...] = (
    windlass.PEER,
    huey.PEER,
    celery.PEER,
    dbos.PEER,
    django.PEER,
    bare.LITEQUEUE,
    bare.PERSIST_QUEUE,
)
REDIS: tuple[Peer, ...] = on_redis.ALL
