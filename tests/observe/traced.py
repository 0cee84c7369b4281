"""A traced app for worker processes and their children, which write their spans to the file TRACED_SPANS."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from tests.observe.collected import Book
from tests.worker.helpers import SHORT
from windlass import Windlass, current
from windlass.observe.tracing import trace

app = Windlass("traced", os.environ.get("TRACED_URL", "memory://"), **SHORT)
book = Book(Path(os.environ.get("TRACED_SPANS", os.devnull)))
trace(app, tracer_provider=book.provider, logs="sampled")
log = logging.getLogger("shop")


@app.task
async def order(number: int) -> int:
    with book.tracer.start_as_current_span("look up"):
        log.info("order %d", number)
        await pack.enqueue(number)
    return number


@app.task
def pack(number: int) -> int:
    with book.tracer.start_as_current_span("wrap"):
        log.warning("packing %d", number)
        draw.delay(number)
    return number


def shade(number: int) -> int:
    with book.tracer.start_as_current_span("shade"):
        return number


@app.task
async def in_part(number: int) -> int:
    answer: int = await current().in_process(shade, number)
    return answer


@app.task(runs_in="process")
def draw(number: int) -> int:
    with book.tracer.start_as_current_span("draw"):
        label.delay(number)
    return number


@app.task(runs_in="process")
async def draw_async(number: int) -> int:
    with book.tracer.start_as_current_span("draw async"):
        await label.enqueue(number)
    return number


@app.task
async def label(number: int) -> int:
    return number
