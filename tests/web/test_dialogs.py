"""Dialogs: each names what it does, and what stays as it is; all their words stand in one table."""

from __future__ import annotations

import re

import pytest

from tests.web.cases import PAGES
from tests.web.kit import Page, World, bearer, dashboard, visiting
from windlass import Windlass
from windlass.web.dialogs import DIALOGS
from windlass.web.pages import BULK
from windlass.web.site import STATIC, TEMPLATES


def sources() -> str:
    files = [*TEMPLATES.glob("*.html"), *STATIC.glob("*.js")]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


@pytest.mark.parametrize("name", DIALOGS)
def test_both_buttons_say_what_they_do(name: str) -> None:
    said = DIALOGS[name]
    assert len(said.go.split()) > 1, "the action is named by verb and object"
    if name != "help":
        assert said.keep.startswith("Keep ")
    assert "Cancel" not in said.keep


def test_every_dialog_is_in_use_and_none_has_words_of_its_own() -> None:
    text = sources()
    for name in {*DIALOGS} - {f"{action.name}_jobs" for action in BULK}:
        assert f'"{name}"' in text, name
    assert re.findall(r"data-ask=\"(?!{{ said\.title)", text) == []
    footers = re.findall(r"<footer>.*</footer>", text)
    assert [footer for footer in footers if re.search(r">[A-Z]\w+", footer)] == []


async def test_pages_have_the_words_of_the_table(app: Windlass, world: World) -> None:
    seen = set()
    async with visiting(dashboard(app, {"ann": ["*"]}), headers=bearer("ann")) as visitor:
        for path in PAGES:
            answer = await visitor.get(path.replace("FLOW", world.flow).replace("BROKEN", world.broken))
            for button in Page(answer.text).named("button"):
                if "data-bulk" in button or "data-ask" in button:
                    said = next(one for one in DIALOGS.values() if one.go == button["data-go"])
                    assert button["data-stay"] == said.keep or "data-bulk" not in button
                    assert button["data-ask"]
                    seen.add(said.go)
    assert {"Cancel job", "Delete job", "Cancel workflow", "Delete jobs", "Drain queue", "Remove schedule"} <= seen


async def test_a_job_that_runs_is_kept_running(app: Windlass, world: World) -> None:
    async with visiting(dashboard(app, {"ann": ["*"]}), headers=bearer("ann")) as visitor:
        for id, keep in (("running-1", "Keep running"), ("ready-1", "Keep job")):
            buttons = Page((await visitor.get(f"/jobs/{id}")).text).named("button")
            [asked] = [one for one in buttons if one.get("data-go") == "Cancel job"]
            assert asked["data-stay"] == keep
