"""django-tasks-db on SQLite."""

import os
import sqlite3
import time
from importlib.metadata import version
from typing import Any

os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.apps.django_settings"

import django
from django.core.management import call_command

django.setup()
call_command("migrate", verbosity=0)

from benchmarks.apps.django_tasks_module import noop  # noqa: E402  (needs Django set up)


def enqueue(value: int) -> Any:
    return noop.enqueue(value)


def call(value: int) -> None:
    result = noop.enqueue(value)
    deadline = time.monotonic() + 30
    while not result.is_finished:
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.0005)
        result.refresh()
    if result.return_value != value:
        raise AssertionError("wrong result")


def pending() -> int:
    from django_tasks_db.models import DBTaskResult

    return int(DBTaskResult.objects.ready().count())


def versions() -> dict[str, str]:
    return {
        "django-tasks-db": version("django-tasks-db"),
        "django": version("django"),
        "sqlite": sqlite3.sqlite_version,
    }
