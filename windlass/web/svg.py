"""Pictures of the console's values as SVG: charts, sparklines, gauges, timelines, graphs. Pure: values in, markup out.

Every text and attribute is escaped here, by ``tag``; nothing else makes markup. The page's policy allows no style
attributes: shapes carry numbers and classes, and static/draw.css has the colours. Charts are stretched to the width
they get; so that labels keep their size, they stand beside the drawing as text of the page (``Drawing``).
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from markupsafe import Markup, escape

from windlass.console.replies import Attempt, Chart, Point
from windlass.console.workflow_replies import Bar, Node, WorkflowDetail
from windlass.core.duration import show_ms

STACK = ("succeeded", "cancelled", "other", "retried", "failed")
"""From the bottom up. What is not an outcome of its own is ``other``."""

QUANTILES = ("p50", "p95", "p99")
SLOT, TALL = 10, 100
BOX = (180.0, 44.0)
"""The size of a node."""

LETTERS = 24
"""As many as fit into a node."""

Attributes = Mapping[str, str | float]


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """A drawing and the labels beside it. ``y`` from the bottom up, ``x``: instants from left to right."""

    svg: Markup
    y: list[str] = []
    x: list[int] = []
    legend: list[tuple[str, str]] = []


def tag(name: str, attributes: Attributes, *inside: Markup | str) -> Markup:
    """One element; plain text in it is escaped."""
    given = Markup("").join(Markup(' {}="{}"').format(key, _text(value)) for key, value in attributes.items())
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), given, Markup("").join(map(escape, inside)))


def _text(value: str | float) -> str:
    return value if isinstance(value, str) else f"{round(value, 2):g}"


def plain(text: str, most: int = 200) -> str:
    """A text on one line that cannot change the direction of its neighbours: control characters are shown as such, and
    it is cut.
    """
    shown = "".join("\ufffd" if unicodedata.category(c) in {"Cc", "Cf", "Cs"} else c for c in text[: most + 1])
    return shown if len(shown) <= most else shown[: most - 1] + "…"


# -- throughput


def throughput(chart: Chart) -> Drawing:
    """The outcomes of runs, stacked, one bar per slot; the open slot is dashed."""
    stacks = [outcomes(point.counts) for point in chart.points]
    top = nice(max((sum(stack.values()) for stack in stacks), default=0))
    bars = [bar for n, point in enumerate(chart.points) for bar in _bars(n, stacks[n], top, point.open)]
    whole = outcomes(chart.counts)
    legend = [(name, f"{whole[name]:,}") for name in STACK if whole[name] or name in {"succeeded", "failed"}]
    about = ", ".join(f"{count} {name}" for name, count in legend) if chart.points else "nothing"
    svg = _plot(chart.points, f"Jobs by outcome: {about}", bars, [_stack_tip(stack) for stack in stacks])
    return Drawing(svg=svg, y=_steps(top), x=_instants(chart.points), legend=legend)


def outcomes(counts: dict[str, int]) -> dict[str, int]:
    found = dict.fromkeys(STACK, 0)
    for name, count in counts.items():
        found[name if name in found else "other"] += count
    return found


def _bars(n: int, stack: dict[str, int], top: int, open: bool) -> Iterable[Markup]:
    below = 0
    for name in STACK:
        if count := stack[name]:
            height = TALL * count / top
            place = TALL * (1 - below / top) - height
            kind = f"bar {name} open" if open else f"bar {name}"
            yield tag("rect", {"class": kind, "x": n * SLOT + 1, "y": place, "width": SLOT - 2, "height": height})
            below += count


def _stack_tip(stack: dict[str, int]) -> str:
    said = [f"{stack[name]:,} {name}" for name in reversed(STACK) if stack[name]]
    return "\n".join(said or ["nothing ran"])


def nice(most: float) -> int:
    """The next round number at or above this one."""
    if most <= 1:
        return 1
    size = 10 ** math.floor(math.log10(most))
    return int(next(step * size for step in (1, 2, 4, 5, 8, 10) if step * size >= most))


def _steps(top: int) -> list[str]:
    return ["0", short(top)] if top % 2 else ["0", short(top // 2), short(top)]


def short(number: float) -> str:
    """A number in few characters: ``950``, ``1.2k``, ``3.4M``."""
    for size, letter in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**4, "k")):
        if number >= size:
            unit = 1000 if letter == "k" else size
            return f"{number / unit:.3g}{letter}" if number / unit < 1000 else f"{number / unit:,.0f}{letter}"
    return f"{number:,.0f}"


def _plot(points: Sequence[Point], title: str, shapes: Sequence[Markup], tips: Sequence[str]) -> Markup:
    """Shapes over horizontal rules and, above them, a column per slot that shows its numbers on hover."""
    wide = max(len(points), 1) * SLOT
    rules = [tag("line", {"class": "rule", "x1": 0, "x2": wide, "y1": y, "y2": y}) for y in (0, TALL / 2, TALL)]
    columns = [
        tag("rect", {
            "class": "column", "x": n * SLOT, "y": 0, "width": SLOT, "height": TALL,
            "data-at": str(point.at), "data-tip": tip,
        })
        for n, (point, tip) in enumerate(zip(points, tips, strict=True))
    ]  # fmt: skip
    view = {"viewBox": f"0 0 {wide} {TALL}", "preserveAspectRatio": "none", "role": "img"}
    return tag("svg", view, tag("title", {}, title), *rules, *shapes, *columns)


def _instants(points: Sequence[Point], most: int = 5) -> list[int]:
    if len(points) < 2:
        return [point.at for point in points]
    return [points[round(n * (len(points) - 1) / (most - 1))].at for n in range(most)]


# -- quantiles


def quantiles(chart: Chart, of: str) -> Drawing:
    """p50, p95 and p99 of ``wait`` or ``run`` as lines, durations on a logarithmic axis."""
    rows = [getattr(point, of) for point in chart.points]
    low, high = _decades([value for row in rows for value in row if value is not None])
    lines = [
        shape
        for which, name in reversed(list(enumerate(QUANTILES)))
        for shape in _line([row[which] for row in rows], [point.open for point in chart.points], name, low, high)
    ]
    whole = getattr(chart, of)
    legend = [
        (name, "–" if value is None else show_ms(round(value))) for name, value in zip(QUANTILES, whole, strict=True)
    ]
    said = ", ".join(f"{name} {value}" for name, value in legend)
    tips = [_quantile_tip(row) for row in rows]
    svg = _plot(chart.points, f"{of.capitalize()} time: {said}", lines, tips)
    y = [show_ms(10**exponent) for exponent in range(low, high + 1)]
    return Drawing(svg=svg, y=y, x=_instants(chart.points), legend=legend)


def _decades(values: Sequence[float]) -> tuple[int, int]:
    known = [max(value, 1.0) for value in values]
    if not known:
        return 0, 3
    low, high = math.floor(math.log10(min(known))), math.ceil(math.log10(max(known)))
    return low, max(high, low + 1)


def _line(values: Sequence[float | None], open: Sequence[bool], name: str, low: int, high: int) -> Iterable[Markup]:
    """A line that breaks where a value is missing. A value without a neighbour is a dot; the part to an open slot is
    dashed.
    """
    places = [None if value is None else _place(n, value, low, high) for n, value in enumerate(values)]
    run: list[tuple[float, float]] = []
    for n, place in enumerate([*places, None]):
        still = n < len(places) and not open[n]
        if place is not None and still:
            run.append(place)
            continue
        if place is not None and run:
            yield tag("path", {"class": f"trace {name} open", "d": _path([run[-1], place])})
        elif place is not None:
            yield tag("path", {"class": f"spot {name}", "d": _path([place, place])})
        if run:
            kind = "trace" if len(run) > 1 else "spot"
            yield tag("path", {"class": f"{kind} {name}", "d": _path(run if len(run) > 1 else run * 2)})
        run = []


def _place(n: int, value: float, low: int, high: int) -> tuple[float, float]:
    part = (math.log10(max(value, 1.0)) - low) / (high - low)
    return n * SLOT + SLOT / 2, TALL * (1 - min(max(part, 0.0), 1.0))


def _path(places: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_text(x)} {_text(y)}" for x, y in places)


def _quantile_tip(row: Sequence[float | None]) -> str:
    known = [(name, value) for name, value in zip(QUANTILES, row, strict=True) if value is not None]
    return "\n".join([f"{name} {show_ms(round(value))}" for name, value in reversed(known)] or ["nothing ran"])


# -- small ones


def spark(values: Sequence[float | None], kind: str = "", title: str = "") -> Markup:
    """A line of values without axes, from 0 up."""
    known = [value or 0.0 for value in values]
    top = max(known, default=0.0) or 1.0
    places = [(float(n), 20 - 19 * value / top) for n, value in enumerate(known)]
    if len(places) < 2:
        places = [(0.0, 20.0), (1.0, 20.0)]
    last = places[-1][0]
    area = f"{_path([(0.0, 20.0), *places, (last, 20.0)])}Z"
    view = {"class": f"spark {kind}".strip(), "viewBox": f"0 0 {_text(last)} 20", "preserveAspectRatio": "none"}
    hidden = {"role": "img"} if title else {"aria-hidden": "true"}
    name = [tag("title", {}, title)] if title else []
    shapes = [tag("path", {"class": "area", "d": area}), tag("path", {"class": "trace", "d": _path(places)})]
    return tag("svg", {**view, **hidden}, *name, *shapes)


def gauge(held: float, limit: float) -> Markup:
    """How much of a limit is used."""
    part = held / limit if limit > 0 else 0.0
    kind = "level over" if part > 1 else "level full" if part >= 0.9 else "level"
    return _strip("gauge", f"{_text(held)} of {_text(limit)}", [(kind, min(part, 1.0))])


def parts(counts: dict[str, int], total: int) -> Markup:
    """States of many jobs as parts of one bar."""
    order = ("succeeded", "failed", "cancelled", "skipped", "running")
    said = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    return _strip("parts", said, [(name, counts.get(name, 0) / total) for name in order] if total else [])


def _strip(kind: str, title: str, segments: Sequence[tuple[str, float]]) -> Markup:
    shapes, x = [tag("rect", {"class": "track", "x": 0, "y": 0, "width": 100, "height": 6})], 0.0
    for name, part in segments:
        if part > 0:
            shapes.append(tag("rect", {"class": name, "x": x, "y": 0, "width": 100 * part, "height": 6}))
            x += 100 * part
    view = {"class": kind, "viewBox": "0 0 100 6", "preserveAspectRatio": "none", "role": "img"}
    return tag("svg", view, tag("title", {}, title), *shapes)


def timeline(attempts: Sequence[Attempt], start: int, end: int) -> Drawing | None:
    """The runs of a job to scale, from its enqueue to its end; None if no run's time is known."""
    known = [attempt for attempt in attempts if attempt.at]
    if not known or end <= start:
        return None
    scale = 1000 / (end - start)
    shapes = [tag("rect", {"class": "track", "x": 0, "y": 17, "width": 1000, "height": 6})]
    for attempt in known:
        x = min(max((attempt.at - start) * scale, 0.0), 996.0)
        took = attempt.took if attempt.took is not None else max(end - attempt.at, 0)
        width = min(max(took * scale, 4.0), 1000 - x)
        said = [f"attempt {attempt.number}: {attempt.outcome}", show_ms(took), plain(attempt.error)]
        shapes.append(tag("rect", {
            "class": f"run {plain(attempt.outcome, 20)}", "x": x, "y": 6, "width": width, "height": 28,
            "data-at": str(attempt.at), "data-tip": "\n".join(filter(None, said)),
        }))  # fmt: skip
    view = {"viewBox": "0 0 1000 40", "preserveAspectRatio": "none", "role": "img"}
    title = tag("title", {}, f"{len(attempts)} attempts over {show_ms(end - start)}")
    return Drawing(svg=tag("svg", view, title, *shapes), x=[start, end])


