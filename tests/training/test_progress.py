import io
import re
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from small import small

from lfiw.learning.team import Team
from lfiw.runs.layout import short_names
from lfiw.training import train
from lfiw.training.display import message_console, show_progress
from lfiw.training.progress import Progress, View, live_table, return_text
from lfiw.training.side_by_side import stop_on_signal
from lfiw.training.trainer import Trainer
from lfiw.wording import duration


def training(**changes: object) -> Progress:
    progress = Progress("sac-lfiw", total_env_steps=2000, num_runs=2)
    for name, value in changes.items():
        setattr(progress, name, value)
    return progress


def evaluate(progress: Progress, env_steps: int, *returns: float) -> None:
    for seed, value in enumerate(returns):
        row = {"kind": "eval", "seed": seed, "env_steps": env_steps, "return_mean": value}
        progress.on_row(row)


def turns(count: int, *actions: Callable[[], object]) -> Callable[[], bool]:
    """Says yes `count` times, doing something each time."""
    todo = list(actions)
    left = iter(range(count))

    def running() -> bool:
        if todo:
            todo.pop(0)()
        return next(left, None) is not None

    return running


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.9, "59 s"), (60, "1 min 00 s"), (3599, "59 min 59 s"), (3720, "1 h 02 min")],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def shown(progress: Progress) -> list[tuple[int, str]]:
    return [(one.env_steps, return_text(progress, one)) for one in progress.evaluations]


def test_returns_of_different_evaluations_are_never_mixed() -> None:
    progress = training()
    evaluate(progress, 500, 1000.0)
    assert shown(progress) == []
    evaluate(progress, 500, 1000.0, 3000.0)
    evaluate(progress, 1000, 5000.0)
    assert shown(progress) == [(500, "2,000 ± 1,414")]  # 1000 sqrt(2)
    progress.on_row({"kind": "failed eval", "seed": 1, "env_steps": 1000, "faults": ["a"]})
    assert shown(progress)[1:] == [(1000, "5,000")]
    evaluate(progress, 1500, 7000.0)
    progress.on_row({"kind": "stopped", "seed": 1, "env_steps": 1500, "reason": "b"})
    assert shown(progress) == [(500, "1,000"), (1000, "5,000"), (1500, "7,000")]
    assert progress.under_way == {}


def test_plain_lines_where_there_is_no_terminal() -> None:
    """One line when all seeds have had an evaluation, and none twice. Of evaluations before the
    run went on, the newest."""
    progress = training(state="training")
    evaluate(progress, 400, 8.0, 8.0)
    evaluate(progress, 600, 9.0, 9.0)
    out = io.StringIO()
    running = turns(
        3,
        lambda: evaluate(progress, 1000, 1.0),
        lambda: evaluate(progress, 1000, 1.0, 3.0),
        lambda: None,
        lambda: (evaluate(progress, 1500, 4.0, 4.0), evaluate(progress, 2000, 5.0, 5.0)),
    )
    show_progress(lambda: "Ant-v5", [progress], running, Console(file=out))
    assert out.getvalue().splitlines() == [
        "sac-lfiw: 600 of 2,000 steps, return 9 ± 0",
        "sac-lfiw: 1,000 of 2,000 steps, return 2 ± 1",
        "sac-lfiw: 1,500 of 2,000 steps, return 4 ± 0",
        "sac-lfiw: 2,000 of 2,000 steps, return 5 ± 0",
    ]


def test_a_fresh_run_prints_each_evaluation_however_fast_it_is() -> None:
    """Three between two looks, the first of which found none."""
    progress = training()

    def train() -> None:
        progress.state = "training"
        for env_steps in (500, 1000, 1500):
            evaluate(progress, env_steps, 1.0, 3.0)

    out = io.StringIO()
    show_progress(lambda: "", [progress], turns(2, lambda: None, train), Console(file=out))
    assert [line.partition(" of ")[0] for line in out.getvalue().splitlines()] == [
        *["sac-lfiw: 500", "sac-lfiw: 1,000", "sac-lfiw: 1,500"]
    ]


