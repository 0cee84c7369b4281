"""Who is asking, and what they may do. A dashboard lets users in by names and passwords, tokens, or the user's own
function; without any of them by a link with a key (``local_entrance.py``).

Passwords and tokens are kept and compared as hashes, in constant time. Every failure costs the client a moment, and
many failures make the next try wait (``guessing.py``).
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from windlass.app import Windlass
from windlass.core.access import Access, make_access
from windlass.core.strikes import Strikes
from windlass.errors import ConfigError
from windlass.web.credentials import Denied, Instead, basic_of, bearer_of
from windlass.web.guessing import GuessLimiter
from windlass.web.local_entrance import Local

Verdict = Access | Response | None
Authorize = Callable[[Request], Verdict | Awaitable[Verdict]]
"""An access; an answer to send instead of the page (such as a redirect to a login); or None: turned away."""

Rights = Iterable[str] | Access

FAILURE_SECONDS = 0.3
"""How long somebody with a wrong password or token waits for the answer."""


class Basic:
    """Names and passwords: ``Basic({"ann": ("secret", ["*"]), "bob": ("secret2", ["read", "retry"])})``.

    Instead of a list of rights an ``Access`` says queues and redaction too.
    """

    challenge = 'Basic realm="windlass", charset="UTF-8"'

    def __init__(self, users: Mapping[str, tuple[str, Rights]]) -> None:
        self._users: dict[str, tuple[bytes, Access]] = {}
        for user, login in users.items():
            password, rights = _pair("Basic", user, login)
            if not user or ":" in user:
                raise ConfigError(f"Basic: the user name {user!r} is not usable: it must not be empty or contain ':'")
            self._users[user] = (_digest(password), access_of(user, rights))

    def __call__(self, request: Request) -> Access | None:
        user, colon, password = basic_of(request)
        # An unknown user is compared with the hash of nothing, so that the refusal takes as long as a known user's.
        wanted, access = self._users.get(user, (_digest(""), None))
        right = hmac.compare_digest(wanted, _digest(password))
        return access if right and colon else None

    @property
    def secret(self) -> str:
        """A key that only the passwords' owner can derive."""
        return "".join(sorted(password.hex() for password, _ in self._users.values()))

    def knows(self, user: str) -> bool:
        return user in self._users


class Token:
    """Bearer tokens for scripts: ``Token({"a long random text": ("ci", ["enqueue"])})``."""

    challenge = 'Bearer realm="windlass"'

    def __init__(self, tokens: Mapping[str, tuple[str, Rights]]) -> None:
        self._tokens: dict[bytes, Access] = {}
        for token, login in tokens.items():
            user, rights = _pair("Token", "…", login)
            if len(token) < SHORTEST_TOKEN:
                raise ConfigError(
                    f"Token: the token of {user!r} has less than {SHORTEST_TOKEN} characters and could be guessed; "
                    "make one by python -c 'import secrets; print(secrets.token_urlsafe())'"
                )
            self._tokens[_digest(token)] = access_of(user, rights)

    def __call__(self, request: Request) -> Access | None:
        token = bearer_of(request)
        return self._tokens.get(_digest(token)) if token else None  # looked up by its hash, so no secret is compared

    @property
    def secret(self) -> str:
        return "".join(sorted(token.hex() for token in self._tokens))

    def knows(self, user: str) -> bool:
        """Always false: nothing tells whose a wrong token would be."""
        return False


SHORTEST_TOKEN = 16


def access_of(user: str, rights: Rights) -> Access:
    if isinstance(rights, Access):
        return msgspec.structs.replace(rights, user=rights.user or user)
    if isinstance(rights, str):
        raise ConfigError(f"the rights of {user!r} are a list, such as ['read', 'values', 'retry'], not {rights!r}")
    return make_access(user, rights)


def _pair(kind: str, who: str, login: object) -> tuple[str, Rights]:
    if not isinstance(login, tuple) or len(login) != 2 or not isinstance(login[0], str) or not login[0]:
        first = "password" if kind == "Basic" else "name"
        raise ConfigError(f"{kind}: give ({first}, rights) for {who!r}")
    return login


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


# -- letting in


class Entrance:
    """The ways into one dashboard. ``redact``: names hidden from all users, whatever their access says."""

    def __init__(self, app: Windlass, auth: Authorize | Sequence[Authorize] | None, redact: Sequence[str] = ()) -> None:
        self.ways: tuple[Authorize, ...] = (
            () if auth is None else tuple(auth) if isinstance(auth, Sequence) else (auth,)
        )
        for way in self.ways:
            if not callable(way):
                raise ConfigError(f"auth: {way!r} is not usable; give Basic(…), Token(…) or a function of the request")
        if auth is not None and not self.ways:
            raise ConfigError("auth: an empty list lets nobody in; leave auth out for this machine only, read-only")
        self.local = None if self.ways else Local()
        self._ours = [way for way in self.ways if isinstance(way, Basic | Token)]
        self._throttle = GuessLimiter(app, _digest("".join(sorted(way.secret for way in self._ours))))
        self._redact = tuple(redact)

    @property
    def challenge(self) -> str:
        """How to sign in, for WWW-Authenticate. A user's own function gives none, and Bearer opens no dialog."""
        return ", ".join(way.challenge for way in self.ways if isinstance(way, Basic | Token)) or Token.challenge

    async def access(self, request: Request) -> Access:
        """The access of the user who asks, or ``Denied``."""
        access = self.local(request) if self.local else await self._ask(request)
        return msgspec.structs.replace(access, redact=(*access.redact, *self._redact)) if self._redact else access

    async def _ask(self, request: Request) -> Access:
        guess, before = self._throttle.guess_of(request) if self._ours else None, dict[str, Strikes]()
        if guess is not None:
            await self._throttle.check(guess)
            if not any(way(request) for way in self._ours):
                before = self._throttle.strike(guess)
        access: Access | None = None
        try:
            access = await self._by_any_way(request)
        finally:  # also when a function of the user answers the request itself
            if access is not None:
                self._throttle.forgive(before)
            elif guess is not None:
                known = any(way.knows(guess.who) for way in self._ours)
                await self._throttle.record(guess, before, known, "api" if bearer_of(request) else "web")
        if access is not None:
            return access
        if request.headers.get("authorization"):
            await asyncio.sleep(FAILURE_SECONDS)
            raise Denied("the name, password or token is wrong", self.challenge)
        raise Denied("sign in to see this", self.challenge)

    async def _by_any_way(self, request: Request) -> Access | None:
        for way in self.ways:
            verdict = way(request)
            if inspect.isawaitable(verdict):
                verdict = await verdict
            if isinstance(verdict, Response):
                raise Instead(verdict)
            if isinstance(verdict, Access):
                return verdict
            if verdict is not None:
                raise TypeError(f"authorize() must return an Access, a Response or None, not {type(verdict).__name__}")
        return None
