"""Results and errors that nodes hand on."""

from __future__ import annotations

from windlass.store.jobs import INLINE_MAX
from windlass.store.machine.codes import SUCCEEDED

_SIZE = "iif(substr({0}, 1, 1) = char(1), (length({0}) - 1) / 2, octet_length({0}))"
# How many bytes a result has, whichever way it is written (codes.py).
AT_HAND = f"{{0}}.state = {SUCCEEDED} AND {_SIZE.format('{0}.result')} <= {INLINE_MAX}"
"""Whether a job or join succeeded with a result small enough to be handed on as it is."""

READ = (
    f"SELECT w.value, iif({AT_HAND.format('j')}, j.result, NULL), j.error, j.fingerprint "
    "FROM json_each(?1) AS w CROSS JOIN jobs AS j ON j.id = w.value "
    f"UNION ALL SELECT w.value, iif({AT_HAND.format('v')}, v.result, NULL), v.error, '' "
    "FROM json_each(?1) AS w CROSS JOIN nodes AS v ON v.id = w.value WHERE v.shape > 0"
)
