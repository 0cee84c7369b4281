"""django-tasks-db on SQLite: Django's own task interface with the database as queue. It keeps every result."""

from benchmarks.peers.model import Peer, Pool, Store

PEER = Peer(
    name="django-tasks-db",
    app="django_app",
    command=(
        "{python}",
        "-m",
        "django",
        "db_worker",
        "--settings",
        "benchmarks.apps.django_settings",
        "--interval",
        "0.001",
        "--no-startup-delay",
        "--no-reload",
        "-v",
        "0",
    ),
    stores=(Store("sqlite"),),
    pools=(Pool("one worker", preset=True, quiet=True),),
    results=frozenset({True}),
    slow=10,
)
