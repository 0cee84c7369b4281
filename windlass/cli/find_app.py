"""Finds and imports the user's app. Errors say what was looked for and what was there instead."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from windlass.app import Windlass
from windlass.cli.errors import CliError
from windlass.core.hints import did_you_mean
from windlass.errors import WindlassError

T = TypeVar("T")
_OWN = (str(Path(__file__).parent), "<frozen importlib", os.path.dirname(importlib.__file__ or "importlib"))


def load_app(spec: str) -> Windlass:
    """The app that ``module:attr``, ``module``, ``file.py`` or ``file.py:attr`` names."""
    place, _, attribute = split(spec)
    search_here()
    name = module_of_file(place) if place.endswith(".py") else place
    module = load_module(name, spec)
    return _attribute(module, attribute, spec) if attribute else _only_app(module, spec)


def load_tasks(app: Windlass, imports: Iterable[str] = ()) -> None:
    """Import the modules that declare the app's tasks."""
    search_here()
    for name in (*app.include, *imports):
        load_module(name, name)


def load_module(name: str, spec: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise CliError(f"{spec!r} names no module: write module:app, module or path/to/file.py[:app]")
    try:
        return _guarded(lambda: importlib.import_module(name), spec)
    except ModuleNotFoundError as error:
        raise CliError(_not_found(name, error.name or name)) from None


def looks_like_app(word: str) -> bool:
    """Whether a word names a module or file that exists. This tells an APP from the argument after it."""
    place, colon, attribute = split(word)
    if place.endswith(".py"):
        return Path(place).is_file()
    if not all(part.isidentifier() for part in place.split(".")) or (colon and not attribute.isidentifier()):
        return False
    here = Path.cwd().joinpath(*place.split("."))
    if here.with_suffix(".py").is_file() or (here / "__init__.py").is_file():
        return True
    return bool(colon) and importlib.util.find_spec(place.partition(".")[0]) is not None


def split(spec: str) -> tuple[str, str, str]:
    """A spec's place, its colon and its attribute."""
    # From the right: a Windows path has a colon of its own.
    if spec.endswith(".py"):
        return spec, "", ""
    place, colon, attribute = spec.rpartition(":")
    return (place, colon, attribute) if colon else (attribute, "", "")


def search_here() -> None:
    """Let modules of the current folder be imported."""
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)


def module_of_file(path: str) -> str:
    """The name a file is imported by; its folder, or the one above its package, joins the search path."""
    file = Path(path).resolve()
    if not file.is_file():
        near = did_you_mean(file.name, (found.name for found in file.parent.glob("*.py")))
        raise CliError(f"there is no file {path}{near}")
    folder, parts = file.parent, [] if file.stem == "__init__" else [file.stem]
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return ".".join(parts)


# -- importing what others wrote


def _guarded(load: Callable[[], T], spec: str) -> T:
    """Report errors of the user's code with the user's part of the traceback. A missing module itself passes
    through.
    """
    try:
        return load()
    except ModuleNotFoundError as error:
        if not _user_frames(error):
            raise
        raise CliError(f"{spec} could not be imported: {error}", _user_traceback(error)) from error
    except WindlassError as error:
        frames = _user_frames(error)
        at = f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else ""
        raise CliError(f"{at}{error}") from error
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {error}"
        raise CliError(f"{spec} could not be imported: {what}", _user_traceback(error)) from error


def _user_frames(error: BaseException) -> list[traceback.FrameSummary]:
    library = str(Path(__file__).parent.parent)
    frames = traceback.extract_tb(error.__traceback__)
    return [frame for frame in frames if not frame.filename.startswith((*_OWN, library))]


def _user_traceback(error: BaseException) -> str:
    """The traceback from the user's first frame on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OWN):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))


def _not_found(name: str, missing: str) -> str:
    parent = missing.rpartition(".")[0]
    folder = next(iter(getattr(sys.modules.get(parent), "__path__", [])), os.getcwd())
    known = [f"{parent}.{found}" if parent else found for found in _modules_in(folder)]
    whole = f" (needed for {name})" if missing != name else ""
    where = f"in {folder}" if parent else f"in {folder}, nor among the installed packages"
    near = did_you_mean(missing, known)
    return f"there is no module {missing!r}{whole} {where}{near or _what_is_there(known)}"


def _modules_in(folder: str) -> list[str]:
    path = Path(folder)
    files = [file.stem for file in path.glob("*.py") if file.stem != "__init__"]
    packages = [init.parent.name for init in path.glob("*/__init__.py")]
    return sorted(name for name in {*files, *packages} if name.isidentifier())


def _what_is_there(names: list[str]) -> str:
    if not names:
        return "; no Python modules are there"
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f"; found there: {', '.join(names[:8])}{more}"


# -- the app in the module


def _apps(module: ModuleType) -> dict[str, Windlass]:
    found = {name: as_app(value) for name, value in vars(module).items()}
    return {name: app for name, app in found.items() if app is not None}


def as_app(value: object) -> Windlass | None:
    """A Windlass app, also the one behind a Celery app; None for anything else."""
    layer = sys.modules.get("windlass.celery.app")  # an app of this layer exists only if this module was imported
    if layer is not None and isinstance(value, layer.Celery):
        value = value.windlass
    return value if isinstance(value, Windlass) else None


def _only_app(module: ModuleType, spec: str) -> Windlass:
    apps = _apps(module)
    if "app" in apps:
        return apps["app"]
    if len({id(app) for app in apps.values()}) == 1:
        return next(iter(apps.values()))
    if apps:
        choices = " or ".join(f"{spec}:{name}" for name in apps)
        raise CliError(f"{spec} has {len(apps)} apps; say which: {choices}")
    raise CliError(f"{spec} has no Windlass app{_instead(module)}")


def _attribute(module: ModuleType, attribute: str, spec: str) -> Windlass:
    value: Any = module
    for part in attribute.split("."):
        if not hasattr(value, part):
            apps = ", ".join(_apps(module))
            known = f"; its apps: {apps}" if apps else _instead(module)
            near = did_you_mean(part, vars(value) if hasattr(value, "__dict__") else ())
            raise CliError(f"{spec}: {module.__name__} has no {attribute!r}{near}{known}")
        value = getattr(value, part)
    if (app := as_app(value)) is not None:
        return app
    apps = ", ".join(f"{module.__name__}:{name}" for name in _apps(module))
    hint = f"; did you mean {apps}?" if apps else ""
    raise CliError(f"{spec} is {_kind(value)}, not a Windlass app{hint}")


def _kind(value: object) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"


def _instead(module: ModuleType) -> str:
    """What a module holds instead of an app: its own names and, for a package, the modules inside."""
    own = [
        f"{name} ({type(value).__name__})"
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", module.__name__) == module.__name__
        and not isinstance(value, ModuleType)
    ]  # fmt: skip
    inside = [f"{module.__name__}.{name}" for folder in getattr(module, "__path__", []) for name in _modules_in(folder)]
    found = f"; it has {', '.join(own[:8])}" if own else "; it defines nothing of its own"
    return found + (f"; modules inside: {', '.join(inside[:8])}" if inside else "")
