"""Targets of notices: webhooks and email."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import pytest

from tests.unit.operate.notices_kit import app, h, notice
from windlass import ConfigError, Email, Webhook, Windlass

__all__ = ["app", "h"]


# -- targets


def test_targets_hide_what_is_secret() -> None:
    hook = Webhook("https://hooks.example.com/T00/SECRET?k=SECRET", secret="SECRET", headers={"x": "SECRET"})
    mail = Email("ops@example.com", "jobs@example.com", "smtp://me:SECRET@mail.example.com:587")
    app = Windlass("shop", "memory://")
    app.notify(hook)
    app.notify(mail)
    assert "SECRET" not in f"{hook!r} {mail!r} {app.notices.rules}"


@pytest.mark.parametrize("url", ["ftp://x", "example.com", "https://"])
def test_a_webhook_needs_a_web_address(url: str) -> None:
    with pytest.raises(ConfigError, match="https://"):
        Webhook(url)


@pytest.mark.parametrize(
    ("to", "sender", "url"),
    [("ops", "a@b", "smtp://h"), ("a@b", "a@b\nBcc: x@y", "smtp://h"), ([], "a@b", "smtp://h"), ("a@b", "a@b", "h")],
)
def test_an_email_needs_addresses_and_a_server(to: Any, sender: str, url: str) -> None:
    with pytest.raises(ConfigError, match="Email"):
        Email(to, sender, url)


def test_requests_are_signed_as_standard_webhooks_say() -> None:
    secret = base64.b64encode(b"a key of some length").decode()
    headers = Webhook("https://x.example", secret=f"whsec_{secret}")._signed("n1", b"{}")
    signed = f"n1.{headers['webhook-timestamp']}.{{}}".encode()
    expected = base64.b64encode(hmac.new(b"a key of some length", signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert "webhook-signature" not in Webhook("https://x.example")._signed("n1", b"{}")
    with pytest.raises(ConfigError, match="base64"):
        Webhook("https://x.example", secret="whsec_!")


def test_a_subject_is_one_line_whatever_the_error_says() -> None:
    mail = Email("a@b.example", "c@d.example")._message(notice(title="one\r\nBcc: x@y.example\nthree"))
    assert mail["Subject"] == "one Bcc: x@y.example three"
    assert mail["Bcc"] is None
