"""``windlass top`` without a terminal: keys, the state they make, and the screen that is drawn of it."""

from __future__ import annotations

import pytest
from rich.console import Console as Terminal

from windlass.cli.operator import quoted
from windlass.cli.output import one_line
from windlass.cli.top.keys import split_keys
from windlass.cli.top.model import ACTIONS, TABS, KeyOrder, Row, State, press, question
from windlass.cli.top.rows import COLUMNS, spark
from windlass.cli.top.view import Screen, draw, draw_once, fitting, folded, hints, most_scroll

ROWS = [Row(f"job-{n}", (f"job-{n}", "failed", "t", "q", "", "", "1", "boom"), "red") for n in range(5)]


def typed(state: State, *keys: str, rows: list[Row] = ROWS) -> list[KeyOrder]:
    return [order for key in keys if (order := press(state, key, rows)) is not None]


def test_keys_are_split_into_single_ones() -> None:
    assert split_keys("j\x1b[A\x1b[6~\r\t\x7f/ü") == ["j", "up", "pagedown", "enter", "tab", "backspace", "/", "ü"]
    assert split_keys("\x1b") == ["escape"]
    assert split_keys("\x1bx") == ["escape", "x"]


def test_the_cursor_stays_on_the_table() -> None:
    state = State(tab="jobs")
    typed(state, "up", "k")
    assert state.cursor == 0
    typed(state, *"jjjjjjjjj")
    assert state.cursor == 4
    typed(state, "home", "pagedown")
    assert state.cursor == 4
    assert typed(State(tab="jobs"), "j", "x", "r", rows=[]) == []


@pytest.mark.parametrize(("key", "tab"), [("tab", "jobs"), ("right", "jobs"), ("left", "workflows"), ("4", "dead")])
def test_tabs(key: str, tab: str) -> None:
    state = State(cursor=3, chosen=frozenset({"job-1"}))
    typed(state, key)
    assert (state.tab, state.cursor, state.chosen) == (tab, 0, frozenset())


def test_an_action_is_for_the_row_or_for_all_that_are_chosen() -> None:
    state = State(tab="jobs")
    assert typed(state, "j", "r") == [KeyOrder("r", "jobs", ("job-1",))]
    assert typed(state, "x", "x", "r") == [KeyOrder("r", "jobs", ("job-1", "job-2"))]


def test_what_cannot_be_taken_back_is_asked_about_first() -> None:
    state = State(tab="jobs")
    assert typed(state, "d") == []
    assert state.asking == KeyOrder("d", "jobs", ("job-0",))
    assert question(state.asking) == "delete job-0? y/n"
    assert typed(state, "n") == []
    assert state.said == "left alone"
    assert typed(state, "d", "y") == [KeyOrder("d", "jobs", ("job-0",))]


def test_a_filter_is_typed() -> None:
    state = State(tab="workers")
    typed(state, "/", *"state:failedx", "backspace", "enter")
    assert (state.tab, state.filter, state.typing) == ("jobs", "state:failed", None)
    typed(state, "/", "z", "escape")
    assert state.filter == "state:failed"
    typed(state, "escape")
    assert state.filter == ""


def test_enter_looks_closer() -> None:
    state = State(tab="queues")
    typed(state, "enter", rows=[Row("mail", ("mail",), filter='queue:"mail"')])
    assert (state.tab, state.filter) == ("jobs", 'queue:"mail"')
    assert typed(state, "enter") == [KeyOrder("open", "jobs", ("job-0",))]
    state.detail = "job-0"
    assert typed(state, "r") == [KeyOrder("r", "jobs", ("job-0",))]
    assert typed(state, "d", "y") == [KeyOrder("d", "jobs", ("job-0",))]
    typed(state, "down", "pagedown", "k")
    assert state.scroll == 20
    typed(state, "escape")
    assert state.detail == ""


def test_what_is_paused_is_as_the_user_saw_it() -> None:
    rows = [Row("mail", ("mail",), paused=True), Row("work", ("work",))]
    assert typed(State(), "p", rows=rows) == [KeyOrder("p", "queues", ("mail",), ("mail",))]
    assert typed(State(), "j", "p", rows=rows) == [KeyOrder("p", "queues", ("work",))]


def test_leaving_help_and_standing_still() -> None:
    state = State()
    typed(state, "?")
    assert state.help
    assert typed(state, "q") == []
    assert not state.help
    typed(state, " ")
    assert state.still
    assert typed(state, "q") == [KeyOrder("quit")]


