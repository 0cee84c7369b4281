"""Draws bars and lines as SVG text, without a library. Colours suit light and dark pages alike."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10

FONT = "font-family='system-ui, sans-serif' font-size='12'"
INK, FAINT, OURS, THEIRS = "#7a7a7a", "#b8b8b8", "#2f7ed8", "#a0a8b4"
COLOURS = (OURS, "#d9822b", "#4c9f70", "#8f6bb3", "#c23b5a")


@dataclass(frozen=True)
class Bar:
    """One bar: its label, its length, the ends of its whisker."""

    label: str
    value: float
    low: float
    high: float
    ours: bool


def _text(x: float, y: float, words: str, anchor: str = "start", weight: str = "normal") -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' {FONT} fill='{INK}' text-anchor='{anchor}' "
        f"font-weight='{weight}'>{escape(words)}</text>"
    )


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1) -> str:
    return f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{colour}' stroke-width='{width}'/>"


def _page(width: int, height: float, parts: Sequence[str]) -> str:
    body = "\n".join(parts)
    return f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height:.0f}'>\n{body}\n</svg>\n"


def bars(groups: Sequence[tuple[str, Sequence[Bar]]]) -> str:
    """Groups of horizontal bars under their titles, each group on its own linear scale."""
    width, left, row = 760, 210, 20
    scale = width - left - 90
    parts: list[str] = []
    y = 10.0
    for title, group in groups:
        y += row
        parts.append(_text(8, y, title, weight="bold"))
        longest = max(bar.high for bar in group) or 1
        for bar in group:
            y += row
            length = bar.value / longest * scale
            low, high = left + bar.low / longest * scale, left + bar.high / longest * scale
            colour = OURS if bar.ours else THEIRS
            parts.append(_text(left - 8, y, bar.label, "end"))
            parts.append(f"<rect x='{left}' y='{y - 11}' width='{max(length, 1):.1f}' height='14' fill='{colour}'/>")
            parts.append(_line(low, y - 4, high, y - 4, INK, 1.5))
            parts.append(_text(max(high, left + length) + 6, y, _short(bar.value)))
        y += row / 2
    return _page(width, y + 12, parts)


def lines(title: str, series: Sequence[tuple[str, Sequence[tuple[float, float]]]]) -> str:
    """Curves over a logarithmic x axis and a y axis from zero."""
    width, height, left, top, bottom = 760, 340, 70, 40, 290
    points = [point for _, curve in series for point in curve]
    first, last = min(x for x, _ in points), max(x for x, _ in points)
    tall = max(y for _, y in points) * 1.1 or 1
    span = max(log10(last) - log10(first), 0.1)

    def place(x: float, y: float) -> tuple[float, float]:
        return left + (log10(x) - log10(first)) / span * 520, bottom - y / tall * (bottom - top)

    parts = [_text(8, 20, title, weight="bold"), _line(left, bottom, left + 520, bottom, FAINT)]
    for x in sorted({x for x, _ in points}):
        parts.append(_text(place(x, 0)[0], bottom + 18, f"{x:,.0f}", "middle"))
    step = 10 ** floor(log10(tall))
    step = step if tall / step >= 3 else step / 2
    for tick in range(1, int(tall / step) + 1):
        y = place(first, tick * step)[1]
        parts += [_line(left, y, left + 520, y, FAINT, 0.5), _text(left - 8, y + 4, _short(tick * step), "end")]
    for (label, curve), colour in zip(series, COLOURS, strict=False):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in curve))
        parts.append(f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='2.5'/>")
        for point in curve:
            x, y = place(*point)
            parts.append(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='4' fill='{colour}'/>")
        x, y = place(*curve[-1])
        parts.append(_text(x + 10, y + 4, label))
    return _page(width, height, parts)


def _short(value: float) -> str:
    if value >= 10_000:
        return f"{value / 1000:,.0f}k"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"
