"""A shop, as the dashboard's tests and pictures know it: tasks of several kinds, schedules, limits, a breaker.

Worker and dashboard processes get ``tests.browser.shop:app`` with the store in $SHOP_URL; a test makes one of its own
for the same store with ``declare``.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, Literal

import msgspec

from windlass import Reject, Retry, Snooze, Windlass, cron, current, every

URL, NAME, STAGE, QUEUES = "SHOP_URL", "SHOP_NAME", "SHOP_STAGE", "SHOP_QUEUES"
"""Variables that say what to open; the queues are more than the shop's own, with commas."""


class Order(msgspec.Struct):
    """What somebody buys."""

    number: int
    items: list[str]
    gift: bool = False


class CardDeclined(Exception):
    """The bank says no."""


def declare(app: Windlass, queues: str = "") -> Windlass:
    """The shop's tasks, limits and schedules on an app."""
    for name in filter(None, queues.split(",")):
        app.queue(name, priority=5)  # a queue is declared by an option
    app.queue("emails", rate="6000/m", key_limit=2)
    app.queue("media", limit=4, max_ready=10_000)
    app.breaker("payments-api", errors=4, window="10m", open_for="2h", trip_on=ConnectionError)
    declare_orders(app)
    declare_parcels(app)
    declare_staged(app)
    declare_reports(app)
    return app


def declare_orders(app: Windlass) -> None:
    @app.task(name="mail.send", queue="emails", retries=2, key=lambda to, **_: to.rpartition("@")[2])
    async def send(
        to: str, subject: str = "Hello", format: Literal["html", "text"] = "html", copies: int = 1, urgent: bool = False
    ) -> str:
        """Send one mail to one address.

        Retried when the server is busy.
        """
        current().log(f"connected for {to}")
        if "busy" in to:
            raise Retry("the mail server is busy", delay="1h")
        if "nobody" in to:
            raise LookupError(f"there is no mailbox {to}")
        return f"{copies} × {format} to {to}"

    @app.task(name="orders.charge", queue="payments", tags=["money"], search=["order"])
    async def charge(order: Order, amount: float) -> dict[str, Any]:
        """Take the money for an order."""
        if amount > 1000:
            raise CardDeclined(f"card declined for order {order.number}: insufficient funds")
        return {"order": order.number, "charged": amount, "currency": "EUR"}

    @app.task(name="orders.refund", queue="payments", breaker="payments-api")
    async def refund(order: int) -> int:
        """Give the money back."""
        if order < 0:
            raise ConnectionError("payments-api: connection refused")
        return order


def declare_parcels(app: Windlass) -> None:
    @app.task(name="orders.pack", queue="warehouse")
    async def pack(order: int) -> int:
        await asyncio.sleep(0)
        return order

    @app.task(name="orders.ship", queue="warehouse")
    async def ship(order: Any = None, by: str = "post") -> str:
        if by == "pigeon":
            raise Reject("no pigeons today")
        return f"{by}: {order}"

    @app.task(name="orders.notify", queue="emails")
    async def notify(order: Any = None) -> str:
        return f"told of {order}"


def declare_staged(app: Windlass) -> None:
    """Tasks that do what a test tells them, when it does."""

    @app.task(name="media.transcode", queue="media", timeout="10m")
    async def transcode(video: str, width: int = 1280) -> str:
        """Make a video smaller: as far as its stage says."""
        done = 0
        while True:
            for word, text in stage(video)[done:]:
                done += 1
                if word == "end":
                    return f"{video}@{width}"
                if word == "fail":
                    raise RuntimeError(text)
                act(word, text)
            await asyncio.sleep(0.02)

    @app.task(name="orders.check", queue="warehouse")
    async def check(order: int) -> int:
        """Fails until its stage has anything on it."""
        if not stage(f"check-{order}"):
            raise ValueError(f"order {order} cannot be checked")
        return order

    @app.task(name="stock.wait", queue="warehouse", retries=20)
    async def wait(item: str) -> None:
        raise Snooze("1h")


def declare_reports(app: Windlass) -> None:
    @app.schedule(every("day at 03:00", tz="Europe/Berlin"), name="nightly-report")
    @app.task(name="reports.daily", queue="reports")
    async def daily(shop: str = "main", days: int = 1) -> str:
        """Sales of the last days, as a table."""
        return f"{shop}: {days}"

    @app.schedule(cron("0 9 * * 1-5", tz="Europe/Berlin"), name="reminders")
    @app.task(name="mail.remind", queue="emails")
    async def remind() -> int:
        return 0

    @app.schedule(every("10 minutes"), name="stock-levels")
    @app.task(name="stock.count", queue="warehouse")
    async def count() -> int:
        return 42


# -- the stage: a file per name, one order a line


def stage(name: str) -> list[tuple[str, str]]:
    path = Path(os.environ.get(STAGE, ".")) / f"{name}.stage"
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


def act(word: str, text: str) -> None:
    if word == "log":
        current().log(text)
    elif word == "warn":
        current().log(text, "warning")
    elif word == "progress":
        percent, _, message = text.partition(" ")
        current().progress(float(percent), message)


app = declare(
    Windlass(os.environ.get(NAME, "shop"), os.environ.get(URL, "memory://"), lease="3s", beat="0.5s"),
    os.environ.get(QUEUES, ""),
)