def test_a_run_that_goes_on_repeats_its_newest_evaluation_alone() -> None:
    """Though its log is read in two looks, before it trains: of 300, 600 and 900 the last."""
    progress = training()

    def train() -> None:
        progress.state = "training"
        evaluate(progress, 1200, 1.0, 3.0)
        evaluate(progress, 1500, 1.0, 3.0)

    running = turns(
        3,
        lambda: evaluate(progress, 300, 1.0, 3.0),
        lambda: (evaluate(progress, 600, 1.0, 3.0), evaluate(progress, 900, 1.0, 3.0)),
        train,
    )
    out = io.StringIO()
    show_progress(lambda: "", [progress], running, Console(file=out))
    assert [line.partition(" of ")[0] for line in out.getvalue().splitlines()] == [
        *["sac-lfiw: 900", "sac-lfiw: 1,200", "sac-lfiw: 1,500"]
    ]


@pytest.mark.parametrize(
    ("folders", "names"),
    [
        (["runs/Ant-v5/sac-lfiw"], ["sac-lfiw"]),
        (["runs/Ant-v5/sac-lfiw", "runs/Ant-v5/td3-per"], ["sac-lfiw", "td3-per"]),
        (["runs/Ant-v5/sac-lfiw", "runs/B/td3-per"], ["Ant-v5/sac-lfiw", "B/td3-per"]),
        (["one/B/sac-lfiw", "./two/B/sac-lfiw"], ["one/B/sac-lfiw", "two/B/sac-lfiw"]),
        (["B/sac-per", "B/sac-per/added/seed-5"], ["sac-per", "sac-per/added/seed-5"]),
    ],
)
def test_names_tell_folders_apart(folders: list[str], names: list[str]) -> None:
    assert short_names([Path(folder) for folder in folders]) == names
    absolute = [Path(folder).absolute() for folder in folders[:1]]
    assert short_names([*absolute, *map(Path, folders[1:])]) == names


def test_groups_of_one_name_are_told_apart() -> None:
    first, second = training(state="training"), training(state="training")
    out = io.StringIO()
    evaluations = (
        lambda: evaluate(first, 1000, 1.0, 3.0),
        lambda: evaluate(second, 1000, 5.0, 5.0),
    )
    running = turns(2, *evaluations)
    show_progress(lambda: "Ant-v5", [first, second], running, Console(file=out))
    assert [line.rpartition("return ")[2] for line in out.getvalue().splitlines()] == [
        "2 ± 1",
        "5 ± 0",
    ]


def test_live_table_on_a_terminal() -> None:
    progress = training(env_steps=1500, updates=500, state="training")
    evaluate(progress, 1000, 1.0, 3.0)
    console = Console(width=150, record=True, file=io.StringIO())
    console.print(live_table(View("Ant-v5", [progress], 321.0, 75.0)))
    text = console.export_text()
    for words in ("Ant-v5: 321 steps/s", "1 min 15 s left", "1,500 / 2,000", "2 ± 1", "training"):
        assert words in text
    out = io.StringIO()
    terminal = Console(file=out, force_terminal=True, width=150)
    show_progress(lambda: "Ant-v5", [progress], turns(1), terminal)
    assert "1,500 / 2,000" in out.getvalue()


def test_live_table_fits_80_columns() -> None:
    """With long names and large numbers, whatever goes wrong."""
    methods = []
    for name in ("HalfCheetah-v5/sac-lfiw", "HalfCheetah-v5/td3-uniform-learning_rate=0.0003"):
        progress = Progress(name, total_env_steps=10_000_000, num_runs=64)
        progress.env_steps, progress.updates, progress.state = 1_234_567, 1_229_567, "evaluating"
        for seed in range(64):
            row = {"kind": "eval", "seed": seed, "env_steps": 1_230_000}
            progress.on_row({**row, "return_mean": -12_345.0 - 100 * seed})
        methods.append(progress)
    methods[0].faults, methods[0].stopped = 12, [3]
    view = View("HalfCheetah-v5", methods, 12_345.0, 36_000.0)
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(live_table(view, console.width))
    text = console.export_text()
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    for words in ("1.235M / 10M", "-15,495 ± 1,862", "1.23M", "evaluating", "faults,", "10 h 00"):
        assert words in text
    wide = Console(width=120, record=True, file=io.StringIO())
    wide.print(live_table(view, wide.width))
    assert "updates" in wide.export_text() and "updates" not in text


@pytest.mark.parametrize("terminal", [True, False])
def test_signal_is_answered_at_once_with_what_is_waited_for(terminal: bool) -> None:
    """While a method compiles, say, and once only."""
    methods = [training(state="compiling"), training(state="training"), training(state="done")]
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=150)
    asked = turns(1)
    running, stopping = turns(4), lambda: not asked()
    show_progress(lambda: "Ant-v5", methods, running, console, stopping)
    sentence = (
        "Stopping: waiting for the compiler and the current call; a second Ctrl-C ends at once."
    )
    assert out.getvalue().count(sentence) == 1


