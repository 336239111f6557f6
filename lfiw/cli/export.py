"""The command that writes policies for other programs: the options are the fields."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from rich.console import Console

from lfiw.cli.options import Command, Folder, TrustEnv, unset


@dataclass
class Export(Command):
    """Write a trained policy for other programs, or as a folder to share."""

    folder: Folder
    """A method folder."""
    to: Literal["onnx", "torch", "numpy", "hub-folder"]
    """onnx, torch (a .pt2 file) and numpy (.npz) are one file each; hub-folder has the policy with
    its card, curves, evaluation and video."""
    seed: int = 0
    """The training seed whose policy it is."""
    which: Literal["latest", "best"] = "latest"
    """As for evaluate."""
    out: Annotated[Path | None, unset("PATH", "policy.SUFFIX, or ENV-METHOD")] = None
    """The file or the new folder."""
    episodes: int = 10
    """Episodes that the card of a hub-folder sums up."""
    trust_env: TrustEnv = False

    def run(self, console: Console) -> None:
        from lfiw.exporting.formats import export
        from lfiw.exporting.hub import export_hub_folder

        if self.to == "hub-folder":
            path = export_hub_folder(
                self.folder,
                self.out,
                self.seed,
                self.which,
                self.episodes,
                self.trust_env,
                self.note,
            )
        else:
            path = export(self.folder, self.to, self.out, self.seed, self.which)
        console.print(str(path), soft_wrap=True, highlight=False)
