"""The way of the data, as an SVG: from the observed process to the files and the summary."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

WIDTH = 960
HEIGHT = 330
BOX_HEIGHT = 56

FONT = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'Noto Sans CJK SC', 'PingFang SC', sans-serif"


@dataclass(frozen=True)
class Words:
    """The texts of the picture in one language."""

    observed: str
    observed_note: str
    afterwards: str
    afterwards_note: str
    allocator: tuple[str, str]
    operators: tuple[str, str]
    functions: tuple[str, str]
    log: tuple[str, str]
    tables: tuple[str, str]
    summary: tuple[str, str]
    dumps: tuple[str, str]


ENGLISH = Words(
    observed="the observed program",
    observed_note="nothing is analysed here",
    afterwards="afterwards, in msmemscope",
    afterwards_note="nothing is observed here",
    allocator=("allocator", "every block, its stacks"),
    operators=("operators", "launch, reads, writes"),
    functions=("functions", "Python calls, steps"),
    log=("event log", "mmap-ed, survives kill -9"),
    tables=("tables", "columnar, streamed"),
    summary=("summary", "peak, leftovers"),
    dumps=("dump files", "CSV, SQLite"),
)

CHINESE = Words(
    observed="被观测的程序",
    observed_note="这里不做任何分析",
    afterwards="结束后，在 msmemscope 中",
    afterwards_note="这里不做任何采集",
    allocator=("分配器", "每个内存块及其调用栈"),
    operators=("算子", "下发、读、写"),
    functions=("函数", "Python 调用、step"),
    log=("事件日志", "mmap 写入，kill -9 不丢"),
    tables=("数据表", "列式、流式处理"),
    summary=("摘要", "峰值与未释放"),
    dumps=("落盘文件", "CSV、SQLite"),
)


def picture(words: Words) -> str:
    """The picture as SVG text."""
    shapes = [
        _panel(20, 22, 300, 290, words.observed, words.observed_note),
        _panel(590, 22, 350, 290, words.afterwards, words.afterwards_note),
        _box(45, 72, 250, words.allocator, "#e8f1fb", "#2f6fb3"),
        _box(45, 142, 250, words.operators, "#e8f1fb", "#2f6fb3"),
        _box(45, 212, 250, words.functions, "#e8f1fb", "#2f6fb3"),
        _box(360, 142, 190, words.log, "#fff4de", "#b97a10"),
        _box(640, 92, 250, words.tables, "#e9f6ec", "#2d8a4e"),
        _box(605, 202, 155, words.summary, "#e9f6ec", "#2d8a4e"),
        _box(770, 202, 155, words.dumps, "#e9f6ec", "#2d8a4e"),
        *(_arrow(295, y + BOX_HEIGHT // 2, 358, end) for y, end in ((72, 162), (142, 170), (212, 178))),
        _arrow(550, 170, 638, 125),
        _arrow(725, 148, 690, 200),
        _arrow(805, 148, 840, 200),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" font-family="{FONT}">\n'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#555"/></marker></defs>\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="#ffffff"/>\n' + "\n".join(shapes) + "\n</svg>\n"
    )


def _panel(x: int, y: int, width: int, height: int, title: str, note: str) -> str:
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="10" fill="#fafafa" stroke="#bbb" '
        'stroke-dasharray="5 4"/>\n'
        f'<text x="{x + 16}" y="{y + 28}" font-size="14.5" font-weight="600" fill="#333">{escape(title)}</text>\n'
        f'<text x="{x + 16}" y="{y + height - 14}" font-size="12" fill="#777">{escape(note)}</text>'
    )


def _box(x: int, y: int, width: int, texts: tuple[str, str], fill: str, stroke: str) -> str:
    middle = x + width // 2
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{BOX_HEIGHT}" rx="7" fill="{fill}" stroke="{stroke}"/>\n'
        f'<text x="{middle}" y="{y + 24}" font-size="15" font-weight="600" fill="#222" text-anchor="middle">'
        f"{escape(texts[0])}</text>\n"
        f'<text x="{middle}" y="{y + 43}" font-size="12.5" fill="#555" text-anchor="middle">{escape(texts[1])}</text>'
    )


def _arrow(x1: int, y1: int, x2: int, y2: int) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#555" stroke-width="1.6" marker-end="url(#tip)"/>'
