"""The anatomy of a source as SVG, alone or in an HTML page that zooms."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from arrowipc.arguments import printable
from arrowipc.cli.terminal import size_text
from arrowipc.values.preview import shorten

if TYPE_CHECKING:
    from arrowipc.cli.layout import Anatomy, Part, Piece

__all__ = ["as_html", "as_svg"]

WIDTH, MARGIN = 1200, 24
STRIP, BAR, LINE = 34, 30, 20
#: Widths of characters of the labels, about.
CHARACTER, BOLD = 6.4, 6.9
#: Bytes that nobody could see or hit get this width.
LEAST = 0.8

COLOURS = {
    "Schema": "#7c5cbf",
    "DictionaryBatch": "#c77d0a",
    "RecordBatch": "#2f7ed8",
    "magic": "#555b66",
    "end marker": "#555b66",
    "footer": "#7c5cbf",
    "several": "#8fa3bd",
    "metadata": "#7c5cbf",
    "validity": "#3f9b63",
    "offsets": "#2aa3b8",
    "sizes": "#2aa3b8",
    "views": "#2aa3b8",
    "type codes": "#2aa3b8",
    "indices": "#c77d0a",
    "data": "#2f7ed8",
    "body": "#2f7ed8",
    "padding": "#d5d9e0",
}
PIECE_LEGEND = ("Schema", "DictionaryBatch", "RecordBatch", "magic", "footer")
PART_LEGEND = ("metadata", "validity", "offsets", "indices", "data", "padding")

STYLE = (
    "text{font:11px ui-sans-serif,system-ui,sans-serif;fill:#222831}"
    ".h{font-size:17px;font-weight:600}.t{font-weight:600}.d{fill:#6b7480}.w{fill:#fff}"
    "rect:hover{stroke:#111;stroke-width:1}"
)
#: Wheel: zoom about the pointer. Drag: move. Double click: all of it.
SCRIPT = """
(function(){
var s=document.querySelector('svg'),v=s.viewBox.baseVal,all=[v.x,v.y,v.width,v.height],from=null;
function set(x,y,w,h){v.x=x;v.y=y;v.width=w;v.height=h;}
function at(e){var p=new DOMPoint(e.clientX,e.clientY).matrixTransform(s.getScreenCTM().inverse());return p;}
s.addEventListener('wheel',function(e){e.preventDefault();var p=at(e),f=Math.pow(1.002,e.deltaY);
f=Math.max(Math.min(f,all[2]/v.width*4),1e-6*all[2]/v.width);
set(p.x-(p.x-v.x)*f,p.y-(p.y-v.y)*f,v.width*f,v.height*f);},{passive:false});
s.addEventListener('pointerdown',function(e){from=at(e);s.setPointerCapture(e.pointerId);});
s.addEventListener('pointermove',function(e){if(!from)return;var p=at(e);
set(v.x+from.x-p.x,v.y+from.y-p.y,v.width,v.height);});
s.addEventListener('pointerup',function(){from=null;});
s.addEventListener('dblclick',function(){set.apply(null,all);});
})();
"""


def as_html(found: Anatomy) -> str:
    """Return the picture in a page that needs nothing else."""
    name = escape(printable(found.name))
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}: layout</title><style>'
        "html,body{margin:0;background:#fff}svg{display:block;width:100vw;height:auto;min-height:100vh;cursor:grab;"
        "touch-action:none}#help{position:fixed;right:12px;bottom:8px;font:12px sans-serif;color:#6b7480}"
        f"</style></head><body>{as_svg(found)}"
        '<div id="help">wheel: zoom; drag: move; double click: everything; point at a box: its bytes</div>'
        f"<script>{SCRIPT}</script></body></html>\n"
    )


def as_svg(found: Anatomy) -> str:
    """Return the picture."""
    canvas = _Canvas()
    canvas.text(MARGIN, 32, f"{shorten(printable(found.name), 90)}: Arrow IPC {found.format}", "h")
    canvas.text(MARGIN, 52, found.title, "d")
    y = canvas.strip(found, 70)
    for i, piece in enumerate(found.messages):
        if found.omitted and i == found.omitted_at:
            y += 8
            canvas.text(MARGIN, y + 12, f"... {found.omitted:,} more messages ...", "d")
            y += 26
        y = canvas.message(piece, y)
    body = "".join(canvas.out)
    height = y + MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" '
        f'height="{height:.0f}" preserveAspectRatio="xMidYMin"><style>{STYLE}</style>'
        f'<rect width="100%" height="100%" fill="#fff" pointer-events="none"/>{body}</svg>'
    )


class _Canvas:
    """Draws from top to bottom; each step returns where the next one begins."""

    def __init__(self) -> None:
        self.out: list[str] = []

    def text(self, x: float, y: float, words: str, kind: str = "") -> None:
        style = f' class="{kind}"' if kind else ""
        self.out.append(f'<text x="{x:.5g}" y="{y:.6g}"{style}>{escape(words)}</text>')

    def box(self, x: float, y: float, width: float, height: float, colour: str, words: str) -> None:
        title = f"<title>{escape(words)}</title>"
        self.out.append(
            f'<rect x="{x:.6g}" y="{y:.6g}" width="{max(width, LEAST):.4g}" height="{height:.4g}" '
            f'fill="{colour}">{title}</rect>'
        )

    def label(self, x: float, y: float, width: float, words: str, kind: str) -> None:
        """Write words where they fit."""
        room = int((width - 6) / CHARACTER)
        if len(words) <= room or room >= 6:
            self.text(x + 4, y, shorten(words, room), kind)

    def _sized(self, x: float, y: float, width: float, words: str, size: int, kind: str) -> None:
        """Write what a box is, and how large, where both fit."""
        both = f"{words} {size_text(size)}"
        self.label(x, y, width, both if len(both) * CHARACTER + 6 < width else words, kind)

    def legend(self, y: float, kinds: tuple[str, ...]) -> None:
        x = float(MARGIN)
        for kind in kinds:
            self.box(x, y - 9, 10, 10, COLOURS[kind], kind)
            self.text(x + 14, y, kind, "d")
            x += 30 + CHARACTER * len(kind)

    def strip(self, found: Anatomy, y: float) -> float:
        """Draw the whole source to scale."""
        self.text(MARGIN, y + 12, "The whole, to scale", "t")
        self.legend(y + 30, PIECE_LEGEND)
        scale = (WIDTH - 2 * MARGIN) / max(found.size, 1)
        for piece in found.strip:
            x, width = MARGIN + piece.offset * scale, piece.length * scale
            where = f"bytes {piece.offset:,}..{piece.offset + piece.length:,}"
            words = f"{piece.title}\n{piece.length:,} bytes\n{where}"
            gap = 0.6 if width > 4 else 0
            self.box(x, y + 40, width - gap, STRIP, _colour(piece.kind), words)
            if piece.kind not in ("several",):
                self._sized(x, y + 40 + STRIP / 2 + 4, width, piece.kind, piece.length, "w")
        self.text(MARGIN, y + 56 + STRIP, "byte 0", "d")
        end = f"{found.size:,}"
        self.text(WIDTH - MARGIN - CHARACTER * len(end), y + 56 + STRIP, end, "d")
        self.text(MARGIN, y + 92 + STRIP, "Messages, each to its own scale", "t")
        self.legend(y + 110 + STRIP, PART_LEGEND)
        self.text(500, y + 110 + STRIP, "the light part of a box: what compression saved", "d")
        return y + 128 + STRIP

    def message(self, piece: Piece, y: float) -> float:
        """Draw one message: a bar of its parts, and below it the names of its columns."""
        self.text(MARGIN, y + 12, piece.title, "t")
        sizes = f"at byte {piece.offset:,}, {size_text(piece.length)}"
        self.text(MARGIN + BOLD * len(piece.title) + 18, y + 12, sizes, "d")
        top = y + LINE
        spans: dict[int, tuple[float, float]] = {}
        for part, x, width in _placed(piece):
            gap = 0.6 if width > 4 else 0
            self.box(x, top, width - gap, BAR, _colour(part.role), part.words)
            if part.raw_length and part.raw_length > part.length + 8:
                # What compression saved, as the light part at the top.
                share = 1 - part.length / part.raw_length
                light = f'<rect x="{x:.6g}" y="{top:.6g}" width="{max(width - gap, LEAST):.4g}" '
                self.out.append(
                    light + f'height="{BAR * share:.4g}" fill="#fff" fill-opacity=".45" pointer-events="none"/>'
                )
            if part.role != "padding":
                # Text on what is mostly the light part has to be dark.
                mostly_light = (part.raw_length or 0) > 2 * part.length
                self._sized(x, top + BAR / 2 + 4, width, part.role, part.length, "" if mostly_light else "w")
            if part.column is not None and part.column >= 0:
                low, high = spans.get(part.column, (x, x + width))
                spans[part.column] = min(low, x), max(high, x + width)
        self._columns(piece, spans, top + BAR)
        return top + BAR + (34 if spans else 16)

    def _columns(self, piece: Piece, spans: dict[int, tuple[float, float]], y: float) -> None:
        """Brackets below the bar with the names of columns."""
        for column, (low, high) in spans.items():
            if column < len(piece.columns) and high - low > 2:
                self.out.append(
                    f'<path d="M{low + 0.5:.6g} {y + 3:.6g}v3H{high - 1:.6g}v-3" fill="none" '
                    'stroke="#9aa3ae" stroke-width=".6"/>'
                )
                self.label(low - 4, y + 18, high - low, piece.columns[column] or '""', "d")


def _colour(kind: str) -> str:
    return COLOURS.get(kind, COLOURS["several"])


def _placed(piece: Piece) -> Iterator[tuple[Part, float, float]]:
    """The parts of a message with their places, to scale."""
    room = WIDTH - 2 * MARGIN
    total = sum([part.length for part in piece.parts]) or 1
    x = float(MARGIN)
    for part in piece.parts:
        width = part.length / total * room
        yield part, x, width
        x += width
