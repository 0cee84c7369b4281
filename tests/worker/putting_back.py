"""Tasks that refuse their job once, in each place."""

from __future__ import annotations

from windlass import Reject, Windlass, current

app = Windlass("putting-back", "memory://")


def refuse_once() -> list[int]:
    if current().snoozes < 2:
        raise Reject("not now", requeue=True)
    return [current().snoozes, current().attempt]


@app.task
async def on_loop() -> list[int]:
    return refuse_once()


@app.task
def in_thread() -> list[int]:
    return refuse_once()


@app.task(runs_in="process")
def in_process() -> list[int]:
    return refuse_once()
