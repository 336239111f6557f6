"""What a tracker is told of a method folder: rows, once each, whatever happened before."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hand_made import make_run

from lfiw.runs.config_file import read_config
from lfiw.runs.points import Points
from lfiw.runs.rows import Row
from lfiw.tracking import About, Point
from lfiw.tracking.follow import Follower, about, place_of, summary


class Listener:
    """A tracker whose runs remember what they are told; a broken one takes nothing."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.opened: list[tuple[str, str | None]] = []
        self.broken = False

    def open_run(self, about: About, known: str | None) -> "Run":
        self.opened.append((about.name, known))
        return Run(self, known or f"run {len(self.opened)}")

    def steps(self, run: str = "run 1") -> list[int]:
        return [entry[1] for entry in self.told if entry[0] == run and entry[2] != "told"]


class Run:
    def __init__(self, listener: Listener, id: str) -> None:
        self.listener, self.id = listener, id

    def log(self, points: Sequence[Point]) -> None:
        if self.listener.broken:
            raise ConnectionError
        self.listener.told += [(self.id, p.env_steps, p.numbers) for p in points]

    def tell(self, title: str, sentence: str, env_steps: int) -> None:
        self.listener.told.append((self.id, env_steps, "told", title, sentence))

    def show(self, video: Path, env_steps: int) -> None: ...

    def close(self, summary: Mapping[str, float], state: str, env_steps: int) -> None:
        self.listener.told.append((self.id, env_steps, "told", state, summary))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_run(
        tmp_path / "Task" / "sac-uniform", "Task", "sac", "uniform", seeds=(0, 1)
    ).folder


def train(env_steps: int, seed: int = 0, **numbers: Any) -> Row:
    return {"kind": "train", "seed": seed, "env_steps": env_steps, "updates": 1, **numbers}


def evaluated(env_steps: int, value: float | None = 1.0, seed: int = 0) -> Row:
    return {"kind": "eval", "seed": seed, "env_steps": env_steps, "return_mean": value}


def lines(*rows: Row) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def append(folder: Path, *rows: Row) -> None:
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(lines(*rows))


def cut_to(folder: Path, *rows: Row) -> None:
    """As a resume does: a file of its own takes the log's place."""
    (folder / "new").write_text(lines(*rows))
    (folder / "new").replace(folder / "metrics.jsonl")


def follow(folder: Path, listener: Listener) -> Follower:
    place_of(folder, "fake").mkdir(parents=True, exist_ok=True)
    follower = Follower(folder, "fake", listener.open_run)
    while follower.advance():
        pass
    return follower


def test_rows_are_told_by_the_tags_of_tensorboard(folder: Path) -> None:
    append(
        folder,
        train(50, critic_loss=2.5, alpha=None, weight_by_age=[1.5, None], episodes=3),
        {**evaluated(50, -7.0), "wall_seconds": 9.0, "faults": ["one"]},
    )
    listener = Listener()
    follow(folder, listener)
    assert listener.told == [
        ("run 1", 50, {"train/critic_loss": 2.5, "lfiw/weight_by_age_0": 1.5}),
        ("run 1", 50, {"eval/mean_reward": -7.0}),
    ]
    assert listener.opened == [("Task/sac-uniform/seed-0", None)]  # seed 1 has no row yet


def test_rows_are_thinned_to_a_twentieth_of_the_steps() -> None:
    """At 4,200 steps the gap must be 210, and the row before is 200 away; at 4,400 it is 400."""
    points = Points()
    shown = [s for s in range(3800, 5200, 200) if points.of(train(s, q_mean=1.0))]
    assert shown == [3800, 4000, 4400, 4800]
    assert points.of(train(5000, q_mean=1.0, actor_loss=2.0))  # a number that is new
    assert points.of(evaluated(5000))  # never left out


def test_what_a_user_should_see_is_told(folder: Path) -> None:
    append(
        folder,
        {"kind": "warning", "seed": 1, "env_steps": 30, "reason": "Q has doubled"},
        {"kind": "failed eval", "seed": 1, "env_steps": 40, "faults": ["a", "b"]},
        {"kind": "stopped", "seed": 1, "env_steps": 50, "reason": "a loss is nan"},
    )
    listener = Listener()
    follow(folder, listener)
    assert listener.told == [
        ("run 1", 30, "told", "warning", "Q has doubled"),
        ("run 1", 40, "told", "failed", "a; b"),
        ("run 1", 50, "told", "stopped", "a loss is nan"),
    ]


def test_a_line_is_told_when_it_is_whole(folder: Path) -> None:
    listener = Listener()
    whole = lines(evaluated(100))
    (folder / "metrics.jsonl").write_text(whole[:-9])
    follower = follow(folder, listener)
    assert listener.told == []
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(whole[-9:])
    assert follower.advance() and listener.steps() == [100]


