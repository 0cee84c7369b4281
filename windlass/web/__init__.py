"""The dashboard, its JSON API, and one job's events for a browser. Needs the extra ``web``.

It reads the store through the console and keeps no state of its own.
"""

from windlass.core.packages import pip_install

try:
    from windlass.web.app import windlass_dashboard
except ModuleNotFoundError as error:
    if error.name not in ("jinja2", "starlette"):
        raise
    raise ImportError(f"the dashboard needs more packages: {pip_install('web')}") from error
from windlass.core.access import RIGHTS, Access, make_access
from windlass.web.auth import Basic, Token
from windlass.web.jobstream import job_events
from windlass.web.wsgi import windlass_wsgi

__all__ = [
    "RIGHTS",
    "Access",
    "Basic",
    "Token",
    "job_events",
    "make_access",
    "windlass_dashboard",
    "windlass_wsgi",
]
