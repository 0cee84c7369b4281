"""What operators do to jobs. They are deleted by `uproot` in steps.sql."""

from __future__ import annotations

_THESE = "(SELECT value FROM json_each(?))"

TARGETS = (
    f"SELECT n, id, task, queue, state, worker, bucket, crashes, max_crashes, node, lane FROM jobs WHERE id IN {_THESE}"
)
ASK_TO_CANCEL = f"UPDATE jobs SET cancel = 1, reason = ? WHERE n IN {_THESE}"
ROUSE = f"UPDATE workers SET idle = 0 WHERE n IN {_THESE} RETURNING id"
LESS = "UPDATE buckets SET size = size - (e.value ->> 1) FROM json_each(?) AS e WHERE buckets.n = e.value ->> 0"
# The place of an ended job is one among the ended, whatever its queue is.
MOVE = f"UPDATE jobs SET queue = ?, place = iif(state > 3, place, 0) WHERE n IN {_THESE}"
PRIORITY = f"UPDATE jobs SET priority = ? WHERE n IN {_THESE}"
PAYLOAD = f"UPDATE jobs SET payload = ? WHERE n IN {_THESE}"
TERMS = (
    "UPDATE jobs SET terms = e.value ->> 1, lane = e.value ->> 2, number = e.value ->> 3 FROM json_each(?) AS e "
    "WHERE jobs.n = e.value ->> 0"
)
WATCHED = f"SELECT j.id, w.name FROM watches AS w JOIN jobs AS j ON j.n = w.job WHERE w.job IN {_THESE}"
DELETE = "INSERT INTO uproot VALUES (?, '[]', '[]')"
