"""Plain functions that run in a process child for a job: ``current().in_process(fn, *args)``.

Only functions the child can import by name can be called. Arguments and result travel as JSON, typed by the function's
annotations. This module looks at no task and no app.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable
from functools import lru_cache, reduce
from importlib import import_module
from typing import Any

from windlass.core.codec import Codec, encode
from windlass.core.failure import describe
from windlass.core.lifecycle import Failed, Outcome, Succeeded
from windlass.errors import ConfigError, JobFailed
from windlass.worker.child_messages import RunRequest
from windlass.worker.child_run import here

# The limit between two processes of one machine: far above a store's, yet low enough to protect the memory.
MAX_BYTES = 256 * 1024 * 1024


def load_object(path: str) -> Any:
    """The object "module:attribute" names; the attribute may be dotted. Without an attribute it is the module."""
    module, _, attribute = path.partition(":")
    names = attribute.split(".") if attribute else []
    return reduce(getattr, names, import_module(module))


def function_path(function: Callable[..., Any]) -> str:
    """The "module:qualname" by which a child can import the function."""
    name = getattr(function, "__qualname__", None)
    module = getattr(function, "__module__", None)
    if not inspect.isroutine(function) or not name or not module or inspect.ismethod(function):
        raise ConfigError(f"in_process() needs a function, not {function!r}")
    if "<" in name:
        raise ConfigError(
            f"{name} cannot run in a process: a lambda or a function inside another has no name to import it by; "
            "define it at the top of a module"
        )
    module = _real_module(module, name)
    if not _is_reachable(module, name):
        raise ConfigError(f"{name} cannot run in a process: {module}:{name} cannot be imported")
    return f"{module}:{name}"


def _real_module(module: str, name: str) -> str:
    if module != "__main__":
        return module
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is None:
        raise ConfigError(
            f"{name} cannot run in a process: it is defined in the script that was started, which a child cannot "
            "import; move it to a module"
        )
    return str(spec.name)


def _is_reachable(module: str, name: str) -> bool:
    try:
        return callable(load_object(f"{module}:{name}"))
    except (AttributeError, ImportError):
        return False


def function_request(
    request_id: str, function: Callable[..., Any], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
) -> RunRequest:
    """The request that calls a function in a child. Arguments that do not fit raise here."""
    path = function_path(function)
    payload = _codec(path).encode(args, kwargs or {}, MAX_BYTES)
    return RunRequest(id=request_id, kind="function", function=path, payload=payload)


def function_result(request: RunRequest, outcome: Outcome) -> Any:
    """The function's result, typed by its annotation; raises ``JobFailed`` with the text of what the function
    raised.
    """
    if isinstance(outcome, Succeeded):
        return _codec(request.function).decode_result(outcome.result)
    if isinstance(outcome, Failed):
        error = outcome.error
        raise JobFailed(
            f"{request.function} failed in its process: {error.type}: {error.message}",
            error_type=error.type, error_message=error.message, traceback=error.traceback,
        )  # fmt: skip
    raise JobFailed(f"{request.function} did not end in its process")


def run_function(request: RunRequest) -> Outcome:
    """Call, in the child, the function a request names. Whatever it raises becomes the error of a ``Failed``."""
    try:
        function = load_object(request.function)
        args, kwargs = _codec(request.function).decode(request.payload)
        with here.user_code():
            result = function(*args, **kwargs)
            if inspect.iscoroutine(result):
                result = asyncio.run(result)
        return Succeeded(encode(result, f"the result of {request.function}", MAX_BYTES))
    except Exception as error:
        return Failed(describe(error))


@lru_cache(maxsize=1024)
def _codec(path: str) -> Codec:
    return Codec(load_object(path), path)