class Kernel:
    """What IPython would show, without a kernel: the outputs of a cell and all that was in them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.outputs: list[list[dict[str, str]]] = []
        shell = SimpleNamespace(kernel=None)
        patch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
        patch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=self.display))

    def display(self, bundle: dict[str, str], raw: bool, display_id: bool) -> Any:
        assert raw and display_id
        self.outputs.append([bundle])
        return SimpleNamespace(update=lambda bundle, raw: self.outputs[0].append(bundle))


def test_a_notebook_has_one_table_that_is_updated(monkeypatch: pytest.MonkeyPatch) -> None:
    """And only where it changed: of five looks two see nothing new. Messages are plain text."""
    kernel = Kernel(monkeypatch)
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("FORCE_COLOR", "1")  # as kernels have it
    progress = training(env_steps=500, state="training")
    progress.warnings.append("Warning: [bold]its Q has grown.")
    running = turns(
        4,
        lambda: None,
        lambda: None,
        lambda: (evaluate(progress, 1000, 1.0, 3.0), setattr(progress, "env_steps", 1000)),
        lambda: None,
        lambda: setattr(progress, "state", "done"),
    )
    show_progress(lambda: "Ant-v5", [progress], running, message_console(), pause=lambda time: None)
    assert out.getvalue() == "Warning: [bold]its Q has grown.\n"
    (views,) = kernel.outputs
    texts = [view["text/plain"] for view in views]
    assert ["2 ± 1" in text for text in texts] == [False, True, True]
    assert ["done" in text for text in texts] == [False, False, True]
    for view in views:
        (html,) = re.findall(r"<pre .+?>(.+)</pre>", view["text/html"], re.DOTALL)
        assert re.sub("<.+?>", "", html) == view["text/plain"]
        assert "color" not in view["text/html"]  # that of the page, be it light or dark


def test_a_quiet_training_shows_nothing_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch)
    show_progress(lambda: "Ant-v5", [training()], turns(0), message_console(quiet=True))
    assert kernel.outputs == []


def test_a_second_interrupt_leaves_the_kernel_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has more than this training in it; the sentence says what does end it."""
    Kernel(monkeypatch)
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    stop = threading.Event()
    with stop_on_signal(stop):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    methods = [training(state="compiling")]
    show_progress(lambda: "Ant-v5", methods, turns(0), message_console(), stop.is_set)
    sentence = "Stopping: waiting for the compiler; restarting the kernel ends at once."
    assert out.getvalue().splitlines() == [sentence]


def test_ipython_on_a_terminal_is_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is a process that merely imported it."""
    for shell in (SimpleNamespace(), None):
        ipython = SimpleNamespace(get_ipython=lambda shell=shell: shell)
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        assert message_console().stderr


def test_methods_say_that_they_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the first call of updates alone, which takes long."""
    states: list[str] = []
    learn = Team.learn

    def watched(team: Team, *arguments: Any) -> None:
        states.append(trainers[0].entrants[0].progress.state)
        learn(team, *arguments)

    trainers: list[Trainer] = []
    begin = Trainer.run

    def run(trainer: Trainer, *arguments: Any) -> None:
        trainers.append(trainer)
        begin(trainer, *arguments)

    monkeypatch.setattr(Team, "learn", watched)
    monkeypatch.setattr(Trainer, "run", run)
    settings = small("uniform", env_steps=250)
    train("environments:make_point", "sac", "uniform", out=tmp_path, workers=0, **settings)
    assert states == ["compiling", *["training"] * (len(states) - 1)]
    assert len(states) > 1


def test_troubles_are_shown() -> None:
    progress = training(num_runs=2, state="training")
    evaluate(progress, 100, 5.0, 7.0)
    progress.on_row({"kind": "train", "seed": 0, "env_steps": 100, "faults": ["a", "b"]})
    progress.on_row({"kind": "stopped", "seed": 1, "env_steps": 200, "reason": "c"})
    console = Console(file=io.StringIO(), width=200)
    console.print(live_table(View("Point", [progress], 0.0, None)))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "training, 2 faults, seed 1 stopped" in text
    assert shown(progress) == [(100, "5")]
