"""How training shows itself in a notebook, with a real kernel."""

import os
import re
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from small import small

pytest.importorskip("nbclient", reason="nbclient is not installed; `make test-tour` brings it.")

import kernels
import nbformat.v4 as nb
from processes import wait_for


def book(*cells: str) -> Any:
    return nb.new_notebook(cells=[nb.new_code_cell(cell) for cell in cells])


def call(more: str = "", **changes: Any) -> str:
    settings = {"workers": 0, **small("uniform", eval_every_env_steps=100), **changes}
    return f"lfiw.train('Pendulum-v1', 'sac', 'uniform', seeds=(0, 1), **{settings}{more})"


def test_a_training_leaves_one_table_as_it_was_last(tmp_path: Path) -> None:
    notebook = book("import lfiw", f"training = {call()}", f"{call(label='again', quiet=True)};")
    client = kernels.client_of(notebook, tmp_path)
    client.execute()
    _, shown, quiet = (cell.outputs for cell in notebook.cells)
    tables = [one.data["text/plain"] for one in shown if one.output_type == "display_data"]
    (table,) = tables
    assert re.search(r"sac-uniform +2 +600 / 600 .+ 600 +done", table)
    assert "<pre" in shown[-1].data["text/html"] and "600 / 600" in shown[-1].data["text/html"]
    assert {one.name for one in shown if one.output_type == "stream"} == {"stdout"}
    assert client.updates
    assert quiet == []


def test_an_interrupt_saves_and_the_kernel_lives_on(tmp_path: Path) -> None:
    """Of the front end, which interrupts the workers too; and two of an impatient user."""
    endless = {"env_steps": 10**7, "workers": 1}
    notebook = book(
        "import signal, lfiw\nkept = 'still there:'",
        call(**endless),
        "def twice(evaluation):\n    [signal.raise_signal(signal.SIGINT) for _ in range(2)]",
        call(", on_evaluation=twice", label="again", **endless),
        "print(kept, lfiw.load_policy('runs/Pendulum-v1/sac-uniform').scale.high)",
    )
    client = kernels.client_of(notebook, tmp_path)
    client.allow_errors = True

    def interrupt() -> None:
        log = tmp_path / "runs" / "Pendulum-v1" / "sac-uniform" / "metrics.jsonl"
        wait_for(lambda: log.is_file() and '"eval"' in log.read_text())
        os.killpg(client.km.provisioner.process.pid, signal.SIGINT)

    user = threading.Thread(target=interrupt)
    user.start()
    client.execute()
    user.join()
    _, once, _, twice, last = (cell.outputs for cell in notebook.cells)
    for outputs, label in ((once, ""), (twice, "-again")):
        (table,) = (one.data["text/plain"] for one in outputs if one.output_type == "display_data")
        assert "stopped" in table
        said = "".join(one.text for one in outputs if one.output_type == "stream")
        assert said.count("Stopping: waiting for") == 1
        (error,) = (one for one in outputs if one.output_type == "error")
        assert error.ename == "KeyboardInterrupt"
        assert error.evalue == f"`lfiw resume runs/Pendulum-v1/sac-uniform{label}` goes on"
    assert [one.text for one in last] == ["still there: [2.]\n"]