def drawn(screen: Screen, state: State, width: int = 120, height: int = 40) -> str:
    terminal = Terminal(width=width, height=height, color_system=None)
    with terminal.capture() as captured:
        terminal.print(draw(screen, state, width, height))
    return captured.get()


@pytest.mark.parametrize("tab", TABS)
def test_every_table_is_drawn_with_its_columns_and_actions(tab: str) -> None:
    row = Row("one", tuple(f"cell{n}" for n, _ in enumerate(COLUMNS[tab])))
    text = drawn(Screen(rows=[row]), State(tab=tab))
    assert all(name in text for name in COLUMNS[tab])
    assert "cell0" in text
    assert all(f"{key} {what}" in text for key, what in ACTIONS[tab].items())


def test_texts_of_users_are_neither_markup_nor_commands_to_the_terminal() -> None:
    hostile = "[bold]x[/] \x1b[2J\x07 [link=http://e]y"
    text = drawn(Screen(rows=[Row("a", (hostile,) * 8)]), State(tab="jobs"))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[bold]x[/]" in one_line(hostile)
    assert "no such state" in drawn(Screen(failure="no such state"), State())


def test_sparks() -> None:
    assert spark([0, 1, 8]) == " ▁█"
    assert spark([0, 0]) == "  "
    assert spark([]) == ""


def test_a_value_in_a_filter_is_quoted() -> None:
    assert quoted('a "b" \\') == '"a \\"b\\" \\\\"'


def test_columns_go_until_the_rest_fits_and_only_the_last_is_cut() -> None:
    columns = ("id", "state", "tries", "what")
    rows = [("x" * 20, "succeeded", "3", "w" * 100)]
    assert fitting(columns, rows, ("tries", "state"), 120) == ([0, 1, 2, 3], 120 - 22 - 11 - 7)
    assert fitting(columns, rows, ("tries", "state"), 60) == ([0, 1, 3], 60 - 22 - 11)
    assert fitting(columns, rows, ("tries", "state"), 50) == ([0, 3], 50 - 22)
    assert fitting(columns, rows, ("tries", "state"), 5) == ([0, 3], 4)


@pytest.mark.parametrize("size", [(80, 24), (160, 50), (20, 8)])
@pytest.mark.parametrize("state", [*(State(tab=tab) for tab in TABS), State(help=True), State(detail="job-0")])
def test_every_screen_fills_its_terminal_and_no_more(state: State, size: tuple[int, int]) -> None:
    rows = [Row(f"r{n}", tuple("cell" * (1 + n % 9) for _ in COLUMNS[state.tab])) for n in range(70)]
    text = drawn(Screen(rows=rows, detail="line\n" * 99, part="the newest 70"), state, *size)
    lines = text.splitlines()
    assert len(lines) == size[1] or size == (20, 8)
    assert all(len(line) <= size[0] for line in lines)
    if size != (20, 8):
        assert lines[-1].rstrip().endswith(("q quit", "any key goes back", "? keys"))
        for other in (rows[:1], [], None):
            again = drawn(Screen(rows=other, detail="x"), state, *size).splitlines()
            assert (len(again), again[-1]) == (size[1], lines[-1])


def test_hints_fit_and_say_how_to_leave() -> None:
    for tab in TABS:
        text = hints(State(tab=tab), 80)
        assert len(text) <= 80
        assert text.endswith("? keys  q quit")
    assert hints(State(tab="queues", still=True), 200).startswith("STILL  p pause or resume  enter look")


def test_long_texts_are_folded_and_scrolled() -> None:
    assert folded("abcdef\n\ngh\x1b", 4) == ["abcd", "ef", "", "gh "]
    screen = Screen(detail="\n".join(f"line {n}" for n in range(40)))
    assert most_scroll(screen, 80, 24) == 40 - 17
    text = drawn(screen, State(detail="job-0", scroll=23), 80, 24)
    assert "line 23" in text
    assert "line 39" in text
    assert "line 22" not in text


def test_one_look_for_a_pipe_has_all_rows_and_no_keys() -> None:
    rows = [Row(f"q{n}", tuple(f"cell{n}" for _ in COLUMNS["queues"])) for n in range(70)]
    terminal = Terminal(width=1_000, color_system=None)
    with terminal.capture() as captured:
        terminal.print(draw_once(Screen(rows=rows), 160))
    text = captured.get()
    assert "cell69" in text
    assert "quit" not in text
    assert max(map(len, text.splitlines())) <= 160
