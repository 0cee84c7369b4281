"""The task that django-tasks-db runs; apart from the client, since the worker imports it with Django set up."""

from django_tasks import task

from benchmarks.apps.marks import mark


@task()
def noop(value: int) -> int:
    mark()
    return value
