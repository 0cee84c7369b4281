"""One module per job system, run inside that system's own environment. Only these modules import a peer.

Every module offers `enqueue(value)` or `aenqueue(value)`, `pending()` or `apending()`, and `versions()`; `call(value)`
or `acall(value)` where results exist, and `enqueue_many(values)`, `aenqueue_many(values)`, `aschedule_many(values)`
where the system has them. `session()` is opened around coroutines. Those under `on_redis/` are in the same form; the
ones in JavaScript do the same work as `client.py`.
"""
