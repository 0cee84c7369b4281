"""Settings, stores and schedules: honoured, always so, refused with the reason, or a slip with a suggestion."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from windlass.celery import Celery, setting_names, signals
from windlass.celery.conf import HONOURED
from windlass.celery.exceptions import ImproperlyConfigured
from windlass.celery.schedules import crontab, crontab_parser, maybe_schedule, schedule
from windlass.celery.setting_names import ALWAYS, REFUSED, new_name, why_refused, why_taken


def test_settings_by_attribute_by_key_and_by_update() -> None:
    app = Celery("tests", broker="memory://", backend="rpc://", task_time_limit=5)
    app.conf.task_serializer = "json"
    app.conf["timezone"] = "Europe/Moscow"
    app.conf.update(task_soft_time_limit=3, accept_content=["json"], result_expires=timedelta(hours=2), enable_utc=True)
    app.conf.update({"task_track_started": True, "worker_prefetch_multiplier": 1})
    assert (app.conf.task_time_limit, app.conf["task_soft_time_limit"], app.conf.get("result_expires")) == (5, 3, 7200)
    assert app.conf.worker_max_tasks_per_child is None
    assert "task_time_limit" in app.conf
    assert app.windlass.tz.key == "Europe/Moscow"
    assert app.windlass.settings.keep.age == 7200
    app.task(name="t")(lambda: 1)
    assert app.windlass.tasks["t"].layer["timeout"] == 5_000


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("task_serialiser", "json", "did you mean 'task_serializer'"),
        ("task_time_limits", 3, "did you mean 'task_time_limit'"),
        ("task_serializer", "pickle", "JSON and nothing else, because unpickling"),
        ("accept_content", ["json", "pickle"], "JSON"),
        ("result_serializer", "yaml", "JSON"),
        ("task_annotations", {"*": {"rate_limit": "1/s"}}, "give the options to the task itself"),
        ("CELERY_ANNOTATIONS", {"*": {}}, "task_annotations has no counterpart: give the options"),
        ("mongodb_backend_settings", {"host": "h"}, "results are kept in the store itself"),
        ("task_default_rate_limit", "often", "give a text such as '10/s'"),
        ("timezone", "Mars/Olympus", "no time zone"),
        ("task_always_eager", "yes", "True or False"),
        ("task_time_limit", -1, "seconds"),
        ("worker_pool", "swimming", "prefork"),
        ("worker_pool", "gevent", "use the pool 'threads'"),
        ("broker_transport_options", {"global_keyprefix": "x"}, "no counterpart"),
        ("task_routes", {"a.*": {"queu": "x"}}, "did you mean 'queue'"),
        ("task_routes", {"a.*": {"routing_key": "x"}}, "name the queue"),
        ("beat_schedule", {"x": {"task": "t"}}, "needs 'task'"),
        ("beat_schedule", {"x": {"task": "t", "schedule": 1, "arg": ()}}, "did you mean 'args'"),
        ("beat_schedule", {"x": {"task": "t", "schedule": "often"}}, "seconds or a timedelta"),
    ],
)
def test_settings_that_are_refused(name: str, value: Any, message: str) -> None:
    app = Celery("tests", broker="memory://")
    with pytest.raises(ImproperlyConfigured, match=message):
        app.conf[name] = value


def test_every_setting_has_one_answer() -> None:
    assert not HONOURED.keys() & ALWAYS.keys()
    assert not (HONOURED.keys() | ALWAYS.keys()) & REFUSED.keys()
    for name, (default, parse) in HONOURED.items():
        parse(default, name)
    app = Celery("tests", broker="memory://")
    for name in ALWAYS:
        app.conf[name] = True
    assert app.conf.broker_pool_limit is True
    with pytest.raises(AttributeError, match="no setting"):
        _ = app.conf.nothing_like_it


# The settings of Celery 5 by family: those its code knows, and those its documentation names besides.
FAMILIES = {
    "arangodb": """
        backend_settings
    """,
    "azureblockblob": """
        base_path connection_timeout container_name read_timeout retry_increment_base retry_initial_backoff_sec
        retry_max_attempts
    """,
    "beat": """
        cron_starting_deadline enable_remote_control executable gid logfile max_loop_interval pidfile
        remote_control_max_tick_age schedule schedule_filename scheduler sync_every uid umask
    """,
    "broker": """
        channel_error_retry connection_max_retries connection_retry connection_retry_on_startup connection_timeout
        failover_strategy heartbeat heartbeat_checkrate host login_method native_delayed_delivery_queue_type
        password pool_acquire_timeout pool_limit port read_url transport transport_options url use_ssl user vhost
        write_url
    """,
    "cache": """
        backend backend_options
    """,
    "cassandra": """
        auth_kwargs auth_provider bundle_path entry_ttl keyspace options port read_consistency secure_bundle_path
        servers table write_consistency
    """,
    "control": """
        exchange queue_durable queue_exclusive queue_expires queue_ttl
    """,
    "cosmosdbsql": """
        collection_name consistency_level database_name max_retry_attempts max_retry_wait_time
    """,
    "couchbase": """
        backend_settings
    """,
    "database": """
        create_tables_at_setup engine_callback engine_options short_lived_sessions table_names table_schemas url
    """,
    "elasticsearch": """
        max_retries retry_on_timeout save_meta_as_text timeout
    """,
    "event": """
        exchange queue_durable queue_exclusive queue_expires queue_prefix queue_ttl serializer
    """,
    "events": """
        executable gid logfile pidfile uid umask
    """,
    "gcs": """
        base_path bucket project ttl
    """,
    "mongodb": """
        backend_settings
    """,
    "redis": """
        backend_credential_provider backend_health_check_interval backend_use_ssl client_name db host
        max_connections password port retry_on_timeout socket_connect_timeout socket_keepalive socket_timeout
        username
    """,
    "result": """
        accept_content backend backend_always_retry backend_base_sleep_between_retries_ms backend_max_retries
        backend_max_sleep_between_retries_ms backend_thread_safe backend_transport_options cache_max chord_expires
        chord_join_timeout chord_retry_interval compression exchange exchange_type expires extended failure_expires
        persistent serializer
    """,
    "s3": """
        access_key_id base_path bucket endpoint_url region secret_access_key
    """,
    "security": """
        cert_store certificate digest key key_password
    """,
    "task": """
        acks_late acks_on_failure acks_on_failure_or_timeout acks_on_timeout allow_error_cb_on_chord_header
        always_eager annotations compression create_missing_queue_exchange_type create_missing_queue_type
        create_missing_queues default_delivery_mode default_exchange default_exchange_type default_priority
        default_queue default_queue_type default_rate_limit default_routing_key eager_propagates ignore_result
        inherit_parent_priority protocol publish_retry publish_retry_policy queue_max_priority queues
        reject_on_worker_lost remote_tracebacks repr_maxlevels retry_on_worker_lost routes send_sent_event
        serializer soft_time_limit store_eager_result store_errors_even_if_ignored time_limit track_started
    """,
    "worker": """
        agent autoscaler cancel_long_running_tasks_on_connection_loss concurrency consumer
        deduplicate_successful_tasks detect_quorum_queues direct disable_prefetch disable_rate_limits
        enable_prefetch_count_reduction enable_remote_control enable_soft_shutdown_on_idle eta_task_limit executable
        gid hijack_root_logger log_color log_datefmt log_format logfile lost_wait max_memory_per_child
        max_tasks_per_child pidfile pool pool_putlocks pool_restarts pool_start_method prefetch_multiplier
        proc_alive_timeout redirect_stdouts redirect_stdouts_level send_task_events soft_shutdown_timeout state_db
        task_log_datefmt task_log_format timer timer_precision uid umask
    """,
}
ALL = ["accept_content", "enable_utc", "imports", "include", "override_backends", "timezone"] + [
    f"{family}_{name}" for family, names in FAMILIES.items() for name in names.split()
]


def test_every_setting_of_celerys_is_known() -> None:
    assert len(ALL) > 200
    app = Celery("tests", broker="memory://")
    for name in ALL:
        answers = [name in HONOURED, bool(why_taken(name)), bool(why_refused(name))]
        assert answers.count(True) == 1, name
        assert hasattr(app.conf, name), f"{name} cannot be read"


@pytest.mark.parametrize("name", [name for name in ALL if why_refused(name)])
def test_one_that_asks_for_nothing_is_never_refused(name: str) -> None:
    app = Celery("tests", broker="memory://")
    for nothing in (None, False, "", {}):
        app.conf[name] = nothing
        assert app.conf[name] is nothing
    with pytest.raises(ImproperlyConfigured, match=f"the setting {name} has no counterpart"):
        app.conf[name] = "something"


def test_what_changes_nothing_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    name = "control_queue_ttl"
    setting_names._said.discard(name)
    with caplog.at_level("DEBUG", "celery.conf"):
        for _ in range(3):
            Celery("tests", broker="memory://").conf[name] = 10
    assert [record.getMessage() for record in caplog.records] == [
        "the setting control_queue_ttl changes nothing here: orders and events go through the store"
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("BROKER_URL", "broker_url"),
        ("BROKER_POOL_LIMIT", "broker_pool_limit"),
        ("CELERY_RESULT_BACKEND", "result_backend"),
        ("CELERY_TASK_RESULT_EXPIRES", "result_expires"),
        ("CELERY_ACCEPT_CONTENT", "accept_content"),
        ("CELERY_TASK_SERIALIZER", "task_serializer"),
        ("CELERY_ROUTES", "task_routes"),
        ("CELERY_DEFAULT_QUEUE", "task_default_queue"),
        ("CELERY_EAGER_PROPAGATES_EXCEPTIONS", "task_eager_propagates"),
        ("CELERY_SEND_EVENTS", "worker_send_task_events"),
        ("CELERY_DISABLE_RATE_LIMITS", "worker_disable_rate_limits"),
        ("CELERYD_CONCURRENCY", "worker_concurrency"),
        ("CELERYD_TASK_SOFT_TIME_LIMIT", "task_soft_time_limit"),
        ("CELERYD_MAX_TASKS_PER_CHILD", "worker_max_tasks_per_child"),
        ("CELERYBEAT_SCHEDULE", "beat_schedule"),
        ("CELERY_REDIS_MAX_CONNECTIONS", "redis_max_connections"),
        ("CELERY_MONGODB_BACKEND_SETTINGS", "mongodb_backend_settings"),
        ("ENABLE_UTC", "enable_utc"),
        ("REDIS_HOST", "REDIS_HOST"),  # somebody's own
        ("DATABASE_URL", "DATABASE_URL"),
    ],
)
def test_old_names_mean_the_new_ones(old: str, new: str) -> None:
    assert new_name(old, HONOURED) == new


def test_old_names_are_read_and_written(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("old_settings")
    module.__dict__.update(
        BROKER_URL="memory://", CELERYD_CONCURRENCY=3, CELERY_DEFAULT_QUEUE="old", REDIS_HOST="mine", S3_BUCKET="mine"
    )
    app = Celery("tests")
    app.config_from_object(module)
    assert (app.conf.worker_concurrency, app.conf.CELERYD_CONCURRENCY, app.conf.task_default_queue) == (3, 3, "old")
    app.conf.CELERY_ALWAYS_EAGER = True
    assert app.conf.task_always_eager
    app.conf.result_failure_expires = 60
    kept = app.windlass.settings.keep.failed
    assert kept is not None
    assert kept.age == 60


def test_settings_come_too_late_once_the_app_is_used() -> None:
    app = Celery("tests", broker="memory://")
    _ = app.windlass
    app.conf.task_always_eager = True
    app.conf.task_time_limit = None
    with pytest.raises(ImproperlyConfigured, match="after the app was first used"):
        app.conf.task_time_limit = 10


def test_settings_of_an_object(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Config:
        task_default_queue = "mine"
        broker_url = "memory://"
        helper = print

    app = Celery("tests")
    app.config_from_object(Config)
    assert (app.conf.task_default_queue, app.worker_queues()) == ("mine", ["mine"])
    django = ModuleType("fake_settings")
    django.__dict__.update(CELERY_TASK_TIME_LIMIT=30, CELERY_BROKER_URL="memory://", DEBUG=True, INSTALLED_APPS=[])
    monkeypatch.setitem(sys.modules, "fake_settings", django)
    app = Celery("tests")
    app.config_from_object("fake_settings", namespace="CELERY")
    app.conf.task_soft_time_limit = 20
    assert (app.conf.task_time_limit, app.conf.task_soft_time_limit) == (30, 20)
    assert app.windlass.url.startswith("memory://")
    (tmp_path / "celery_settings_module.py").write_text("task_always_eager = True\ntask_typo_limit = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    app = Celery("tests")
    app.config_from_object("celery_settings_module")
    with pytest.raises(ImproperlyConfigured, match="task_typo_limit"):
        _ = app.conf.task_always_eager


@pytest.mark.parametrize(
    ("broker", "message"),
    [
        ("amqp://guest@localhost//", "keeps its jobs in a store"),
        ("pyamqp://", "keeps its jobs in a store"),
        ("sqs://", "keeps its jobs in a store"),
        ("sentinel://localhost:26379", r"redis\+sentinel://"),
        ("redis://a;redis://b", "one URL"),
        (["redis://a"], "one URL"),
    ],
)
def test_brokers_that_are_refused(broker: Any, message: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=message):
        Celery("tests", broker=broker)


def test_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Celery("shop", broker="redis://localhost:6379/3").windlass.url == "redis://localhost:6379/3"
    assert Celery("shop", broker="redis://localhost/0", backend="redis://localhost/1").windlass.name == "shop"
    with pytest.raises(ImproperlyConfigured, match="results are kept in the store"):
        Celery("shop", broker="redis://", backend="django-db")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WINDLASS_URL", raising=False)
    assert Celery().windlass.url == "sqlite:///celery.windlass.db"
    assert Celery("my shop").windlass.name == "my-shop"
    monkeypatch.setenv("WINDLASS_URL", "memory://x")
    assert Celery("shop").windlass.url == "memory://x"


# -- schedules


@pytest.mark.parametrize(
    ("size", "low", "spec", "expected"),
    [
        (60, 0, "*", set(range(60))),
        (60, 0, "*/15", {0, 15, 30, 45}),
        (60, 0, "1,13,30-33,50-59/3", {1, 13, 30, 31, 32, 33, 50, 53, 56, 59}),
        (24, 0, "0,8-17/2", {0, 8, 10, 12, 14, 16}),
        (7, 0, "mon-fri", {1, 2, 3, 4, 5}),
        (7, 0, "fri-mon", {5, 6, 0, 1}),
        (7, 0, "sunday", {0}),
        (12, 1, "*/3", {1, 4, 7, 10}),
        (12, 1, "jan,dec", {1, 12}),
        (31, 1, "2-30/7", {2, 9, 16, 23, 30}),
    ],
)
def test_fields_of_a_crontab(size: int, low: int, spec: str, expected: set[int]) -> None:
    assert crontab_parser(size, low).parse(spec) == expected


@pytest.mark.parametrize("spec", ["", "60", "a", "5-", "*/0", "*/x", "1,,2", "5/2", "-1", "1-70", "*-5"])
def test_fields_that_cannot_be_read(spec: str) -> None:
    with pytest.raises(ValueError, match="crontab field"):
        crontab(minute=spec)


def test_crontabs() -> None:
    every = crontab()
    assert (len(every.minute), len(every.hour), every.expression) == (60, 24, "* * * * *")
    work = crontab(minute=0, hour="8-17", day_of_week="mon-fri")
    assert work == crontab(minute="0", hour=range(8, 18), day_of_week=[1, 2, 3, 4, 5])
    assert work.expression == "0 8-17 * * mon-fri"
    assert crontab.from_string("0 8-17 * * mon-fri") == work
    assert {work, crontab.from_string("0 8-17 * * 1-5")} == {work}
    assert repr(crontab(0, 5)) == "<crontab: 0 5 * * * (m/h/dM/MY/d)>"
    for wrong in ({"hour": 24}, {"day_of_month": 0}, {"month_of_year": {13}}, {"minute": []}):
        with pytest.raises(ValueError, match="crontab field"):
            crontab(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="has a day"):
        crontab(day_of_month=31, month_of_year="feb,apr")
    with pytest.raises(TypeError, match="crontab field"):
        crontab(minute=1.5)  # type: ignore[arg-type]


def test_intervals() -> None:
    assert schedule(10).seconds == 10
    assert schedule(timedelta(minutes=1)) == schedule(60) == timedelta(minutes=1)
    assert maybe_schedule(crontab()) == crontab()
    assert maybe_schedule(2.5).seconds == 2.5  # type: ignore[union-attr]
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="above 0"):
            schedule(wrong)
    with pytest.raises(TypeError, match="seconds or a timedelta"):
        schedule("10")  # type: ignore[arg-type]


def test_entries_of_a_beat_schedule() -> None:
    app = Celery("tests", broker="memory://")
    task = app.task(name="t")(lambda x: x)
    app.conf.beat_schedule = {"often": {"task": "t", "schedule": 10.0, "args": (1,), "options": {"queue": "q"}}}
    app.conf.beat_schedule["nightly"] = {"task": "t", "schedule": crontab(hour=3, minute=0)}

    @app.on_after_configure.connect
    def set_up(sender: Celery, **kwargs: Any) -> None:
        sender.add_periodic_task(crontab(minute=5), task.s(7), name="hourly")

    _ = app.windlass
    assert {name: repr(entry["schedule"]) for name, entry in app.conf.beat_schedule.items()} == {
        "often": "<freq: 10.00 seconds>",
        "nightly": "<crontab: 0 3 * * * (m/h/dM/MY/d)>",
        "hourly": "<crontab: 5 * * * * (m/h/dM/MY/d)>",
    }
    assert app.conf.beat_schedule["hourly"]["args"] == (7,)


def test_the_page_names_every_setting_and_signal() -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/coming-from-celery.md").read_text(encoding="utf-8")
    assert [name for name in HONOURED if f"`{name}`" not in page] == []
    sent = [name for name, value in vars(signals).items() if isinstance(value, signals.Signal)]
    assert [name for name in sent if f"`{name}`" not in page] == []
