"""Mutes warnings: for a time, with a reason, for all users, and with a record of who did it."""

from __future__ import annotations

import msgspec

from windlass.console import overview, show
from windlass.console.audit import AuditedAction, act
from windlass.console.desk import Desk, now_ms
from windlass.console.replies import Warn
from windlass.core import mute
from windlass.core.duration import Duration, show_ms, to_ms
from windlass.core.hints import did_you_mean
from windlass.core.ids import check_name
from windlass.errors import ConfigError, NotFound
from windlass.store.items import Put, put_all

REASON_MOST = 500


async def mute_warning(desk: Desk, code: str, where: str, lasts: Duration, reason: str) -> Warn:
    """Mute a warning, again if it is muted. Answers the warning with its mute."""
    details = {"lasts": str(lasts), "reason": reason}
    async with act(desk, "mute_warning", f"{code} {where}".strip(), details) as deed:
        _need(deed, code, where)
        said = show.one_line(reason.strip(), REASON_MOST)
        if not said:
            raise ConfigError("a mute needs a reason: others will ask why nobody was told")
        ms = to_ms(lasts, "lasts")
        if not mute.SHORTEST <= ms <= mute.LONGEST:
            raise ConfigError(
                f"lasts is {lasts!r}; give from {show_ms(mute.SHORTEST)} to {show_ms(mute.LONGEST)}, such as 2h"
            )
        warn = await _find(desk, code, where)
        await deed.begin(_queues(warn))
        now = now_ms()
        given = mute.Mute(code=code, where=where, until=now + ms, by=desk.access.user, reason=said, at=now)
        body = msgspec.json.encode(given)
        store = await desk.store()
        await put_all(store, [Put(shelf=mute.SHELF, key=mute.key_of(code, where), body=body, ttl=ms)])
        deed.record.count = 1
    return overview.with_mute(warn, given)


async def unmute_warning(desk: Desk, code: str, where: str) -> Warn:
    """End a mute. Answers the warning."""
    async with act(desk, "unmute_warning", f"{code} {where}".strip()) as deed:
        _need(deed, code, where)
        warn = await _find(desk, code, where)
        await deed.begin(_queues(warn))
        await put_all(await desk.store(), [Put(shelf=mute.SHELF, key=mute.key_of(code, where), body=None)])
        deed.record.count = 1
    return overview.with_mute(warn, None)


def _need(deed: AuditedAction, code: str, where: str) -> None:
    deed.need("read")
    deed.need("mute", where if code in overview.OF_QUEUES else None)


async def _find(desk: Desk, code: str, where: str) -> Warn:
    """A warning this user may see. A queue's warning may be muted in advance, as its workers may be about to stop."""
    known = {(warn.code, warn.where): warn for warn in await overview.warnings(desk)}
    if (code, where) in known:
        return known[code, where]
    if code in overview.OF_QUEUES:
        return Warn(code=code, where=check_name("queue", where), text=f"queue {where}: nothing to warn of now")
    hint = did_you_mean(f"{code} {where}", [f"{one} {place}" for one, place in known] or sorted(overview.OF_QUEUES))
    raise NotFound(f"there is no warning {code!r} about {where!r}{hint}; it may have passed")


def _queues(warn: Warn) -> list[str]:
    return [warn.where] if warn.code in overview.OF_QUEUES else []
