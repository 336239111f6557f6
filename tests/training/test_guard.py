"""Signs that a run goes wrong: when they are told, and what is advised."""

import io
from typing import Any

import pytest
from rich.console import Console

from lfiw.learning.config import make_config
from lfiw.runs.rows import Row, warning_row
from lfiw.training.display import show_progress
from lfiw.training.guard import Guard
from lfiw.training.progress import Progress

EVERY = 1000
FLOOR = "replay.min_effective_sample_size"


def rows(env_steps: int, **metrics: Any) -> list[Row]:
    """A training row every 1000 steps up to `env_steps`; a metric is a number, or a function of the
    steps."""
    usual = {"q_mean": 100.0, "td_error": 2.0, "raw_effective_sample_size": 0.4}
    return [
        {"kind": "train", "seed": 0, "env_steps": at}
        | {
            name: value(at) if callable(value) else value
            for name, value in (usual | metrics).items()
        }
        for at in range(EVERY, env_steps + 1, EVERY)
    ]


def told(log: list[Row], replay: str = "lfiw", **settings: Any) -> list[tuple[int, str]]:
    guard = Guard(make_config("Hopper-v5", "td3", replay, **settings))
    return [(row["env_steps"], sentence) for row in log for sentence in guard.look(row)]


def test_a_run_that_goes_well_is_left_alone() -> None:
    assert told(rows(400_000)) == []
    assert told(rows(400_000, q_mean=lambda at: at / 4000)) == []  # 1.4-fold in 60,000 at 200,000
    assert told(rows(150_000, q_mean=lambda at: 2 ** (at / 10_000))) == []  # as Q does at first


def test_a_q_that_doubles_is_told_once_with_the_setting() -> None:
    """100 up to 300,000 steps, then 10 more every 1000: the mean of the last ten rows is above 200,
    twice the highest of 60,000 steps before, when they are 160 to 250, at 315,000 steps."""
    log = rows(400_000, q_mean=lambda at: 100 + max(0, at - 300_000) / 100)
    ((env_steps, sentence),) = told(log, **{FLOOR: 0.0})
    assert env_steps == 315_000
    assert "Q has grown 2.0-fold within 50,000 steps" in sentence
    assert f"; {FLOOR}=0.6 may help" in sentence
    assert "agent.learning_rate" in told(log, "uniform")[0][1]
    assert "agent.learning_rate" in told(log)[0][1]  # whose floor is set


def test_a_td_error_that_trebles_is_told() -> None:
    log = rows(260_000, td_error=lambda at: 2.0 if at <= 230_000 else 8.0)
    # Of the last ten rows k have 8 and the rest 2: above 6 from k = 7 on.
    assert [env_steps for env_steps, _ in told(log)] == [237_000]


@pytest.mark.parametrize(
    ("floor", "advice"), [(0.0, "=0.6 sets a floor"), (0.6, "which its floor prevents; a larger")]
)
def test_weights_that_leave_little_of_a_batch_are_told(floor: float, advice: str) -> None:
    log = rows(40_000, raw_effective_sample_size=lambda at: 1.0 if at <= 20_000 else 0.05)
    ((env_steps, sentence),) = told(log, **{FLOOR: floor})
    assert env_steps == 30_000  # nine rows of 0.05 and one of 1 are 0.145, ten are 0.05
    assert "leave 5% of a batch" in sentence and advice in sentence


def test_numbers_that_overflow_say_nothing() -> None:
    """A mean that is no longer finite is null in the log; what stops such a run is elsewhere."""
    log = rows(300_000, q_mean=lambda at: 100.0 if at < 250_000 else float("inf"))
    assert told(log) == []


def test_phases_without_updates_say_nothing() -> None:
    silent: list[Row] = [{"kind": "train", "seed": 0, "env_steps": at} for at in (1000, 2000)]
    assert told([*silent, *rows(3000, q_mean=None)]) == []


def test_a_run_that_is_taken_up_tells_no_more_than_one_that_was_not() -> None:
    log = rows(400_000, q_mean=lambda at: 100 + max(0, at - 300_000) / 100)
    resumed = Guard(make_config("Hopper-v5", "td3", "lfiw"))
    for row in log[:350]:
        resumed.look(row)
    assert [sentence for row in log[350:] for sentence in resumed.look(row)] == []


def test_the_display_shows_the_sentence_once() -> None:
    progress = Progress("Hopper-v5/td3-lfiw", 1000, 1)
    progress.on_row(warning_row(3, 300_000, "of the log of a run that goes on"))
    progress.state = "training"
    progress.on_row(warning_row(3, 315_000, "its Q has grown"))
    shown = io.StringIO()
    still = iter([True, True, False])
    show_progress(lambda: "", [progress], lambda: next(still), Console(file=shown, width=200))
    sentence = "Warning: Hopper-v5/td3-lfiw seed 3 at 315,000 steps: its Q has grown."
    assert shown.getvalue().splitlines() == [sentence]
