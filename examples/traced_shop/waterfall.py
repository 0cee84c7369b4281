"""A trace as a page: one row per span, by time, below the span that caused it. Tracing tools do this better."""

from __future__ import annotations

from html import escape

from examples.traced_shop.spans import Bar

COLOURS = {"send": "#7c6ff0", "process": "#1f9d6b", "settle": "#9aa4b2", "": "#2f7ed8"}

PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Trace {short}</title>
<meta name="viewport" content="width=device-width">
<style>
  body {{ font: 14px/1.4 system-ui, sans-serif; margin: 2rem auto; max-width: 1080px; padding: 0 1rem; color: #1d2430 }}
  h1 {{ font-size: 1.25rem; margin: 0 }} p {{ color: #5b6675; margin: .25rem 0 1.25rem }} a {{ color: #2459c4 }}
  .row {{ display: grid; grid-template-columns: 24rem 1fr 4.5rem; align-items: center; border-top: 1px solid #eceff3 }}
  .row:hover {{ background: #f6f8fb }}
  .name {{ padding: .3rem 0; white-space: nowrap; overflow: hidden; text-overflow: ellipsis }}
  .name small {{ color: #5b6675; margin-left: .4rem }}
  .service {{ font-size: .7rem; color: #5b6675; border: 1px solid #d5dbe3; border-radius: 3px; padding: 0 .25rem }}
  .lane {{ position: relative; height: 1.1rem }}
  .bar {{ position: absolute; height: 100%; border-radius: 3px; min-width: 3px }}
  .took {{ text-align: right; color: #5b6675; font-variant-numeric: tabular-nums }}
  .wrong {{ color: #b3261e }} .legend b {{ display: inline-block; width: .7rem; height: .7rem; border-radius: 2px;
  margin: 0 .3rem 0 1rem }}
</style>
<h1>Trace {short}…</h1>
<p>{count} spans in {services}, {total} <span class="legend">{legend}</span></p>
{rows}
<p style="margin-top: 1.25rem"><a href="/">Order something</a> · <a href="/jobs/">All jobs</a></p></html>"""


def page(trace_id: str, bars: list[Bar]) -> str:
    begin, end = min(bar.begin for bar in bars), max(bar.end for bar in bars)
    legend = "".join(f'<b style="background: {colour}"></b>{kind or "own"}' for kind, colour in COLOURS.items())
    return PAGE.format(
        short=escape(trace_id[:8]), count=len(bars), total=duration(end - begin), legend=legend,
        services=escape(" and ".join(sorted({bar.service for bar in bars}))),
        rows="\n".join(row(bar, depth, begin, end - begin) for bar, depth in nested(bars)),
    )  # fmt: skip


def nested(bars: list[Bar], parent: str = "", depth: int = 0) -> list[tuple[Bar, int]]:
    """Each span below its parent; one whose parent is not known here is at the top."""
    known = {bar.id for bar in bars}
    found: list[tuple[Bar, int]] = []
    for bar in bars:
        if (bar.parent if bar.parent in known else "") == parent:
            found += [(bar, depth), *nested(bars, bar.id, depth + 1)]
    return found


def row(bar: Bar, depth: int, begin: int, total: int) -> str:
    kind = str(bar.attributes.get("messaging.operation.type", ""))
    left, width = 100 * (bar.begin - begin) / max(total, 1), 100 * (bar.end - bar.begin) / max(total, 1)
    task = str(bar.attributes.get("windlass.task", "")).rpartition(".")[2]
    outcome = str(bar.attributes.get("windlass.outcome", ""))
    told = " ".join(filter(None, [task, outcome if outcome not in ("", "succeeded") else ""]))
    return (
        f'<div class="row" title="{escape(said(bar), quote=True)}">'
        f'<div class="name{" wrong" if bar.error else ""}" style="padding-left: {depth * 0.9:.1f}rem">'
        f'<span class="service">{escape(bar.service)}</span> {escape(bar.name)}<small>{escape(told)}</small></div>'
        f'<div class="lane"><div class="bar" style="left: {left:.2f}%; width: {width:.2f}%; '
        f'background: {"#d64545" if bar.error else COLOURS.get(kind, COLOURS[""])}"></div></div>'
        f'<div class="took">{duration(bar.end - bar.begin)}</div></div>'
    )


def said(bar: Bar) -> str:
    lines = [f"{name} = {value}" for name, value in bar.attributes.items()]
    return "\n".join([*([bar.error] if bar.error else []), *lines])


def duration(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e6:.1f} ms" if nanoseconds < 1e9 else f"{nanoseconds / 1e9:.2f} s"
