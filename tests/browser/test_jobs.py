"""One job, with everything that can be done to it, while a worker runs."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.kit import Live
from tests.browser.visit import Visit


def id_in(url: str) -> str:
    return url.rpartition("/")[2]


def test_a_form_made_from_the_signature_enqueues(live: Live, visit: Visit) -> None:
    page = visit.go("/tasks/mail.send")
    form = page.locator("#new form")
    form.locator("[name='args.to']").fill("form@example.org")
    form.locator("[name='args.format']").select_option("text")
    form.locator("[name='args.copies']").fill("2")
    form.locator("[name='args.urgent']").check()
    form.locator("summary").click()
    form.locator("[name='options.priority']").fill("9")
    form.get_by_role("button", name="Enqueue").click()
    page.wait_for_url("**/jobs/*")
    visit.state("succeeded")
    expect(page.locator("#result-text")).to_have_text('"2 × text to form@example.org"')
    expect(page.locator("#args-text")).to_contain_text('"urgent": true')
    job = live.info(id_in(page.url))
    assert job is not None
    assert job.priority == 9


def test_a_form_says_what_is_wrong_and_keeps_what_was_typed(visit: Visit) -> None:
    visit.excuse("422")
    page = visit.go("/tasks/orders.charge")
    form = page.locator("#new form")
    form.locator("[name='args.order']").fill("{nothing")
    form.locator("[name='args.amount']").fill("12.5")
    form.get_by_role("button", name="Enqueue").click()
    expect(form.locator(".wrong")).to_contain_text("order: this is not JSON")
    form.locator("[name='args.order']").fill('{"number": "seven"}')
    form.get_by_role("button", name="Enqueue").click()
    expect(form.locator(".wrong")).to_contain_text("number")
    expect(form.locator("[name='args.amount']")).to_have_value("12.5")
    form.locator("[name='args.order']").fill('{"number": 7, "items": []}')
    form.get_by_role("button", name="Enqueue").click()
    visit.page.wait_for_url("**/jobs/*")
    visit.state("succeeded")


def test_numbers_too_long_for_a_script_arrive_whole(visit: Visit) -> None:
    page = visit.go("/tasks/orders.pack")
    page.locator("[name='args.order']").fill("9007199254740993")
    page.get_by_role("button", name="Enqueue").click()
    page.wait_for_url("**/jobs/*")
    expect(page.locator("#args-text")).to_contain_text("9007199254740993")


def test_retry(live: Live, visit: Visit) -> None:
    number = live.port
    id = live.add("orders.check", number)
    live.wait_state(id, "failed")
    visit.job(id)
    visit.state("failed")
    visit.sees(f"order {number} cannot be checked", "#error")
    live.order(f"check-{number}", "good")
    visit.press("Retry")
    visit.told("Retried")
    visit.state("succeeded")
    visit.fact("Run", "2")


def test_edit_and_requeue(live: Live, visit: Visit) -> None:
    visit.excuse("422")
    id = live.add("mail.send", "nobody@example.org", retries=0)
    live.wait_state(id, "failed")
    visit.job(id)
    visit.press("Edit and requeue")
    visit.submit(args="not json")
    visit.sees("not JSON", "dialog[open] .wrong")
    visit.submit(args='{"too": "ann@example.org"}')
    visit.sees("missing a required argument: 'to'", "dialog[open] .wrong")
    visit.submit(args='{"to": "ann@example.org"}')
    visit.told("Saved")
    visit.state("succeeded")
    visit.sees("ann@example.org", "#args-text")


def test_a_job_that_waits_is_given_another_time_place_and_rank(live: Live, visit: Visit) -> None:
    visit.excuse("422")
    id = live.add("orders.pack", 1, delay="3h")
    visit.job(id)
    visit.state("scheduled")
    visit.press("Priority")
    visit.submit(priority="8")
    visit.told("Changed")
    visit.fact("Priority", "8")
    visit.press("Reschedule")
    visit.submit(delay="soon")
    visit.told("soon")
    visit.press("Reschedule")
    visit.submit(delay="5h")
    visit.told("Changed")
    visit.fact("Due", "in 4h")
    visit.press("Move")
    visit.submit(queue="warehouse-2")
    visit.told("Changed")
    visit.fact("Queue", "warehouse-2")
    visit.press("Move")
    visit.submit(queue="warehouse")
    visit.told("Changed")
    visit.press("Run now")
    visit.told("Promoted")
    visit.state("succeeded")


def test_cancel_and_delete(live: Live, visit: Visit) -> None:
    visit.excuse("404")  # the page may hear of its end before it is left
    id = live.add("orders.pack", 2, delay="3h")
    page = visit.job(id)
    visit.press("Cancel")
    expect(page.locator("#ask footer button")).to_have_text(["Keep job", "Cancel job"])
    page.locator("#ask [data-close]").click()
    assert live.state(id) == "scheduled"
    visit.press("Cancel")
    visit.agree("Cancel job")
    visit.state("cancelled")
    visit.press("Delete")
    visit.sees("cannot be undone", "#ask")
    visit.agree("Delete job")
    page.wait_for_url("**/jobs")
    assert live.state(id) == "gone"


def test_progress_and_logs_arrive_without_a_reload(live: Live, visit: Visit, stage: str) -> None:
    id = live.add("media.transcode", stage)
    page = visit.job(id)
    page.evaluate("window.same = true")
    visit.state("running")
    live.order(stage, "log one", "progress 25 a quarter")
    visit.sees("one", "#logs")
    expect(page.locator("#progress-number")).to_have_text("25 %")
    visit.sees("a quarter", "#progress-text")
    live.order(stage, "warn <b>two</b>", "progress 75 nearly")
    expect(page.locator("#logs .WARNING")).to_contain_text("<b>two</b>")
    expect(page.locator("#logs li")).to_have_count(2)
    expect(page.locator("#progress-number")).to_have_text("75 %")
    live.order(stage, "end")
    visit.state("succeeded")
    visit.sees(f"{stage}@1280", "#result")
    assert page.evaluate("window.same") is True


def test_a_running_job_is_asked_to_stop(live: Live, visit: Visit, stage: str) -> None:
    id = live.add("media.transcode", stage)
    visit.job(id)
    visit.state("running")
    visit.press("Cancel")
    expect(visit.page.locator("#ask footer button")).to_have_text(["Keep running", "Cancel job"])
    visit.agree()
    visit.told("Cancel requested")
    visit.state("cancelled")


def test_the_reason_for_waiting_is_on_the_page(live: Live, visit: Visit) -> None:
    live.call(live.app.queue("stopped").pause())
    id = live.add("orders.pack", 3, queue="stopped")
    page = visit.job(id)
    visit.sees("queue 'stopped' is paused", "#why")
    page.locator("#why").get_by_role("link", name="Queue").first.click()
    expect(page).to_have_url(re.compile("/queues/stopped$"))
