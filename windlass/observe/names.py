"""Every metric that Windlass makes: its kind, its labels and its meaning. Nothing is counted here.

``STORE`` has the metrics of the whole app, which the dashboard's ``/metrics`` serves, and ``WORKER`` those of one
worker. They share no name, so that a sum over both never counts a job twice. No label ever has an id in it.
"""

from __future__ import annotations

from typing import NamedTuple

from windlass.core.chart import OTHER


class Spec(NamedTuple):
    """``kind``: counter, gauge or histogram."""

    kind: str
    labels: tuple[str, ...]
    text: str


_BY = ("queue", "task")
_GATE = ("kind", "name")

JOBS: dict[str, tuple[str, str]] = {
    "enqueued": ("windlass_jobs_accepted_total", "Jobs that the store accepted"),
    "started": ("windlass_jobs_started_total", "Attempts that a worker claimed"),
    "retried": ("windlass_jobs_retried_total", "Attempts that failed and are tried again"),
    "snoozed": ("windlass_jobs_snoozed_total", "Jobs that put themselves off"),
    "released": ("windlass_jobs_released_total", "Claims handed back without an attempt, as at a shutdown"),
    "waiting": ("windlass_jobs_parked_total", "Jobs that began to wait for children of their own"),
    "duplicate": ("windlass_jobs_deduplicated_total", "Calls that made no job, since one had the id or the unique key"),
    "replaced": ("windlass_jobs_replaced_total", "Calls that gave their arguments to the job with the unique key"),
    "lost": ("windlass_jobs_lost_total", "Runs that ended with their worker: it died or lost its lease"),
    "replayed": ("windlass_jobs_replayed_total", "Ended jobs that were run again by hand"),
    "deleted": ("windlass_jobs_deleted_total", "Jobs deleted by hand or by a purge"),
}
"""Counters of the store, by the kind of event they count."""

ENDS = ("succeeded", "failed", "cancelled", "skipped")
SETTLED, FAILURES, DEAD = "windlass_jobs_settled_total", "windlass_job_failures_total", "windlass_dead_letters_total"

STORE: dict[str, Spec] = {
    **{name: Spec("counter", _BY, text) for name, text in JOBS.values()},
    SETTLED: Spec("counter", (*_BY, "outcome"), "Jobs that came to their end: succeeded, failed, cancelled or skipped"),
    FAILURES: Spec("counter", _BY, "Failures: attempts that are tried again, and jobs that failed for good"),
    DEAD: Spec("counter", _BY, "Jobs that failed for good and became dead letters"),
    "windlass_queue_jobs": Spec("gauge", ("queue", "state"), "Jobs in the store by state"),
    "windlass_queue_oldest_ready_seconds": Spec("gauge", ("queue",), "How long the oldest ready job waits, 0 if none"),
    "windlass_queue_lanes": Spec("gauge", ("queue",), "Lanes with ready jobs"),
    "windlass_queue_workers": Spec("gauge", ("queue",), "Live workers that serve the queue"),
    "windlass_queue_slots": Spec("gauge", ("queue",), "Slots of the workers that serve the queue, among others maybe"),
    "windlass_queue_paused": Spec("gauge", ("queue",), "1 while the queue is paused"),
    "windlass_workers": Spec("gauge", ("state",), "Workers: alive, or lost and not yet swept away"),
    "windlass_slots": Spec("gauge", (), "Slots of all live workers"),
    "windlass_slots_used": Spec("gauge", (), "Slots of live workers in which a job runs"),
    "windlass_gate_limit": Spec("gauge", _GATE, "Units that may run at once at a gate"),
    "windlass_gate_held": Spec("gauge", _GATE, "Units of running jobs at a gate with a limit"),
    "windlass_gate_waiting_lanes": Spec("gauge", _GATE, "Lanes that wait at a gate, whatever closes it"),
    "windlass_gate_opens_seconds": Spec("gauge", _GATE, "Time until a gate's rate or closure lets a job through"),
    "windlass_breaker_state": Spec("gauge", ("breaker", "state"), "1 for the state a breaker is in, 0 for the others"),
    "windlass_schedule_fired_total": Spec("counter", ("schedule",), "Slots of a schedule that were fired"),
    "windlass_schedule_paused": Spec("gauge", ("schedule",), "1 while the schedule is paused"),
    "windlass_schedule_last_slot_timestamp_seconds": Spec("gauge", ("schedule",), "The slot it was last fired for"),
    "windlass_schedule_next_slot_timestamp_seconds": Spec("gauge", ("schedule",), "The slot it is due at next"),
    "windlass_store_up": Spec("gauge", (), "1 when the store answered this scrape, 0 when it did not"),
    "windlass_folded_series": Spec("gauge", ("what",), f"Label sets that are told together as {OTHER}, or left out"),
    "windlass_build_info": Spec("gauge", ("version", "engine"), "1, with the version and the store's engine"),
}  # fmt: skip

WAIT, RUN, WHOLE = "windlass_worker_wait_seconds", "windlass_worker_run_seconds", "windlass_worker_job_seconds"
RUNS, LOST = "windlass_worker_runs_total", "windlass_worker_lost_claims_total"
ERRORS = "windlass_worker_store_errors_total"
DEATHS, FOLDED = "windlass_worker_process_deaths_total", "windlass_worker_folded_series"

WORKER: dict[str, Spec] = {
    RUNS: Spec("counter", (*_BY, "outcome"), "Runs that came to an end here, by what became of the job"),
    WAIT: Spec("histogram", _BY, "From being due to being claimed"),
    RUN: Spec("histogram", _BY, "Of the task's own code, each attempt"),
    WHOLE: Spec("histogram", _BY, "From being enqueued to the end of the job, over all attempts"),
    LOST: Spec("counter", (), "Claims that the store gave to others while the job was running here"),
    ERRORS: Spec("counter", (), "Exchanges with the store that got no answer, or a refusal"),
    DEATHS: Spec("counter", (), "Worker processes that died under their supervisor"),
    "windlass_worker_processes": Spec("gauge", (), "Worker processes"),
    "windlass_worker_slots": Spec("gauge", (), "Jobs that can run at once"),
    "windlass_worker_running": Spec("gauge", (), "Jobs that run"),
    "windlass_worker_held": Spec("gauge", (), "Claims that are held: running, about to start, or being settled"),
    "windlass_worker_stuck_threads": Spec("gauge", (), "Slots taken by threads whose job has timed out"),
    "windlass_worker_loop_lag_seconds": Spec("gauge", (), "How late the event loop was lately; the worst process"),
    "windlass_worker_memory_bytes": Spec("gauge", (), "Resident memory of the worker processes, without children"),
    FOLDED: Spec("gauge", (), f"Pairs of queue and task that are told together as {OTHER}"),
}  # fmt: skip

LARGEST = frozenset({"windlass_worker_loop_lag_seconds"})
"""Gauges of workers of which the largest counts, and not the sum."""

EVERY: dict[str, Spec] = {**STORE, **WORKER}
