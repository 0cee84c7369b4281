"""The names of Celery's settings without effect here, each with the reason; and Celery's old names.

A setting that promises what always holds here, or tunes what does not exist here, is accepted. One that would change
what happens is refused with the reason, unless it asks for nothing (``None``, ``False``, empty).
"""

from __future__ import annotations

import logging
from collections.abc import Container

log = logging.getLogger("celery.conf")

ALWAYS = {
    "beat_enable_remote_control": "there is no beat process",
    "beat_max_loop_interval": "there is no beat process",
    "beat_remote_control_max_tick_age": "there is no beat process",
    "beat_schedule_filename": "schedules are kept in the store",
    "beat_sync_every": "schedules are kept in the store",
    "broker_connection_max_retries": "a worker goes on trying",
    "broker_connection_retry": "a worker goes on trying",
    "broker_connection_retry_on_startup": "a worker goes on trying",
    "broker_connection_timeout": "part of the store's URL",
    "broker_channel_error_retry": "there are no channels",
    "broker_heartbeat": "a worker keeps a lease in the store",
    "broker_heartbeat_checkrate": "a worker keeps a lease in the store",
    "broker_native_delayed_delivery_queue_type": "jobs wait for their time in the store",
    "broker_pool_acquire_timeout": "one connection is shared",
    "broker_pool_limit": "one connection is shared",
    "redis_backend_health_check_interval": "connections are checked as they are used",
    "redis_client_name": "connections name themselves",
    "redis_max_connections": "one connection is shared",
    "redis_retry_on_timeout": "calls are repeated safely",
    "redis_socket_connect_timeout": "part of the store's URL",
    "redis_socket_keepalive": "part of the store's URL",
    "redis_socket_timeout": "part of the store's URL",
    "result_backend_always_retry": "calls are repeated safely",
    "result_backend_base_sleep_between_retries_ms": "calls are repeated safely",
    "result_backend_max_retries": "calls are repeated safely",
    "result_backend_max_sleep_between_retries_ms": "calls are repeated safely",
    "result_backend_thread_safe": "one connection is shared by all threads",
    "result_backend_transport_options": "results are in the store",
    "result_cache_max": "nothing is cached",
    "result_chord_expires": "a chord is kept until it is over",
    "result_chord_join_timeout": "a chord does not poll",
    "result_chord_retry_interval": "a chord does not poll",
    "result_exchange": "there are no exchanges",
    "result_exchange_type": "there are no exchanges",
    "result_extended": "names and arguments are always kept",
    "result_persistent": "results are as durable as the store",
    "task_acks_on_failure": "a failed job is settled, never sent again by itself",
    "task_acks_on_failure_or_timeout": "a failed job is settled, never sent again by itself",
    "task_acks_on_timeout": "a failed job is settled, never sent again by itself",
    "task_create_missing_queue_exchange_type": "there are no exchanges",
    "task_create_missing_queue_type": "there is one kind of queue",
    "task_create_missing_queues": "a queue exists as soon as it is named",
    "task_default_exchange": "there are no exchanges",
    "task_default_exchange_type": "there are no exchanges",
    "task_default_routing_key": "there are no exchanges",
    "task_default_queue_type": "there is one kind of queue",
    "task_default_delivery_mode": "jobs are as durable as the store",
    "task_protocol": "jobs are records in the store",
    "task_publish_retry": "calls are repeated safely",
    "task_publish_retry_policy": "calls are repeated safely",
    "task_queue_max_priority": "priorities 0 to 9 work in every queue",
    "task_repr_maxlevels": "arguments are shown as they are",
    "task_send_sent_event": "the event stream has every job",
    "task_store_errors_even_if_ignored": "errors are always kept",
    "worker_cancel_long_running_tasks_on_connection_loss": "a worker that loses its lease stops its jobs",
    "worker_deduplicate_successful_tasks": "a job settles once",
    "worker_detect_quorum_queues": "there is one kind of queue",
    "worker_disable_prefetch": "a worker takes a job when it has a slot for it",
    "worker_enable_prefetch_count_reduction": "a worker takes a job when it has a slot for it",
    "worker_enable_remote_control": "orders and cancelling go through the store",
    "worker_enable_soft_shutdown_on_idle": "a worker that stops hands its jobs back",
    "worker_eta_task_limit": "jobs wait for their time in the store",
    "worker_hijack_root_logger": "handlers that are there are left alone",
    "worker_log_color": "colours are used in a terminal",
    "worker_lost_wait": "recovery follows the worker's lease",
    "worker_pool_putlocks": "a worker takes a job when it has a slot for it",
    "worker_pool_start_method": "processes are started the same way everywhere",
    "worker_proc_alive_timeout": "the supervisor watches its processes",
    "worker_redirect_stdouts": "what tasks print is printed",
    "worker_redirect_stdouts_level": "what tasks print is printed",
    "worker_send_task_events": "the event stream has every job",
    "worker_soft_shutdown_timeout": "a worker that stops hands its jobs back",
    "worker_state_db": "cancelling is kept in the store",
    "worker_timer_precision": "timers are exact",
}  # fmt: skip

