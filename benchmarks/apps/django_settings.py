"""The Django project around django-tasks-db: one SQLite file, nothing else."""

from benchmarks.apps import settings

_s = settings.read()
_synchronous = "full" if _s.full else "off"
SECRET_KEY = "bench"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["django_tasks_db"]
TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}}
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(_s.directory / "django.db"),
        "CONN_MAX_AGE": None,
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "init_command": f"pragma journal_mode=wal; pragma synchronous={_synchronous};",
        },
    }
}
LOGGING_CONFIG = None
