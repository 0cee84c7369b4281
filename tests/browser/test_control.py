"""Queues, tasks, breakers, schedules, workflows and dead letters, as an operator handles them."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Locator, expect

from tests.browser.kit import SECONDS, Live
from tests.browser.visit import Visit
from tests.servers.process import wait_until
from windlass import chain, every, group


def counts(live: Live, queue: str) -> dict[str, int]:
    found: Any = live.call(live.app.queue(queue).counts())
    return {str(state): count for state, count in found.items() if count}


# -- queues


def test_pause_resume_and_drain_a_queue(live: Live, visit: Visit) -> None:
    live.add("orders.pack", 1, queue="gate", delay="3h")
    visit.go("/queues/gate")
    visit.press("Pause")
    visit.told("Paused")
    visit.state("paused")
    id = live.add("orders.pack", 2, queue="gate")
    expect(visit.page.locator(".tile", has_text="Ready").locator(".value")).to_have_text("1")
    visit.press("Resume")
    visit.told("Resumed")
    expect(visit.page.get_by_role("button", name="Pause")).to_be_visible()
    assert live.state(id) != "gone"
    visit.press("Drain")
    visit.agree("Drain queue")
    visit.told("Takes no new jobs")
    visit.state("draining")
    visit.press("Resume")
    visit.told("Resumed")
    expect(visit.page.get_by_role("button", name="Drain")).to_be_visible()


def test_tune_a_queue_and_take_it_back(live: Live, visit: Visit) -> None:
    visit.excuse("422")
    live.add("orders.pack", 1, queue="tuned", delay="3h")
    visit.go("/queues/tuned")
    visit.press("Limits")
    visit.submit(rate="often")
    visit.sees("often", "dialog[open] .wrong")
    visit.submit(rate="90/m", limit="3", key_limit="1", max_ready="500")
    visit.told("Limits changed")
    for name, text in {"Rate": "90/m", "At once": "0 of 3", "Each key": "1 at once", "Most ready": "500"}.items():
        visit.fact(name, text)
    visit.press("Limits")
    expect(visit.page.locator("dialog[open] [name=limit]")).to_have_value("3")
    visit.submit(limit="")
    visit.told("Limits changed")
    expect(visit.page.locator("dt", has_text="At once")).to_have_count(0)
    visit.fact("Rate", "90/m")
    visit.press("As in the code")
    visit.told("The limits in the code hold again")
    expect(visit.page.locator("dt", has_text="Rate")).to_have_count(0)


def test_purge_asks_for_the_name(live: Live, visit: Visit) -> None:
    for number in range(30):
        live.add("orders.pack", number, queue="old-stuff", delay="3h")
    page = visit.go("/queues/old-stuff")
    visit.press("Purge")
    typed, go = page.locator("#ask-typed input"), page.locator("#ask-go")
    expect(go).to_be_disabled()
    typed.fill("old stuff")
    expect(go).to_be_disabled()
    typed.press("Enter")
    assert counts(live, "old-stuff") == {"scheduled": 30}
    typed.fill("old-stuff")
    go.click()
    visit.told("Purged: 30 jobs")
    assert counts(live, "old-stuff") == {}


def test_move_a_whole_queue(live: Live, visit: Visit) -> None:
    live.call(live.app.queue("from-here").pause())
    for number in range(12):
        live.add("orders.pack", number, queue="from-here", **({"delay": "3h"} if number % 2 else {}))
    visit.go("/queues/from-here")
    live.call(live.app.queue("to-there").pause())
    visit.press("Move all")
    visit.submit(to="to-there")
    visit.told("Moved: 12 jobs")
    assert counts(live, "to-there") == {"ready": 6, "scheduled": 6}


# -- tasks and breakers


def test_pause_and_tune_a_task(live: Live, visit: Visit) -> None:
    visit.go("/tasks/orders.notify")
    visit.press("Pause")
    visit.told("Paused")
    visit.state("paused")
    id = live.add("orders.notify", 1)
    assert live.state(id) == "ready"
    visit.press("Limits")
    visit.submit(limit="2", rate="50/s")
    visit.told("Limits changed")
    page = visit.go("/limits")
    row = page.locator("tr[data-key='task:orders.notify']")
    expect(row).to_contain_text("50/s")
    expect(row).to_contain_text("tuned")
    visit.press("Resume", row)
    visit.told("Resumed")
    live.wait_state(id, "succeeded")
    visit.press("As in the code", row)
    visit.told("The limits in the code hold again")
    expect(row).to_have_count(0)


def test_open_close_and_leave_a_breaker(live: Live, visit: Visit) -> None:
    page = visit.go("/limits")
    row = page.locator("tr[data-key='payments-api']")
    visit.press("Open", row)
    visit.agree("Open breaker")
    visit.told("Opened")
    expect(row.locator(".state")).to_have_text("open")
    expect(row).to_contain_text("by hand")
    visit.press("Close", row)
    visit.told("Closed")
    expect(row.locator(".state")).to_have_text("closed")
    visit.press("Leave to itself", row)
    visit.told("It follows the errors again")
    expect(row).not_to_contain_text("by hand")


# -- schedules


def test_change_run_and_remove_a_schedule(live: Live, visit: Visit) -> None:
    visit.excuse("422")
    live.call(live.app.schedules.put("at-run-time", every("1 hours"), "stock.count"))
    page = visit.find("/schedules", "section[data-key='at-run-time']")
    card = page.locator("section[data-key='at-run-time']")
    visit.press("Run now", card)
    visit.told("Enqueued")
    visit.press("Edit", card)
    visit.submit(spec="every blue moon")
    visit.sees("every", "dialog[open] .wrong")
    visit.submit(spec="every 25 minutes")
    visit.told("Changed")
    expect(card).to_contain_text("every 25 minutes")
    visit.press("Pause", card)
    visit.told("Paused")
    expect(card.locator("header .state")).to_have_text("paused")
    visit.press("Resume", card)
    visit.told("Resumed")
    visit.press("Remove", card)
    visit.agree("Remove schedule")
    visit.told("Removed")
    expect(card).to_have_count(0)


# -- workflows


def node(visit: Visit, label: str) -> Locator:
    return visit.page.locator(".canvas .node", has_text=label)


def test_a_workflow_changes_colour_and_is_retried(live: Live, visit: Visit, stage: str) -> None:
    tasks, number = live.app.tasks, live.port + 1
    transcode, check, ship = tasks["media.transcode"], tasks["orders.check"], tasks["orders.ship"]
    work = chain(transcode.si(stage), check.si(number), group(ship.s("post"), ship.s("courier"))).named("parcels")
    id = live.call(live.app.submitting.submit_work(work)).id
    page = visit.go(f"/workflows/{id}")
    expect(page.locator("h1")).to_have_text("parcels")
    expect(node(visit, "media.transcode")).to_have_class("node running")
    expect(node(visit, "orders.check")).to_have_class("node waiting")
    live.order(stage, "end")
    expect(node(visit, "media.transcode")).to_have_class("node succeeded")
    expect(node(visit, "orders.check")).to_have_class("node failed culprit")
    expect(node(visit, "orders.ship").first).to_have_class("node skipped")
    visit.state("failed")
    live.order(f"check-{number}", "good")
    visit.press("Retry what failed")
    visit.told("Retried")
    visit.state("succeeded")
    expect(node(visit, "orders.ship").first).to_have_class("node succeeded")
    node(visit, "orders.check").click()
    visit.page.wait_for_url("**/jobs/*")
    visit.page.get_by_role("link", name="Open the workflow").click()
    visit.page.wait_for_url(f"**/workflows/{id}")


def test_a_wide_workflow_is_folded_zoomed_and_seen_over_time(live: Live, visit: Visit) -> None:
    pack, check, ship = (live.app.tasks[f"orders.{name}"] for name in ("pack", "check", "ship"))
    calls = [pack.si(n) for n in range(12)]
    first = [pack.si(n) for n in range(7)]
    work = chain(*first, group(*calls, check.si(-live.port)), ship.s("post")).named("many parcels")
    id = live.call(live.app.submitting.submit_work(work)).id
    page = visit.find(f"/workflows/{id}", ".title .state.failed")
    visit.ready()
    expect(page.locator("#reason")).to_contain_text("orders.check failed: ValueError")
    culprit = page.locator(".node.culprit")
    expect(culprit).to_be_in_viewport()
    expect(page.locator(".node.many")).to_contain_text("orders.pack × 12")
    svg, natural = page.locator(".canvas svg"), page.locator(".canvas svg").bounding_box()
    visit.press("Smaller")
    expect(page.locator("[data-zoom=one]")).to_have_text("80 %")
    smaller = svg.bounding_box()
    assert natural
    assert smaller
    assert round(smaller["width"] / natural["width"], 1) == 0.8
    visit.page.keyboard.press("r")  # a renewed page keeps the scale
    visit.press("Fit")
    canvas = page.locator(".canvas")
    assert canvas.evaluate("box => box.scrollWidth <= box.clientWidth && box.scrollHeight <= box.clientHeight + 32")
    page.locator(".node.many").click()
    page.wait_for_url("**open=*")
    expect(page.locator(".node")).to_have_count(7 + 12 + 2)
    page.get_by_role("link", name="Over time").click()
    page.wait_for_url("**view=time*")
    expect(page.locator(".waterfall li")).to_have_count(7 + 12 + 2)
    expect(page.locator(".waterfall li.critical").first).to_contain_text("orders.pack")
    page.get_by_role("link", name="Fold", exact=True).click()
    expect(page.locator(".waterfall li")).to_have_count(7 + 3)


def test_mute_a_warning_and_hear_it_again(live: Live, visit: Visit) -> None:
    live.call(live.app.queue("hushed").pause())
    live.add("orders.pack", 1, queue="hushed")
    page = visit.find("/", "#warnings li:has-text('queue hushed')")
    row = page.locator("#warnings li", has_text="queue hushed")
    visit.press("Mute", row)
    expect(page.locator("dialog[open] footer button")).to_have_text(["Keep warning", "Mute warning"])
    visit.submit(lasts="1h", reason="the printer is away")
    visit.told("Muted")
    expect(row).to_contain_text("muted by ann")
    expect(row).to_contain_text("the printer is away")
    visit.press("Unmute", row)
    visit.told("It is heard again")
    expect(row).not_to_contain_text("muted")


def test_cancel_a_workflow(live: Live, visit: Visit, stage: str) -> None:
    tasks = live.app.tasks
    work = chain(tasks["media.transcode"].si(stage), tasks["orders.notify"].s())
    id = live.call(live.app.submitting.submit_work(work)).id
    visit.go(f"/workflows/{id}")
    expect(node(visit, "media.transcode")).to_have_class("node running")
    visit.press("Cancel")
    visit.agree("Cancel workflow")
    visit.told("Cancelled")
    visit.state("cancelled")
    expect(node(visit, "orders.notify")).to_have_class("node cancelled")


# -- dead letters


def test_dead_letters_by_fault(live: Live, visit: Visit) -> None:
    numbers = [live.port + 10 + n for n in range(3)]
    ids = [live.add("orders.check", number, queue="checks") for number in numbers]
    lost = [live.add("mail.send", f"nobody{n}@example.org", queue="checks", retries=0) for n in range(2)]
    for id in [*ids, *lost]:
        live.wait_state(id, "failed")
    page = visit.find("/dead?queue=checks", ".fault:has-text('LookupError')")
    checks = page.locator(".fault", has_text="ValueError")
    expect(checks.locator("header .state")).to_have_text("3")
    for number in numbers:
        live.order(f"check-{number}", "good")
    visit.press("Retry all", checks)
    visit.sees("3 jobs match", "#ask")
    visit.agree("Retry jobs")
    visit.told("3 jobs retried")
    for id in ids:
        live.wait_state(id, "succeeded")
    expect(checks).to_have_count(0)
    mails = page.locator(".fault", has_text="LookupError")
    visit.press("Delete all", mails)
    visit.agree("Delete jobs")
    visit.told("2 jobs deleted")
    visit.sees("No dead letters")
    wait_until(lambda: {live.state(id) for id in lost} == {"gone"}, "they are gone", SECONDS)