REFUSED = {
    "beat_cron_starting_deadline": "a run that was missed is made up for once, however late",
    "beat_scheduler": "schedules are kept in the store, in no scheduler class",
    "broker_host": "it is part of broker_url",
    "broker_failover_strategy": "use redis+sentinel:// or redis+cluster://",
    "broker_login_method": "there is no broker",
    "broker_password": "it is part of broker_url",
    "broker_port": "it is part of broker_url",
    "broker_read_url": "one store is used for all",
    "broker_transport": "it is part of broker_url",
    "broker_use_ssl": "use rediss://",
    "broker_user": "it is part of broker_url",
    "broker_vhost": "it is part of broker_url",
    "broker_write_url": "one store is used for all",
    "override_backends": "results are kept in the store itself",
    "redis_backend_credential_provider": "name and password are part of broker_url",
    "redis_backend_use_ssl": "use rediss://",
    "redis_db": "it is part of broker_url",
    "redis_host": "it is part of broker_url",
    "redis_password": "it is part of broker_url",
    "redis_port": "it is part of broker_url",
    "redis_username": "it is part of broker_url",
    "result_compression": "nothing is compressed",
    "task_annotations": "give the options to the task itself",
    "task_compression": "nothing is compressed",
    "task_inherit_parent_priority": "give the priority with the call",
    "task_remote_tracebacks": "a traceback is kept as text",
    "task_retry_on_worker_lost": "use acks_late: a job whose worker died runs again, three times at most",
    "task_store_eager_result": "what runs in place is not kept",
    "worker_agent": "no such thing exists here",
    "worker_autoscaler": "use --autoscale",
    "worker_consumer": "no such thing exists here",
    "worker_direct": "a job cannot be meant for one worker",
    "worker_pool_restarts": "send SIGHUP to the worker: it replaces its processes one by one",
    "worker_executable": "let a service manager such as systemd run the worker",
    "worker_gid": "start the worker as that group",
    "worker_log_datefmt": "use --log-format, or logging of your own",
    "worker_logfile": "redirect standard error: 2>worker.log",
    "worker_pidfile": "let a service manager such as systemd run the worker",
    "worker_log_format": "use --log-format, or logging of your own",
    "worker_task_log_datefmt": "use --log-format, or logging of your own",
    "worker_task_log_format": "use --log-format, or logging of your own",
    "worker_timer": "no such thing exists here",
    "worker_uid": "start the worker as that user",
    "worker_umask": "set it before the worker starts",
}

