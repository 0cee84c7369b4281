"""Results and errors that nodes hand on."""

from __future__ import annotations

from windlass.store.jobs import INLINE_MAX
from windlass.store.machine.codes import SUCCEEDED

_SIZE = "CASE WHEN left({0}, 1) = chr(1) THEN (length({0}) - 1) / 2 ELSE octet_length({0}) END"
# How many bytes a result has, whichever way it is written (codes.py).
AT_HAND = f"{{0}}.state = {SUCCEEDED} AND {_SIZE.format('{0}.result')} <= {INLINE_MAX}"
"""Whether a job or join succeeded with a result small enough to be handed on as it is."""

READ = (
    f"SELECT w, CASE WHEN {AT_HAND.format('j')} THEN j.result END, j.error, j.fingerprint "
    "FROM names($1::jsonb) AS w JOIN whole AS j ON j.id = w "
    f"UNION ALL SELECT w, CASE WHEN {AT_HAND.format('v')} THEN v.result END, v.error, '' "
    "FROM names($1::jsonb) AS w JOIN nodes AS v ON v.id = w WHERE v.shape > 0"
)
