"""`lfiw track`: the options are the fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.console import Console

from lfiw.cli.options import TRACK, Command, Folders
from lfiw.errors import InputError, RunError
from lfiw.tracking import tracker_names


@dataclass
class Track(Command):
    """Send runs to experiment trackers, trained or in training: what they have not got yet."""

    folders: Folders
    """Method folders, or folders that hold some."""
    to: Annotated[str, tyro.conf.arg(metavar="NAME,...", help=TRACK)]

    def run(self, console: Console) -> None:
        from lfiw.runs.layout import find_folders
        from lfiw.tracking.beside import Tracking

        if not self.folders:
            raise InputError("Name at least one method folder.")
        names = tracker_names(self.to, "to")
        messages = Console(quiet=self.quiet, stderr=True, markup=False)
        with Tracking(
            names,
            find_folders(self.folders),
            lambda line: messages.print(line, highlight=False, soft_wrap=True),
        ) as tracking:
            pass  # it ends when all is sent
        if tracking.incomplete:
            raise RunError(f"Not everything was sent to {' and '.join(tracking.incomplete)}.")