# -- workflows


def bar(row: Bar, began: int, ended: int) -> Markup:
    """One row of a waterfall: the wait, then the run, to scale from the workflow's beginning to its end."""
    scale = 1000 / max(ended - began, 1)

    def strip(kind: str, since: int, until: int) -> Markup:
        x = min(max((since - began) * scale, 0.0), 998.0)
        width = min(max((until - since) * scale, 2.0), 1000 - x)
        size = {"y": 4 if kind.startswith("run") else 7, "height": 12 if kind.startswith("run") else 6}
        return tag("rect", {"class": kind, "x": x, "width": width, **size})

    shapes: list[Markup] = []
    said = [row.state]
    if row.wait and (row.start or ended) > row.wait:
        shapes.append(strip("wait", row.wait, row.start or ended))
        said.append(f"waited {show_ms((row.start or ended) - row.wait)}")
    if row.start:
        shapes.append(strip(f"run {plain(row.state, 20)}", row.start, row.end or ended))
        said.append(f"ran {show_ms((row.end or ended) - row.start)}")
    view = {"viewBox": "0 0 1000 20", "preserveAspectRatio": "none", "role": "img"}
    return tag("svg", view, tag("title", {}, ", ".join(said)), *shapes)


def graph(detail: WorkflowDetail, link: Callable[[Node], str]) -> Markup:
    """A workflow: boxes coloured by state, lines from their sources. ``link``: where a click on a box leads."""
    wide, tall = max(detail.width, BOX[0]), max(detail.height, BOX[1])
    size: Attributes = {"refX": 7, "refY": 4, "markerWidth": 7, "markerHeight": 7, "orient": "auto"}
    arrow = tag("marker", {"id": "arrow", "viewBox": "0 0 8 8", **size}, tag("path", {"d": "M0 0L8 4L0 8Z"}))
    lines = [_edge(detail.nodes[line.source], detail.nodes[line.target], line.on) for line in detail.lines]
    boxes = [_node(node, link) for node in detail.nodes]
    view: Attributes = {"viewBox": f"-2 -2 {_text(wide + 4)} {_text(tall + 8)}", "width": wide + 4, "height": tall + 8}
    title = f"Workflow {plain(detail.row.name or detail.row.id)}: {detail.row.done} of {detail.row.total} jobs done"
    about: Attributes = {"role": "group", "aria-label": title}
    return tag("svg", {**view, **about}, tag("defs", {}, arrow), *lines, *boxes)


