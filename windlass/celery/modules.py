"""Finds modules by name: those with settings, and those that may declare tasks."""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import Any


def load(name: str) -> Any:
    module, _, attribute = name.partition(":")
    if not attribute and "." in module and importlib.util.find_spec(module.partition(".")[0]) is not None:
        try:
            return importlib.import_module(module)
        except ModuleNotFoundError:
            module, _, attribute = module.rpartition(".")
    found = importlib.import_module(module)
    return getattr(found, attribute) if attribute else found


def module_in(package: str, related: str | None) -> str | None:
    """The module of this name in a package, if there is one. For a class or module, its package is meant.

    A package that does not exist is an error.
    """
    try:
        found = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        found = None
    if found is None:
        package = package.rpartition(".")[0] or package
        found = importlib.util.find_spec(package)
    if found is None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    if not related:
        return package
    inside = found.submodule_search_locations is not None and importlib.util.find_spec(f"{package}.{related}")
    return f"{package}.{related}" if inside else None


def django_apps() -> list[str]:
    if "DJANGO_SETTINGS_MODULE" not in os.environ:
        return []
    registry = importlib.import_module("django.apps").apps
    return [config.name for config in registry.get_app_configs()]
