"""Notebooks in a fresh kernel; as a program, executes one and stores it with its outputs."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

SECONDS = 3600  # for a cell, however slow or busy the machine is


class Client(NotebookClient):
    """Counts how often an output that is there was updated."""

    updates = 0

    def process_message(self, msg: dict[str, Any], cell: NotebookNode, index: int) -> Any:
        self.updates += msg["msg_type"] == "update_display_data"
        return super().process_message(msg, cell, index)


def client_of(notebook: NotebookNode, folder: Path) -> Client:
    """Its kernel works in the folder. Text is one output, however slowly it was printed."""
    options = {"timeout": SECONDS, "kernel_name": "python3", "coalesce_streams": True}
    return Client(notebook, resources={"metadata": {"path": str(folder)}}, **options)


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def execute(path: Path, folder: Path) -> tuple[NotebookNode, int]:
    """The executed notebook, and the number of updates; raises for the first cell that fails."""
    notebook = read(path)
    client = client_of(notebook, folder)
    client.execute()
    return notebook, client.updates


def outputs(notebook: NotebookNode) -> list[Any]:
    """Of all cells in turn."""
    code = (cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    return [output for cell in code for output in cell["outputs"]]


def cleaned(notebook: NotebookNode) -> NotebookNode:
    """Without what says where and when it was executed."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in notebook.cells:
        cell.metadata = {}
    return notebook


if __name__ == "__main__":
    path = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        notebook, _ = execute(path, Path(folder))
    nbformat.write(cleaned(notebook), path)
