"""Types that go in and come out as themselves, and tasks that prove it in every place."""

from __future__ import annotations

import dataclasses
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pydantic

from windlass import Windlass

app = Windlass("typed", "memory://")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 9


@dataclasses.dataclass(frozen=True)
class Address:
    street: str
    zip_code: int | None = None


class Item(msgspec.Struct, frozen=True):
    sku: str
    price: Decimal
    tags: frozenset[str] = frozenset()


class Customer(pydantic.BaseModel):
    id: UUID
    name: str
    since: datetime
    addresses: list[Address] = []


class Point(NamedTuple):
    x: int
    y: int


class Options(TypedDict, total=False):
    fast: bool


@dataclasses.dataclass
class Order:
    customer: Customer
    items: list[Item]
    colour: Colour
    level: Level
    at: datetime
    on: date
    takes: timedelta
    blob: bytes
    labels: set[str]
    where: Point
    by_id: dict[UUID, Address]
    kind: Literal["new", "old"]
    options: Options
    total: Decimal | None = None


ID = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
NOW = datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)

ORDER = Order(
    customer=Customer(id=ID, name="Ada", since=NOW, addresses=[Address("Main St", 12345)]),
    items=[Item("a", Decimal("1.10"), frozenset({"x", "y"})), Item("b", Decimal("1E+3"))],
    colour=Colour.BLUE, level=Level.HIGH, at=NOW, on=date(2026, 3, 1), takes=timedelta(days=1, microseconds=5),
    blob=b"\x00\xff\n", labels={"a", "b"}, where=Point(1, 2), by_id={ID: Address("Side St")}, kind="new",
    options={"fast": True}, total=Decimal("1001.10"),
)  # fmt: skip


def check(order: Order) -> Order:
    assert order == ORDER
    assert type(order.customer) is Customer
    assert type(order.customer.addresses[0]) is Address
    assert type(order.items[0]) is Item
    assert type(order.items[0].tags) is frozenset
    assert type(order.where) is Point
    assert type(order.labels) is set
    assert type(order.level) is Level
    return order


@app.task
async def on_loop(order: Order, *, again: bool = False) -> Order:
    return check(order)


@app.task
def in_thread(order: Order, *, again: bool = False) -> Order:
    return check(order)


@app.task(runs_in="process")
def in_process(order: Order, *, again: bool = False) -> Order:
    return check(order)


@app.task
async def variadic(first: Item, *rest: Item, limit: Decimal = Decimal(1), **named: Colour) -> list[Any]:
    assert all(type(item) is Item for item in (first, *rest))
    assert all(type(colour) is Colour for colour in named.values())
    assert type(limit) is Decimal
    return [first.sku, [item.sku for item in rest], str(limit), {name: colour.name for name, colour in named.items()}]
