"""Which job systems are measured, and in which configurations. Describes; starts nothing and imports no peer."""

from benchmarks.peers import bare, celery, dbos, django, huey, windlass
from benchmarks.peers.model import Peer

WINDLASS = windlass.PEER
ALL: tuple[Peer, ...] = (
    windlass.PEER,
    huey.PEER,
    celery.PEER,
    dbos.PEER,
    django.PEER,
    bare.LITEQUEUE,
    bare.PERSIST_QUEUE,
)
BY_NAME = {peer.name: peer for peer in ALL}
