"""The conformance suite on PostgreSQL, which shares its rules with SQLite and has statements of its own."""

from __future__ import annotations

import pytest

from tests.conformance.on_postgres import postgres_engine, postgres_loss
from tests.servers.postgres import PostgresServer
from windlass.testing.conformance import Conformance, Engine, Lose

pytestmark = pytest.mark.again


class TestPostgres18(Conformance):
    @pytest.fixture
    def engine(self, postgres18: PostgresServer) -> Engine:
        return postgres_engine(postgres18)

    @pytest.fixture
    def lose(self, postgres18: PostgresServer) -> Lose:
        return postgres_loss(postgres18)
