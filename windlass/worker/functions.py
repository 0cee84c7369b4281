"""Plain functions run in a process child for a job: ``current().in_process(fn, *args)``.

Only what the child can import by name can be called there, and arguments and result travel as JSON, typed by the
function's annotations. Must not look at tasks or the app.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import traceback
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from importlib import import_module
from typing import Any

import msgspec

from windlass.core.job import ErrorInfo
from windlass.core.lifecycle import Failed, Outcome, Succeeded
from windlass.errors import ConfigError, PayloadError
from windlass.worker.frames import RunRequest
from windlass.worker.inside import here


def load_object(path: str) -> Any:
    """What "module:attribute" names; the attribute may be dotted, and without one it is the module."""
    module, _, attribute = path.partition(":")
    names = attribute.split(".") if attribute else []
    return reduce(getattr, names, import_module(module))


def function_path(function: Callable[..., Any]) -> str:
    """The "module:qualname" a child can import the function by."""
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
    if "." in name and not _is_reachable(module, name, function):
        raise ConfigError(f"{name} cannot run in a process: {module}:{name} does not lead to it")
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


def _is_reachable(module: str, name: str, function: object) -> bool:
    try:
        return load_object(f"{module}:{name}") is function
    except (AttributeError, ImportError):
        return False


def function_request(
    request_id: str, function: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
) -> RunRequest:
    """The request that calls a function in a child."""
    path = function_path(function)
    try:
        payload = msgspec.json.encode([list(args), dict(kwargs or {})])
    except (TypeError, ValueError) as error:
        raise PayloadError(f"the arguments of {path} cannot be carried as JSON: {error}") from None
    return RunRequest(id=request_id, kind="function", function=path, payload=payload)


def run_function(request: RunRequest) -> Outcome:
    """Call the function a request names; whatever it raises becomes the error of a ``Failed``."""
    try:
        function = load_object(request.function)
        args, kwargs = _arguments(function, request.payload)
        with here.user_code():
            result = function(*args, **kwargs)
            if inspect.iscoroutine(result):
                result = asyncio.run(result)
        return Succeeded(msgspec.json.encode(result))
    except Exception as error:
        return Failed(error_info(error))


def _arguments(function: Callable[..., Any], payload: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args, kwargs = msgspec.json.decode(payload, type=tuple[list[Any], dict[str, Any]])
    bound = inspect.signature(function).bind(*args, **kwargs)
    hints = typing.get_type_hints(function)
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if name in hints and kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            bound.arguments[name] = msgspec.convert(value, hints[name])
    return bound.args, bound.kwargs


def error_info(error: BaseException) -> ErrorInfo:
    """An exception as text."""
    kind = type(error)
    text = "".join(traceback.format_exception(error))
    return ErrorInfo(f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins."), str(error), text)
