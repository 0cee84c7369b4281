"""Where notices can go besides a function: a webhook, an e-mail. Sends one notice; when and how often is not decided
here, and what fails raises, so that the job of the delivery is tried again.

Every app imports this module, and few notify anybody: what only a delivery needs is imported when there is one.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import importlib.util
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import msgspec

from windlass.core.duration import Duration, to_ms
from windlass.core.notice import Notice
from windlass.core.packages import pip_install
from windlass.errors import ConfigError, WindlassError

if TYPE_CHECKING:
    from email.message import EmailMessage
    from smtplib import SMTP


class Webhook:
    """An HTTP endpoint that gets each notice as JSON by POST. Any answer but 2xx is a failure, and tried again.

    With a ``secret`` each request is signed as Standard Webhooks say: ``webhook-id``, ``webhook-timestamp`` and
    ``webhook-signature``, a base64 HMAC-SHA256 of id, timestamp and body. ``whsec_...`` secrets are base64, others are
    taken as text. The id is the same at every attempt.

    It must be on the public internet, whatever its name turns out to mean. ``allow_private=True`` also lets it be this
    machine or one of a private network; a list of networks says which, and is the only way to where clouds keep keys.
    """

    kind = "webhook"

    def __init__(
        self, url: str, *, headers: Mapping[str, str] | None = None, secret: str = "", timeout: Duration = "10s",
        allow_private: bool | Sequence[str] = False,
    ) -> None:  # fmt: skip
        from windlass.core.network_addresses import host_refusal, parse_allowed

        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"Webhook got the URL {url!r}; give one that begins with https:// or http://")
        if importlib.util.find_spec("httpx2") is None:
            raise ConfigError(f"Webhook needs the package httpx2: {pip_install('webhooks')}")
        self._url, self._headers, self._secret = url, dict(headers or {}), _secret_bytes(secret)
        self._timeout = to_ms(timeout, "Webhook timeout") / 1000
        self.identity = url
        self._shown = f"{parts.scheme}://{parts.hostname}"
        self._allowed = parse_allowed(allow_private, "Webhook: allow_private")
        if reason := host_refusal(parts.hostname, self._allowed):
            raise ConfigError(
                f"Webhook got a URL with the host {parts.hostname}, which is {reason}; where that is meant, write "
                "allow_private=True, or allow_private=[...] with its network"
            )

    async def send(self, notice: Notice) -> None:
        from windlass.support.outbound import OutboundError, post

        body = msgspec.json.encode(notice)
        headers = {"content-type": "application/json", **self._headers, **self._signed(notice.id, body)}
        try:
            answer = await post(self._url, body, headers, allowed=self._allowed, timeout=self._timeout)
        except OutboundError as error:
            raise WindlassError(f"{self!r}: {error}") from None
        if answer.location:
            raise WindlassError(
                f"{self!r} answered {answer.status} and leads to {answer.location[:200]!r}; redirects are not "
                "followed: give that address if it is right"
            )
        if not answer.is_success:
            raise WindlassError(f"{self!r} answered {answer.status}: {answer.text[:200]}")

    def _signed(self, id: str, body: bytes) -> dict[str, str]:
        stamp = str(int(time.time()))
        headers = {"webhook-id": id, "webhook-timestamp": stamp}
        if self._secret:
            import hmac

            digest = hmac.new(self._secret, b".".join((id.encode(), stamp.encode(), body)), hashlib.sha256).digest()
            headers["webhook-signature"] = f"v1,{base64.b64encode(digest).decode()}"
        return headers

    def __repr__(self) -> str:
        """Without path and query: in many services those are the secret."""
        return f"<webhook {self._shown}>"


def _secret_bytes(secret: str) -> bytes:
    if not secret.startswith("whsec_"):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except ValueError as error:
        raise ConfigError("Webhook: what follows whsec_ in the secret is not base64") from error


class Email:
    """A mail server that sends each notice. ``url``: ``smtp://user:password@host:587`` or ``smtps://...:465``.

    ``smtp`` turns TLS on where the server offers it; a password is never sent without, but to this machine.
    """

    kind = "email"

    def __init__(
        self, to: str | Sequence[str], sender: str, url: str = "smtp://localhost:25", *, timeout: Duration = "30s"
    ) -> None:
        self._to, self._sender, parts = [to] if isinstance(to, str) else list(to), sender, urlsplit(url)
        for address in (*self._to, sender):
            if "@" not in str(address) or not str(address).isprintable():
                raise ConfigError(f"Email got the address {address!r}; give one such as 'ops@example.com'")
        if not self._to:
            raise ConfigError("Email got no address to send to")
        if parts.scheme not in ("smtp", "smtps") or not parts.hostname:
            raise ConfigError(f"Email: the URL begins with {parts.scheme!r}; give smtp://host:587 or smtps://host:465")
        self._tls, self._host = parts.scheme == "smtps", parts.hostname
        self._port = parts.port or (465 if self._tls else 25)
        self._user, self._password = unquote(parts.username or ""), unquote(parts.password or "")
        self._timeout = to_ms(timeout, "Email timeout") / 1000
        self.identity = f"{','.join(self._to)} {self._host}:{self._port}"

    async def send(self, notice: Notice) -> None:
        await asyncio.to_thread(self._send, self._message(notice))

    def _message(self, notice: Notice) -> EmailMessage:
        from email.message import EmailMessage
        from email.utils import formatdate

        mail = EmailMessage()
        mail["Subject"] = " ".join(notice.title.split())[:200]
        mail["From"], mail["To"] = self._sender, ", ".join(self._to)
        mail["Date"] = formatdate()
        # The same at every attempt, so that who gets a notice twice can tell.
        mail["Message-ID"] = f"<{hashlib.sha256(notice.id.encode()).hexdigest()[:32]}@windlass.invalid>"
        mail["Auto-Submitted"] = "auto-generated"
        held = f"\n\n{notice.held_back} more were held back since the notice before." if notice.held_back else ""
        mail.set_content(f"{notice.text}{held}\n")
        return mail

    def _send(self, mail: EmailMessage) -> None:
        from smtplib import SMTP, SMTP_SSL

        kind = SMTP_SSL if self._tls else SMTP
        with kind(self._host, self._port, timeout=self._timeout) as server:
            self._log_in(server)
            server.send_message(mail, self._sender, self._to)

    def _log_in(self, server: SMTP) -> None:
        import ssl

        from windlass.core.network_addresses import is_loopback

        safe = self._tls or is_loopback(self._host)
        server.ehlo()
        if not self._tls and server.has_extn("starttls"):
            server.starttls(context=ssl.create_default_context())
            server.ehlo()
            safe = True
        if self._user:
            if not safe:
                raise WindlassError(f"{self!r} offers no TLS, and the password is not sent without")
            server.login(self._user, self._password)

    def __repr__(self) -> str:
        return f"<email to {', '.join(self._to)} by {self._host}>"
