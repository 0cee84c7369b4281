"""What one node's end means for its edges, and which of them are the same edge seen from both sides."""

from __future__ import annotations

import pytest

from windlass.core.graph import decide_edges, due_at, gone, place_of_edge, unfit
from windlass.core.job import State
from windlass.core.links import WIDTH, Edge, In, Inject, Links, On, Out

OUTS = [Out("a"), Out("b", On.FAILURE), Out("c", On.DONE)]


@pytest.mark.parametrize(
    ("state", "expired", "after"),
    [
        (State.SUCCEEDED, False, [Edge.MET, Edge.BROKEN, Edge.MET]),
        (State.FAILED, False, [Edge.BROKEN, Edge.MET, Edge.MET]),
        (State.CANCELLED, False, [Edge.BROKEN, Edge.BROKEN, Edge.MET]),
        (State.CANCELLED, True, [Edge.BROKEN, Edge.MET, Edge.MET]),
    ],
)
def test_an_end_decides_all_open_edges(state: State, expired: bool, after: list[Edge]) -> None:
    edges = [Edge.OPEN] * 3
    assert decide_edges(OUTS, edges, state, expired) == (after, list(zip(OUTS, after, strict=True)))
    assert edges == [Edge.OPEN] * 3


def test_an_edge_that_is_decided_stays_so() -> None:
    after, news = decide_edges(OUTS, [Edge.BROKEN, Edge.OPEN, Edge.MET], State.SUCCEEDED)
    assert after == [Edge.BROKEN, Edge.BROKEN, Edge.MET]
    assert news == [(OUTS[1], Edge.BROKEN)]


def test_the_first_edge_in_is_the_first_edge_out() -> None:
    ins = [In("s"), In("other"), In("s"), In("s")]
    outs = [Out("elsewhere"), Out("t"), Out("t")]
    assert [place_of_edge(ins, at, outs, "t") for at in range(4)] == [1, 1, 2, None]


def test_a_release_is_due_at_the_later_of_two_instants() -> None:
    assert [due_at(at, delay, 1_000) for at, delay in [(0, 0), (500, 0), (0, 5), (1_010, 5), (1_001, 5)]] == [
        0, 500, 1_005, 1_010, 1_005,
    ]  # fmt: skip


def test_a_node_has_so_many_edges_at_most() -> None:
    wide = [In(f"s{n}") for n in range(WIDTH + 1)]
    assert unfit("n", None) == unfit("n", Links(ins=wide[:-1])) == ""
    assert unfit("n", Links(ins=wide)) == f"node 'n' has more than {WIDTH} edges"
    assert unfit("n", Links(outs=[Out(edge.source) for edge in wide])) == f"node 'n' has more than {WIDTH} edges"


def test_a_source_that_is_gone_stands_for_a_failure() -> None:
    found = gone(In("s", inject=Inject.SPLICE))
    assert (found.id, found.state, found.inject, found.reason) == (
        "s",
        State.FAILED,
        Inject.SPLICE,
        "the record of s is gone",
    )
