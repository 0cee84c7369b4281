"""The public types: what editors show is pinned by ``assert_type``, and wrong calls are type errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parents[2]

HEAD = """
from datetime import datetime
from windlass import Windlass, Keep, chain, flow, group
app = Windlass("shop", "memory://")

@app.task
async def add(x: int, y: int = 0) -> int:
    return x + y

@app.task(queue="emails")
def send(to: str, *, subject: str) -> list[str]:
    return [to]

async def main() -> None:
    {line}
"""

# What is written, and what mypy says to it. Each is a mistake the editor shows before anything runs.
WRONG = {
    "await add.enqueue('1')": "[arg-type]",
    "await add.enqueue()": "[call-arg]",
    "await add.enqueue(1, 2, 3)": "[call-arg]",
    "await add.enqueue(1, z=2)": "[call-arg]",
    "await send.enqueue('a', 'b')": "[call-arg]",
    "send.delay('a', subject=5)": "[arg-type]",
    "send.send(5, subject='b')": "[arg-type]",
    "add.si('x')": "[arg-type]",
    "add.si()": "[call-arg]",
    "add.options(priority=9).si(1, 2, 3)": "[call-arg]",
    "add.si(1).set(qeue='x')": "[call-arg]",
    "app.sig('x', {}, prioritty=9)": "[call-arg]",
    "group(add.si(1), add)": "[call-overload]",
    "add.si(1) | print": "[operator]",
    "flow(group(add.si(1)))": "[arg-type]",
    "add.si(1).if_fails('ignor')": "[arg-type]",
    "add.si(1).on_error(print)": "[arg-type]",
    "text: str = await (await chain(send.si('a', subject='b'), add.s()))": "[arg-type]",
    "numbers: list[str] = await (await group(add.si(1), add.si(2)))": "[arg-type]",
    "await send.options(priority=9).enqueue('a')": "[call-arg]",
    "send.options(priority=9).delay(1, subject='b')": "[arg-type]",
    "add.options(prioritty=9)": "[call-arg]",
    "add.options(priority='high')": "[arg-type]",
    "add.options(retry_on=ValueError)": "[call-arg]",
    "app.task(retrys=3)": "[call-overload]",
    "app.task(runs_in='proces')(print)": "[call-overload]",
    "app.queue('emails', retires=3)": "[call-arg]",
    "Windlass('shop', leese=3)": "[call-arg]",
    "app.worker(concurency=3)": "[call-arg]",
    "text: str = await (await add.enqueue(1))": "[assignment]",
    "text: str = send.delay('a', subject='b').get()": "[assignment]",
    "number: int = await send('a', subject='b')": "[misc]",
    "await app.enqueue_many([add])": "[list-item]",
    "app.events(qeue='x')": "[call-arg]",
    "app.breaker('stripe', erors=5)": "[call-arg]",
    "app.breaker('stripe', when_open='wait')": "[arg-type]",
    "app.lock('a', tll=5)": "[call-arg]",
    "app.task(batch='many')": "[call-overload]",
    "app.task(batch_wait=1)(send.fn)": "[call-overload]",
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """One run of mypy over all snippets, since it takes its time to start."""
    folder = tmp_path_factory.mktemp("snippets")
    files = {}
    for number, line in enumerate(WRONG):
        path = folder / f"snippet_{number}.py"
        path.write_text(HEAD.format(line=line))
        files[line] = str(path)
    out, err, _ = api.run(
        ["--strict", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache/snippets"),
         "--no-error-summary", *files.values()]
    )  # fmt: skip
    assert not err, err
    # By the file's name alone: mypy repeats what its cache knows with the path of the run that found it.
    lines = out.splitlines()
    return {line: [text for text in lines if f"/{Path(path).name}:" in text] for line, path in files.items()}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_call_is_a_type_error(answers: dict[str, list[str]], line: str) -> None:
    errors = [text for text in answers[line] if ": error:" in text]
    assert errors, f"mypy accepts {line}"
    assert any(WRONG[line] in text for text in errors), errors


def test_right_calls_have_the_types_they_should() -> None:
    out, err, code = api.run(
        ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache/public"),
         str(ROOT / "tests/typing/public.py")]
    )  # fmt: skip
    assert code == 0, out + err
