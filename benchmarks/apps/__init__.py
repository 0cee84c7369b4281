"""One module per job system, run inside that system's own environment. Only these modules import a peer.

Every module offers `enqueue(value)`, `pending()` and `versions()`; `call(value)` where results exist, and
`enqueue_many(values)`, `aenqueue(value)`, `acall(value)`, `aenqueue_many(values)` where the system has them.
"""
