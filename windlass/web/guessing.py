"""Slows down the guessing of passwords and tokens: failures are counted by address and by name, in the store.

So all processes count together, and a restart forgets nothing. Addresses and names are hashed into a fixed number of
places, with a key made of the passwords: an attacker can neither fill the store nor choose whose place to share. A
client without failures of its own is never held up by the count of a name, or guessing at a name would lock its user
out. While the store is away each process counts for itself.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import IPv6Address, ip_address, ip_network

import msgspec
from starlette.requests import Request

from windlass.app import Windlass
from windlass.console.audit import write_failed_login
from windlass.core.network_addresses import meant
from windlass.core.strikes import StrikeRule, Strikes
from windlass.errors import StoreError
from windlass.store.base import Store
from windlass.store.items import Put, put_one, read_one
from windlass.web.credentials import TooMany, basic_of, bearer_of

BY_ADDRESS = StrikeRule(free=5, step=1_000, most=900_000, forget=3_600_000)
BY_NAME = StrikeRule(free=50, step=1_000, most=30_000, forget=900_000)
"""Looser, as it may keep others out: however many addresses guess at one name, two tries a minute are looked at,
besides the first of each address.
"""
SHELF = "sign-in"
ADDRESSES, NAMES = 4_096, 1_024
"""Places they are counted in."""
FRESH = 1_000
"""So many ms a count that was read is used again: a page is several requests, each with the password."""
SWAPS = 5

_strikes = msgspec.json.Decoder(Strikes)


class Guess(msgspec.Struct, frozen=True):
    """A try with a password or token. ``address`` and ``name`` are places; a token has no name."""

    who: str
    origin: str
    mark: str
    address: str
    name: str = ""

    @property
    def rules(self) -> dict[str, StrikeRule]:
        return {self.address: BY_ADDRESS, **({self.name: BY_NAME} if self.name else {})}


class GuessLimiter:
    """The counts of one dashboard. ``secret``: the key of the hash, the same in all its processes."""

    def __init__(self, app: Windlass, secret: bytes) -> None:
        self._app, self._secret = app, secret
        self._counts: dict[str, Strikes] = {}  # by place, hence bounded
        self._read_at: dict[str, int] = {}

    def guess_of(self, request: Request) -> Guess | None:
        """What the request tries, if it shows a password or a token."""
        origin = request.client.host if request.client else ""
        shown = self._hash("tried", request.headers.get("authorization", ""))
        mark = shown.hex()[:12]
        if bearer_of(request):
            return Guess("", origin, mark, self._place("token", network_of(origin), ADDRESSES))
        name, colon, _ = basic_of(request)
        if not colon:
            return None
        address = self._place("address", network_of(origin), ADDRESSES)
        return Guess(name, origin, mark, address, self._place("name", name, NAMES))

    def _place(self, kind: str, text: str, places: int) -> str:
        number = int.from_bytes(self._hash(kind, text)[:8], "big") % places
        return f"{kind}:{number}"

    def _hash(self, kind: str, text: str) -> bytes:
        return hmac.digest(self._secret, f"{kind} {text}".encode("utf-8", "surrogatepass"), hashlib.sha256)

    async def check(self, guess: Guess) -> None:
        """Raise ``TooMany`` if the guess may not be looked at yet. Nothing is awaited between this check and
        the look.
        """
        await self._refresh(guess)
        now = now_ms()
        counts = {place: self._counts.get(place, Strikes()) for place in guess.rules}
        waits = [rule.wait(counts[place], now) for place, rule in guess.rules.items()]
        wait = waits[0]
        if len(waits) > 1 and not wait and BY_ADDRESS.is_known(counts[guess.address], now):
            wait = waits[1]
        if wait:
            raise TooMany(-(-wait // 1_000))

    def strike(self, guess: Guess) -> dict[str, Strikes]:
        """Count a failure in this process, at once. Answers the counts before it."""
        before = {place: self._counts.get(place, Strikes()) for place in guess.rules}
        self._counts |= {place: rule.strike(before[place], now_ms(), guess.mark) for place, rule in guess.rules.items()}
        return before

    def forgive(self, before: Mapping[str, Strikes]) -> None:
        """Take a strike back: another way let the same request in."""
        self._counts |= before

    async def record(self, guess: Guess, before: Mapping[str, Strikes], known: bool, via: str) -> None:
        """Count the failure in the store and write the audit record. ``known``: a user of that name exists."""
        if all(self._counts[place] == strikes for place, strikes in before.items()):
            return  # the same guess as the last time is not counted
        with suppress(StoreError):
            store = (await self._app.client()).store
            for place, rule in guess.rules.items():
                await self._add(store, place, rule, guess.mark)
            await write_failed_login(
                store, guess.who if known else "", guess.origin, via, self._counts[guess.address].count
            )

    async def _add(self, store: Store, place: str, rule: StrikeRule, mark: str) -> None:
        for _ in range(SWAPS):
            item = await read_one(store, SHELF, place)
            added = rule.strike(read(item.body), now_ms(), mark)
            body = msgspec.json.encode(added)
            done, _ = await put_one(store, Put(shelf=SHELF, key=place, body=body, ttl=rule.forget, expect=item.version))
            if done:
                self._counts[place] = merged(rule, added, self._counts[place])
                return

    async def _refresh(self, guess: Guess) -> None:
        now = time.monotonic_ns() // 1_000_000
        stale = [place for place in guess.rules if now - self._read_at.get(place, -FRESH) >= FRESH]
        if not stale:
            return
        self._read_at |= dict.fromkeys(stale, now)
        with suppress(StoreError):
            for item in await (await self._app.client()).store.items(SHELF, stale):
                here = self._counts.get(item.key, Strikes())
                self._counts[item.key] = merged(guess.rules[item.key], read(item.body), here)


def merged(rule: StrikeRule, *counts: Strikes) -> Strikes:
    """Of several counts of one place, the one with the most recent failures."""
    known = [each for each in counts if rule.is_known(each, now_ms())]
    return max(known, key=lambda each: (each.count, each.at), default=Strikes())


def read(value: bytes) -> Strikes:
    try:
        return _strikes.decode(value)
    except msgspec.MsgspecError:
        return Strikes()


def network_of(host: str) -> str:
    """An address as it is counted: an IPv6 address by the network that one customer gets."""
    try:
        address = meant(ip_address(host.partition("%")[0]))
    except ValueError:
        return host
    return str(ip_network((address, 56), strict=False)) if isinstance(address, IPv6Address) else str(address)


def now_ms() -> int:
    return time.time_ns() // 1_000_000
