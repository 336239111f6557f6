"""A table: as HTML, as Markdown and for the console."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

import rich.table
from rich import box, markup

from lfiw.wording import one_line

NOT_RUN, NOT_PLANNED = "not run", "–"
BEST = "★"


@dataclass(frozen=True)
class Text:
    """The content of a cell; `note` is set small, below."""

    words: str
    note: str = ""
    best: bool = False


@dataclass(frozen=True)
class Table:
    header: Sequence[str]
    rows: Sequence[Sequence[Text | str]]
    title: str = ""
    caption: str = ""
    starts: frozenset[int] = frozenset()  # rows that a line sets off from those above

    def html(self) -> str:
        head = "".join(f'<th scope="col">{escape(words)}</th>' for words in self.header)
        body = "".join(
            f'<tr class="start">{_html_row(row)}</tr>'
            if index in self.starts
            else f"<tr>{_html_row(row)}</tr>"
            for index, row in enumerate(self.rows)
        )
        return (
            f"<figure><figcaption><strong>{escape(self.title)}</strong> {escape(self.caption)}"
            f'</figcaption><div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div></figure>"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return self.html()

    def markdown(self) -> str:
        lines = [self.header, ("---",) * len(self.header), *self.rows]
        table = "".join(f"| {' | '.join(map(_markdown_cell, line))} |\n" for line in lines)
        title = f"**{_markdown(self.title)}** {_markdown(self.caption)}\n\n" if self.title else ""
        return title + table

    def __rich__(self) -> rich.table.Table:
        """What a console prints."""
        title = markup.escape(self.title)
        table = rich.table.Table(
            title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False
        )
        for index, words in enumerate(self.header):
            justify: Literal["left", "right"] = "right" if index else "left"
            table.add_column(markup.escape(words), justify=justify, no_wrap=True)
        for row in self.rows:
            table.add_row(*(markup.escape(_text(cell).words) for cell in row))
        return table


def _text(cell: Text | str) -> Text:
    return Text(cell) if isinstance(cell, str) else cell


def _html_row(row: Sequence[Text | str]) -> str:
    first, *rest = map(_text, row)
    cells = [f'<th scope="row">{escape(first.words)}</th>']
    for text in rest:
        words = escape(text.words)
        mark = f'<span class="best" title="best"> {BEST}</span>' if text.best else ""
        words = f"<strong>{words}</strong>{mark}" if text.best else words
        note = f"<small>{escape(text.note)}</small>" if text.note else ""
        empty = ' class="empty"' if text.words in (NOT_RUN, NOT_PLANNED) else ""
        cells.append(f"<td{empty}>{words}{note}</td>")
    return "".join(cells)


def _markdown_cell(cell: Text | str) -> str:
    text = _text(cell)
    words = _markdown(text.words)
    words = f"**{words}** {BEST}" if text.best else words
    return f"{words} ({_markdown(text.note)})" if text.note else words


def _markdown(words: str) -> str:
    """Without what would start another cell or line, HTML, code, a link or a picture."""
    return re.sub(r"[\\`*\[|]", r"\\\g<0>", escape(one_line(words), quote=False))