def test_who_comes_later_goes_on_in_the_same_run(folder: Path) -> None:
    """Also between two rows of the same step."""
    listener = Listener()
    append(folder, train(100, q_mean=1.0))
    follow(folder, listener)
    append(folder, evaluated(100), train(200, q_mean=2.0), evaluated(200, seed=1))
    follow(folder, listener)
    follow(folder, listener)
    assert [(run, steps) for run, steps, *_ in listener.told] == [
        *(("run 1", 100), ("run 1", 100), ("run 1", 200), ("run 3", 200)),
    ]
    name = "Task/sac-uniform/seed-0"
    assert listener.opened == [(name, None), (name, "run 1"), ("Task/sac-uniform/seed-1", None)]


def test_a_log_that_is_cut_back_is_not_told_twice(folder: Path) -> None:
    """One that has grown past its old end before anybody looked, too."""
    rows = [evaluated(steps) for steps in range(100, 600, 100)]
    listener = Listener()
    append(folder, *rows)
    follower = follow(folder, listener)
    cut_to(folder, *rows[:2])
    follower.advance()
    append(folder, *rows[2:], evaluated(600))
    follower.advance()
    assert listener.steps() == [100, 200, 300, 400, 500, 600]
    longer = [{**row, "steps_per_second": 1234.5} for row in rows]
    cut_to(folder, *longer, evaluated(600), evaluated(700))
    follower.advance()
    assert listener.steps() == [100, 200, 300, 400, 500, 600, 700]


def test_a_failure_loses_nothing(folder: Path) -> None:
    """Thinning goes on as if there had been none: of 100 rows all but every second is told."""
    rows = [train(steps, q_mean=1.0) for steps in range(4000, 6000, 100)]
    undisturbed, listener = Listener(), Listener()
    append(folder, *rows[:5])
    follower = follow(folder, listener)
    append(folder, *rows[5:])
    listener.broken = True
    for _ in range(2):
        with pytest.raises(ConnectionError):
            follower.advance()
    listener.broken = False
    follower.advance()
    (place_of(folder, "fake") / "runs.json").unlink()
    follow(folder, undisturbed)
    assert listener.steps() == undisturbed.steps()
    assert len(listener.steps()) == len(set(listener.steps())) < len(rows)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"runs": 3}', '{"runs": {"0": {"id": 1}}}', '{"runs": {"x": {}}}']
)
def test_ids_that_cannot_be_read_begin_new_runs(folder: Path, content: str) -> None:
    append(folder, evaluated(100))
    listener = Listener()
    place = place_of(folder, "fake")
    place.mkdir(parents=True)
    (place / "runs.json").write_text(content)
    follow(folder, listener)
    assert listener.opened == [("Task/sac-uniform/seed-0", None)]


def test_rows_of_nobody_are_left_out(folder: Path) -> None:
    append(folder, evaluated(100, seed=7), {"kind": "eval"}, evaluated(100))
    listener = Listener()
    follow(folder, listener)
    assert [name for name, _ in listener.opened] == ["Task/sac-uniform/seed-0"]


def test_a_run_ends_with_its_final_return_and_its_state(folder: Path) -> None:
    """The final ones of 20 evaluations are 2: (18 + 19) / 2."""
    curve = [evaluated(steps, float(steps)) for steps in range(20)]
    append(folder, *curve, {**evaluated(3), "seed": 1})
    append(folder, {"kind": "ended", "seed": 1, "env_steps": 5, "reason": "enough"})
    listener = Listener()
    assert len(list(follow(folder, listener).close())) == 2
    assert listener.told[-2:] == [
        ("run 1", 19, "told", "unfinished", {"final_return": 18.5, "max_return": 19.0}),
        ("run 2", 5, "told", "ended", {"final_return": 1.0, "max_return": 1.0}),
    ]


def test_evaluations_without_a_number_count_for_nothing() -> None:
    assert summary([evaluated(1, 5.0), evaluated(2, None)]) == {
        "final_return": 5.0,
        "max_return": 5.0,
    }
    assert summary([evaluated(1, None), train(1)]) == {}


def test_a_run_is_introduced_with_settings_and_tags(tmp_path: Path) -> None:
    folder = tmp_path / "environments-make_point" / "td3-per-hot"
    make_run(folder, "environments:make_point", "td3", "per", seeds=(4,))
    content = {**read_config(folder), "commit": "abc", "signature": "mine", "sha256": "hash"}
    told = about(folder, content, 4)
    group = "environments-make_point/td3-per-hot"
    assert (told.name, told.group) == (f"{group}/seed-4", group)
    assert told.tags == {
        **{"agent": "td3", "strategy": "per", "task": "environments:make_point"},
        "label": "hot",
    }
    assert told.config["agent"]["name"] == "td3" and told.config["commit"] == "abc"
    assert told.config["seed"] == 4 and not {"signature", "sha256"} & told.config.keys()
    added = folder / "added" / "seed-5"
    make_run(added, "environments:make_point", "td3", "per", seeds=(5,))
    assert about(added, read_config(added), 5).name == f"{group}/seed-5"


def test_without_a_label_there_is_no_tag_of_it(folder: Path) -> None:
    assert "label" not in about(folder, read_config(folder), 0).tags