BACKENDS = (
    "arangodb_", "azureblockblob_", "cache_", "cassandra_", "cosmosdbsql_", "couchbase_", "couchdb_", "database_",
    "dynamodb_", "elasticsearch_", "filesystem_", "gcs_", "mongodb_", "s3_",
)  # fmt: skip
BROKERS = (
    "amqp", "amqps", "pyamqp", "py-amqp", "librabbitmq", "qpid", "sqs", "kafka", "confluentkafka", "azureservicebus",
    "azurestoragequeues", "gcpubsub", "mongodb", "zookeeper", "consul", "etcd", "filesystem", "pyro", "slmq", "sqla",
    "sqla+sqlite", "sqla+postgresql", "sqla+mysql",
)  # fmt: skip
TRANSPORT = (
    "visibility_timeout", "socket_timeout", "socket_connect_timeout", "socket_keepalive", "retry_on_timeout",
    "health_check_interval", "max_connections", "max_retries", "interval_start", "interval_step", "interval_max",
    "priority_steps", "queue_order_strategy", "sep", "fanout_prefix", "fanout_patterns", "confirm_publish",
)  # fmt: skip
"""Options of a transport that change nothing."""
GREEN = ("gevent", "eventlet")
NO_GREEN = "nothing is patched here: use the pool 'threads' with as many, or async functions as app.windlass.task"
_NO_PROCESS = ("beat_", "events_")
_OF_PROCESSES = ("executable", "gid", "logfile", "pidfile", "uid", "umask")

# Old names that do not follow the rules in ``new_name``.
_OLD = {
    "CELERY_EAGER_PROPAGATES_EXCEPTIONS": "task_eager_propagates",
    "CELERY_MAX_CACHED_RESULTS": "result_cache_max",
    "CELERY_MESSAGE_COMPRESSION": "task_compression",
    "CELERY_RESULT_DBURI": "database_url",
    "CELERY_RESULT_DB_SHORT_LIVED_SESSIONS": "database_short_lived_sessions",
    "CELERY_RESULT_DB_TABLENAMES": "database_table_names",
    "CELERY_RESULT_ENGINE_OPTIONS": "database_engine_options",
    "CELERY_SEND_EVENTS": "worker_send_task_events",
    "CELERY_SEND_TASK_SENT_EVENT": "task_send_sent_event",
    "CELERY_TASK_RESULT_EXPIRES": "result_expires",
    "ENABLE_UTC": "enable_utc",
    "RESULT_ACCEPT_CONTENT": "result_accept_content",
}
_OLD_PREFIXES = {
    "CELERYBEAT_": ("beat_", ""),
    "CELERYD_": ("worker_", ""),
    "CELERY_": ("", "task_", "worker_"),
    "BROKER_": ("broker_",),
}


def why_taken(name: str) -> str:
    """Why a setting is accepted without effect, or an empty string."""
    if name.startswith(("control_", "event_")):
        return "orders and events go through the store"
    if name.startswith(_NO_PROCESS) and name.partition("_")[2] in _OF_PROCESSES:
        return "there is no such process"
    return ALWAYS.get(name, "")


def why_refused(name: str) -> str:
    """Why a setting has no counterpart, or an empty string."""
    if name.startswith(BACKENDS):
        return "results are kept in the store itself"
    if name.startswith("security_"):
        return "messages are not signed; protect the store"
    return REFUSED.get(name, "")


def new_name(name: str, honoured: Container[str]) -> str:
    """The name a setting has had since Celery 4: ``CELERYD_CONCURRENCY`` is ``worker_concurrency``. A new
    name stays.
    """
    if not name.isupper():
        return name
    if name in _OLD:
        return _OLD[name]
    for old, prefixes in _OLD_PREFIXES.items():
        if name.startswith(old):
            rest = name[len(old) :].lower()
            found = (prefix + rest for prefix in prefixes)
            return next((new for new in found if new in honoured or why_taken(new) or why_refused(new)), name)
    return name


_said: set[str] = set()


def say_once(name: str, why: str) -> None:
    """Log, once in a process, that a setting has no effect."""
    if name not in _said:
        _said.add(name)
        log.debug("the setting %s changes nothing here: %s", name, why)
