"""A table, as HTML and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

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
    title: str
    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]
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

    def markdown(self) -> str:
        header = tuple(_markdown_cell(Text(words)) for words in self.header)
        lines = [header, ("---",) * len(header), *(map(_markdown_cell, row) for row in self.rows)]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return f"**{self.title}** {self.caption}\n\n{table}\n"


def _html_row(row: Sequence[Text]) -> str:
    first, *rest = row
    cells = [f'<th scope="row">{escape(first.words)}</th>']
    for text in rest:
        words = escape(text.words)
        mark = f'<span class="best" title="highest mean"> {BEST}</span>' if text.best else ""
        words = f"<strong>{words}</strong>{mark}" if text.best else words
        note = f"<small>{escape(text.note)}</small>" if text.note else ""
        empty = ' class="empty"' if text.words in (NOT_RUN, NOT_PLANNED) else ""
        cells.append(f"<td{empty}>{words}{note}</td>")
    return "".join(cells)


def _markdown_cell(text: Text) -> str:
    words = text.words.replace("|", "\\|").replace("<", "&lt;")
    words = f"**{words}** {BEST}" if text.best else words
    return f"{words} ({text.note})" if text.note else words


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
