"""``task_routes``: which queue and options the calls of a task get."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from windlass.celery.exceptions import ImproperlyConfigured
from windlass.core.hints import did_you_mean

_ROUTE = ("queue", "priority", "expires", "routing_key", "exchange", "exchange_type", "delivery_mode")


def routes(value: Any, name: str) -> Any:
    if value is None or callable(value):
        return value
    for router in [value] if isinstance(value, Mapping) else value:
        pairs = router.items() if isinstance(router, Mapping) else [router] if not callable(router) else ()
        for pattern, route in pairs:
            check_route(route, f"{name}[{getattr(pattern, 'pattern', pattern)!r}]")
    return value


def check_route(route: Any, where: str) -> dict[str, Any]:
    """A route as options of a call. Exchanges and routing keys only lead to a queue, which must be named instead."""
    if isinstance(route, str):
        return {"queue": route}
    if not isinstance(route, Mapping):
        raise ImproperlyConfigured(f"{where} is {route!r}; give a queue, or a mapping with 'queue'")
    for key in route:
        if key not in _ROUTE:
            raise ImproperlyConfigured(f"{where} has an unknown key {key!r}{did_you_mean(str(key), _ROUTE)}")
    if "queue" not in route and ("routing_key" in route or "exchange" in route):
        raise ImproperlyConfigured(f"{where}: there are no exchanges here; name the queue")
    found = {key: route[key] for key in ("queue", "priority", "expires") if route.get(key) is not None}
    queue = found.get("queue")
    if queue is not None and not isinstance(queue, str):
        found["queue"] = getattr(queue, "name", queue)
    return found


def route(given: Any, task: str, call: tuple[Any, Any, Any, Any]) -> dict[str, Any]:
    """The options that ``task_routes`` gives a call, from the first router that knows the task."""
    if not given:
        return {}
    routers = [given] if callable(given) or isinstance(given, Mapping) else list(given)
    for router in routers:
        if callable(router):
            args, kwargs, options, of = call
            if found := router(task, args, kwargs, options, task=of):
                return check_route(found, f"the route of {task}")
            continue
        pairs = router.items() if isinstance(router, Mapping) else [router]
        for pattern, found in pairs:
            if _matches(pattern, task):
                return check_route(found, f"the route of {task}")
    return {}


def _matches(pattern: Any, task: str) -> bool:
    if isinstance(pattern, re.Pattern):
        return bool(pattern.match(task))
    if pattern == task:
        return True
    return "*" in pattern and re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), task) is not None
