"""The dashboard for a WSGI server, as an application's own module would have it. ``WINDLASS_TEST_URL``: its store."""

from __future__ import annotations

import os

from tests.web.kit import make_app, tokens
from windlass.web import Basic, windlass_wsgi

app = make_app(os.environ["WINDLASS_TEST_URL"])
site = windlass_wsgi(app, auth=[tokens({"all": ["*"]}), Basic({"ann": ("secret", ["*"])})])
alone = windlass_wsgi(app)
