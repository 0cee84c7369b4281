"""Runs one page of the documentation, in a process of its own and in the current directory.

Python statements run one after the other in one namespace: blocks with a top-level ``await`` on this loop, the others
in a thread, as a sync program would. Before each statement every app that the page has made gets an embedded worker
that knows all tasks declared so far, so that pages need not start one where that is not their subject.
"""

from __future__ import annotations

import ast
import asyncio
import contextvars
import importlib
import inspect
import os
import re
import socket
import subprocess
import sys
import textwrap
import time
import traceback
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.docs.pages import ROOT, Block, blocks, needs_redis, read, with_redis
from tests.servers.process import free_port
from windlass import Windlass

COMMAND_SECONDS, START_SECONDS = 60, 30
REDIS_PORT = "DOCS_REDIS_PORT"
WEB = ":8080"
"""Where pages say that the dashboard is. Several pages run at once, so that each gets a port of its own."""


class PageError(Exception):
    """A block of the page does not do what it says."""


class Workers:
    """Embedded workers for the page's apps, started anew when something was declared."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        self._running: dict[int, tuple[AbstractAsyncContextManager[Any], tuple[object, ...]]] = {}

    async def keep_up(self, namespace: dict[str, Any]) -> None:
        apps = {id(value): value for value in namespace.values() if isinstance(value, Windlass)}
        for key, app in apps.items() if self._wanted else ():
            said = app.declared
            declared = (*said.tasks, *said.handlers, *said.queue_layers, *said.run_layers, *said.start_hooks)
            known = self._running.get(key)
            if known and known[1] == declared:
                continue
            if known:
                await known[0].__aexit__(None, None, None)
                del self._running[key]
            if app.tasks or app.handlers:
                worker = app.worker(grace=10)
                await worker.__aenter__()
                self._running[key] = (worker, declared)

    async def stop(self) -> None:
        for worker, _ in self._running.values():
            await worker.__aexit__(None, None, None)


class Page:
    """The page while it runs."""

    def __init__(self, name: str) -> None:
        self.name, text = name, read(name)
        if needs_redis(text):
            text = with_redis(text, os.environ[REDIS_PORT])
        self.blocks = blocks(text)
        # A real module, because type hints are looked up in it.
        module = sys.modules["page"] = ModuleType("page")
        self.namespace: dict[str, Any] = vars(module)
        self.namespace["stop_workers"] = self.stop_workers
        self.context = contextvars.copy_context()
        self.workers = Workers("<!-- no worker -->" not in text)
        self.background: list[subprocess.Popen[bytes]] = []
        self.web_port = free_port()

    async def run(self) -> None:
        sys.path.insert(0, os.getcwd())
        try:
            for block in self.blocks:
                try:
                    await self._run_block(block)
                except Exception as error:
                    raise PageError(f"{self.name}:{block.line}: this block failed:\n{block.text}") from error
            await self.workers.stop()
        finally:
            self.stop_workers()

    def stop_workers(self) -> None:
        """Also for hidden blocks of pages where a reader presses Ctrl-C."""
        for process in self.background:
            process.terminate()
        for process in self.background:
            process.wait(START_SECONDS)

    async def _run_block(self, block: Block) -> None:
        if block.language == "python" and not block.runs:
            compile(block.text, self.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        elif block.language == "python" and block.file:
            self._write(block)
        elif block.language == "python":
            await self._run_python(block)
        elif block.language == "console" and block.runs:
            await asyncio.to_thread(self._run_console, block)

    def _write(self, block: Block) -> None:
        path = Path(block.file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text + "\n", encoding="utf-8")
        name = block.file.removesuffix(".py").replace("/", ".")
        sys.modules.pop(name, None)
        importlib.invalidate_caches()
        module = importlib.import_module(name)
        self.namespace.update({key: value for key, value in vars(module).items() if not key.startswith("__")})

    async def _run_python(self, block: Block) -> None:
        # Empty lines in front give tracebacks the line numbers of the page.
        tree = ast.parse("\n" * (block.line - 1) + textwrap.dedent(block.text), str(ROOT / self.name))
        codes = [self._compiled(ast.Module([statement], [])) for statement in tree.body]
        on_loop = any(code.co_flags & inspect.CO_COROUTINE for code in codes)
        for code in codes:
            await self.workers.keep_up(self.namespace)
            if on_loop:
                await asyncio.create_task(self._on_loop(code), context=self.context)
            else:
                await asyncio.to_thread(self.context.run, exec, code, self.namespace)

    def _compiled(self, module: ast.Module) -> CodeType:
        code: CodeType = compile(module, str(ROOT / self.name), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        return code

    async def _on_loop(self, code: CodeType) -> None:
        waiting = eval(code, self.namespace)  # noqa: S307
        if code.co_flags & inspect.CO_COROUTINE:
            await waiting

    # -- commands

    def _run_console(self, block: Block) -> None:
        command, expected = "", []
        for line in [*block.text.splitlines(), "$ "]:
            if not line.startswith("$ "):
                expected.append(line)
                continue
            if command:
                self._command(command, expected)
            command, expected = line[2:].strip(), []

    def _command(self, command: str, expected: list[str]) -> None:
        if command.startswith("windlass worker") or (command.startswith("windlass celery") and " worker" in command):
            self._start(command, " is up")
            return
        command = command.replace(WEB, f":{self.web_port}")
        if command.startswith("windlass web"):
            self._start(f"{command} --port {self.web_port}", "Dashboard of", answers=True)
            return
        if command.startswith("windlass top"):
            command += " --once"  # a page has no terminal to stay in
        answer = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=COMMAND_SECONDS,
                                check=False, stdin=subprocess.DEVNULL, env=environment())  # fmt: skip
        output = answer.stdout + answer.stderr
        if answer.returncode:
            raise PageError(f"{command} ended with {answer.returncode}:\n{output}")
        check_output(command, expected, output)

    def _start(self, command: str, sign: str, answers: bool = False) -> None:
        """In the background, until it says that it is there; ``answers``: at the address that it prints."""
        log = Path(f"background-{len(self.background)}.log")
        with log.open("wb") as file:
            process = subprocess.Popen(["/bin/sh", "-c", f"exec {command}"], stdout=file, stderr=file,
                                       stdin=subprocess.DEVNULL, env=environment())  # fmt: skip
        self.background.append(process)
        limit = time.monotonic() + START_SECONDS
        while sign not in (said := log.read_text(encoding="utf-8")) or (answers and not answers_at(said)):
            if process.poll() is not None or time.monotonic() > limit:
                raise PageError(f"{command} did not start:\n{said}")
            time.sleep(0.05)


def answers_at(said: str) -> bool:
    """Whether a server listens at the address in its first words."""
    found = re.search(r"http://([\d.]+):(\d+)/", said)
    if not found:
        return False
    with socket.socket() as probe:
        return probe.connect_ex((found[1], int(found[2]))) == 0


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "120"}


def check_output(command: str, expected: list[str], output: str) -> None:
    """Every line shown must be there, in order, blanks aside."""
    place, flat = 0, " ".join(output.split())
    for line in expected:
        for part in line.split("…"):
            wanted = " ".join(part.split())
            found = flat.find(wanted, place)
            if found < 0:
                raise PageError(f"{command} does not print {line!r} there, but:\n{output}")
            place = found + len(wanted)


def main() -> int:
    try:
        asyncio.run(Page(sys.argv[1]).run())
    except PageError:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