def _edge(source: Node, target: Node, on: str) -> Markup:
    """A line downwards if the target is below, else to the right."""
    if target.y >= source.y + BOX[1]:
        x1, y1, x2, y2 = source.x + BOX[0] / 2, source.y + BOX[1], target.x + BOX[0] / 2, target.y
        bend = (y2 - y1) / 2
        corners = (x1, y1 + bend, x2, y2 - bend)
    else:
        x1, y1, x2, y2 = source.x + BOX[0], source.y + BOX[1] / 2, target.x, target.y + BOX[1] / 2
        bend = max((x2 - x1) / 2, 12.0)
        corners = (x1 + bend, y1, x2 - bend, y2)
    curve = " ".join(map(_text, corners))
    way = f"M{_text(x1)} {_text(y1)}C{curve} {_text(x2)} {_text(y2)}"
    return tag("path", {"class": f"line {on}", "d": way, "marker-end": "url(#arrow)"})


def _node(node: Node, link: Callable[[Node], str]) -> Markup:
    size: Attributes = {"width": BOX[0], "height": BOX[1], "rx": 6}
    said = _states(node) if node.folded else node.state
    if node.took is not None:
        said += f" · {show_ms(node.took)}"
    shapes = [
        tag("rect", {"class": "box", "x": 0, "y": 0, **size}),
        tag("rect", {"class": "side", "x": 0, "y": 0, "width": 5, "height": BOX[1], "rx": 2.5}),
        tag("text", {"x": 14, "y": 18}, fit(f"{node.label} × {node.folded:,}" if node.folded else node.label, LETTERS)),
        tag("text", {"class": "said", "x": 14, "y": 34}, fit(": ".join(filter(None, [said, node.error])), LETTERS + 4)),
        tag("title", {}, "\n".join(filter(None, [plain(node.label), said, plain(node.error), plain(node.id)]))),
    ]
    mark = f"node {plain(node.state, 20)}{' culprit' if node.culprit else ''}{' many' if node.folded else ''}"
    place = {"class": mark, "transform": f"translate({_text(node.x)} {_text(node.y)})"}
    if node.folded:
        back = tag("rect", {"class": "back", "x": 4, "y": 4, **size})
        return tag("a", {**place, "href": link(node), "data-key": f"many {node.group}"}, back, *shapes, *_shares(node))
    if not node.id:
        return tag("g", {**place, "data-key": node.label}, *shapes)
    if node.culprit:
        place["id"] = "culprit"
    return tag("a", {**place, "href": link(node), "data-key": node.id}, *shapes)


def _shares(node: Node) -> Iterable[Markup]:
    """The states of many jobs as parts of a line along the lower edge of their box."""
    x, wide = 9.0, BOX[0] - 14
    for state, count in node.states.items():
        part = wide * count / node.folded
        yield tag("rect", {"class": f"share {plain(state, 20)}", "x": x, "y": BOX[1] - 5, "width": part, "height": 3})
        x += part


def _states(node: Node) -> str:
    """The states of the many jobs in one box, as text."""
    others = [f"{count} {state}" for state, count in node.states.items() if count and state != "succeeded"]
    return ", ".join(others) or "all succeeded"


def fit(text: str, letters: int) -> str:
    """As much of a text as fits into so many letters; wide letters count twice."""
    shown: list[str] = []
    room = letters
    for letter in plain(text, letters * 2):
        room -= 2 if unicodedata.east_asian_width(letter) in {"W", "F"} else 1
        if room < 0:
            return "".join(shown[:-1]) + "…"
        shown.append(letter)
    return "".join(shown)
