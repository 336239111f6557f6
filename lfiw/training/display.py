"""Showing progress: a live table on a terminal, one that is updated in place in a notebook, plain
lines elsewhere."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from rich.console import Console
from rich.live import Live

from lfiw.machine import in_notebook
from lfiw.training.progress import (
    WITH_UPDATES,
    Progress,
    Rate,
    View,
    live_table,
    return_text,
    stopping_text,
    troubles,
)
from lfiw.wording import duration

REFRESH_SECONDS = 0.25
# The colours are those of the page, light or dark; columns need a font of equal widths.
HTML = (
    '<pre style="margin: 0; white-space: pre; overflow-x: auto; line-height: normal; font-family: '
    "Menlo, Consolas, 'DejaVu Sans Mono', monospace\">{code}</pre>"
)

# Of a console, so that it writes text whatever it finds around it.
TEXT: dict[str, Any] = {"force_jupyter": False, "force_terminal": False, "markup": False}

Show = Callable[[View], None]


def message_console(quiet: bool = False) -> Console:
    """For messages and progress: standard error, as results go to standard output. A notebook marks
    standard error as trouble, and rich makes a display of each line there: so both are avoided."""
    if in_notebook():
        return Console(quiet=quiet, file=sys.stdout, **TEXT)
    return Console(quiet=quiet, stderr=True, markup=False)


def show_progress(
    title: Callable[[], str],
    methods: Sequence[Progress],
    running: Callable[[], bool],
    console: Console,
    stopping: Callable[[], bool] = lambda: False,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Show the methods until `running` says no; called in the main thread, which does something
    else during a `pause`."""
    rate = Rate(methods)
    notice = StopNotice(stopping, methods, console)
    with display_on(console, methods) as show:
        while True:
            alive = running()
            notice.look()
            print_warnings(methods, console)
            speed, left = rate.read()
            show(View(title(), methods, speed, left if alive else None))
            if not alive:
                return
            pause(REFRESH_SECONDS)


def display_on(console: Console, methods: Sequence[Progress]) -> AbstractContextManager[Show]:
    if in_notebook() and not console.quiet:
        return notebook_table()
    return terminal_table(console) if console.is_terminal else lines(console, methods)


@contextmanager
def terminal_table(console: Console) -> Iterator[Show]:
    with Live(console=console, refresh_per_second=1 / REFRESH_SECONDS) as live:
        yield lambda view: live.update(live_table(view, console.width))


@contextmanager
def notebook_table() -> Iterator[Show]:
    """One output of the cell, which stays with the notebook as it was last."""
    from IPython.display import display

    handle, shown = None, None

    def show(view: View) -> None:
        nonlocal handle, shown
        if (bundle := rendered(view)) == shown:
            return
        shown = bundle
        if handle is None:
            handle = display(bundle, raw=True, display_id=True)
        else:
            handle.update(bundle, raw=True)

    yield show


def rendered(view: View) -> dict[str, str]:
    """The table by the types that a front end may choose from."""
    paper = Console(record=True, file=io.StringIO(), width=WITH_UPDATES, **TEXT)
    paper.print(live_table(view))
    return {
        "text/html": paper.export_html(code_format=HTML, inline_styles=True, clear=False),
        "text/plain": paper.export_text(),
    }


@contextmanager
def lines(console: Console, methods: Sequence[Progress]) -> Iterator[Show]:
    """One for each evaluation. What is there before a method trains is the log of a run that goes
    on, of which the newest is enough."""

    def all_but_newest(method: Progress) -> int:
        return max(0, len(method.evaluations) - 1)

    printed = {id(method): all_but_newest(method) for method in methods}

    def show(view: View) -> None:
        pace = f", {view.rate:,.0f} steps/s" if view.rate else ""
        remaining = f", {duration(view.left)} left" if view.left is not None else ""
        for method in view.methods:
            if method.state == "starting":  # its log is being read
                printed[id(method)] = all_but_newest(method)
                continue
            first = printed[id(method)]
            for evaluation in method.evaluations[first:]:
                console.print(
                    f"{method.name}: {evaluation.env_steps:,} of {method.total_env_steps:,} steps, "
                    f"return {return_text(method, evaluation)}{troubles(method)}{pace}{remaining}",
                    highlight=False,
                    soft_wrap=True,
                )
                printed[id(method)] = first = first + 1

    yield show


class StopNotice:
    """Says once that training stops."""

    def __init__(
        self, stopping: Callable[[], bool], methods: Sequence[Progress], console: Console
    ) -> None:
        self._stopping, self._methods, self._console = stopping, methods, console
        self._said = False

    def look(self) -> None:
        if self._stopping() and not self._said:
            self._said = True
            way_out = "restarting the kernel" if in_notebook() else "a second Ctrl-C"
            text = stopping_text(self._methods, way_out)
            self._console.print(text, highlight=False, soft_wrap=True)


def print_warnings(methods: Sequence[Progress], console: Console) -> None:
    """Those that are new, above the live table of a terminal."""
    for method in methods:
        while method.warnings:
            console.print(method.warnings.pop(0), highlight=False, soft_wrap=True)
