"""Methods that train in lock-step: who joins whom, and that joining changes nothing."""

import dataclasses
import itertools
import json
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from programs import SPEC, active, bits, random_rows, train_config
from small import compiled_programs_kept_in, small

import lfiw.learning.group
import lfiw.training.start
from lfiw.agents.sac import SacConfig
from lfiw.errors import RunError
from lfiw.learning.config import TrainConfig, make_config
from lfiw.learning.group import Group, Shard
from lfiw.learning.team import Team
from lfiw.replay.lfiw import LfiwConfig
from lfiw.replay.uniform import UniformConfig
from lfiw.training import train_all
from lfiw.training.devices import turns_of_teams
from lfiw.training.jobs import Job, make_teams
from lfiw.training.member import Member
from lfiw.training.resume import resume_all
from lfiw.training.trainer import Trainer

ENV = "environments:make_point"


class FakeDevice(NamedTuple):
    platform: str
    id: int


def fake_devices(platform: str, count: int) -> Any:
    return [FakeDevice(platform, number) for number in range(count)]


def jobs_of(*methods: tuple[str, str], **settings: Any) -> list[Job]:
    return [
        Job(make_config("Pendulum-v1", agent, replay, **settings), Path(f"{agent}-{replay}"))
        for agent, replay in methods
    ]


def names(teams: list[list[Job]]) -> list[list[str]]:
    return [[job.folder.name for job in team] for team in teams]


TABLE = (("sac", "uniform"), ("td3", "uniform"), ("sac", "per"), ("sac", "lfiw"), ("td3", "lfiw"))


def test_methods_of_one_agent_are_a_team_on_a_gpu() -> None:
    teams = make_teams(jobs_of(*TABLE), fake_devices("gpu", 1))
    assert names(teams) == [["sac-uniform", "sac-per", "sac-lfiw"], ["td3-uniform", "td3-lfiw"]]


def test_every_device_has_two_teams_where_there_are_enough_methods() -> None:
    one_agent = jobs_of(*(method for method in TABLE if method[0] == "sac"))
    teams = make_teams(one_agent, fake_devices("gpu", 1))
    assert names(teams) == [["sac-uniform", "sac-lfiw"], ["sac-per"]]
    assert len(make_teams(jobs_of(*TABLE), fake_devices("gpu", 2))) == 4
    assert len(make_teams(jobs_of(*TABLE), fake_devices("gpu", 8))) == 5


def test_methods_out_of_step_are_not_joined() -> None:
    short, long = jobs_of(TABLE[0], env_steps=5000), jobs_of(TABLE[2], env_steps=6000)
    others = jobs_of(("td3", "uniform"), ("td3", "per"), env_steps=5000)
    teams = make_teams([*short, *long, *others], fake_devices("gpu", 1))
    assert names(teams) == [["sac-uniform"], ["sac-per"], ["td3-uniform", "td3-per"]]


def test_only_folders_that_stand_side_by_side_are_joined() -> None:
    """There a resume looks for the others of a team."""
    jobs = [
        dataclasses.replace(job, folder=job.folder / "added" / "seed-5")
        for job in jobs_of(TABLE[0], TABLE[2], TABLE[3])
    ]
    assert [len(team) for team in make_teams(jobs, fake_devices("gpu", 1))] == [1, 1, 1]


def test_scalars_do_not_separate() -> None:
    cold, warm = (
        Job(make_config("Pendulum-v1", "td3", "lfiw", **{"agent.learning_rate": rate}), Path(name))
        for rate, name in ((1e-3, "a"), (1e-4, "b"))
    )
    (other,) = jobs_of(("sac", "uniform"))
    assert names(make_teams([cold, warm, other], fake_devices("gpu", 1)))[0] == ["a", "b"]


def test_every_method_is_alone_on_the_cpu() -> None:
    teams = make_teams(jobs_of(*TABLE), fake_devices("cpu", 2))
    assert [len(team) for team in teams] == [1] * len(TABLE)


@pytest.fixture
def like_a_gpu(monkeypatch: Any) -> Any:
    """Devices on which runs are batched, though a CPU computes."""
    cpu = jax.devices("cpu")[0]

    def one_batch(config: TrainConfig, _: Any) -> list[Shard]:
        return [Shard(cpu, slice(0, len(config.seeds)))]

    monkeypatch.setattr(lfiw.learning.group, "place_runs", one_batch)
    options = {"xla_backend_optimization_level": 0}
    monkeypatch.setitem(lfiw.learning.group.COMPILER_OPTIONS, "gpu", options)
    return fake_devices("gpu", 1)


def test_one_program_learns_what_two_learn(like_a_gpu: Any) -> None:
    configs = [
        train_config(active(SacConfig), active(LfiwConfig), seeds=(0, 1, 2)),
        train_config(active(SacConfig), UniformConfig(), seeds=(3, 4)),
    ]

    def team(*chosen: TrainConfig) -> Team:
        made = Team(chosen, SPEC, like_a_gpu)
        made.add([np.stack([random_rows(s, 300) for s in config.seeds]) for config in chosen])
        made.learn(env_steps=300, updates=4)
        return made

    together = team(*configs)
    for index, config in enumerate(configs):
        alone = team(config)
        pairs = [
            (together.states[index], alone.states[0]),
            (together.calls()[index], alone.calls()[0]),
        ]
        for found, wanted in pairs:
            for one, other in zip(bits(found), bits(wanted), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def logged(folder: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for row in rows:
        row.pop("wall_seconds")
        row.pop("steps_per_second", None)
    return rows


def small_config(replay: str) -> TrainConfig:
    return make_config(ENV, "td3", replay, seeds=(0, 1), **small(replay))


def test_in_lock_step_every_method_logs_what_it_logs_alone(
    tmp_path: Path, monkeypatch: Any
) -> None:
    configs = [small_config("lfiw"), small_config("per")]
    with compiled_programs_kept_in(tmp_path / "cache"):
        apart = train_all(configs, out=tmp_path / "apart", workers=1, quiet=True)
        monkeypatch.setattr(lfiw.training.start, "make_teams", lambda jobs, devices: [list(jobs)])
        joined = train_all(configs, out=tmp_path / "joined", workers=1, quiet=True)
    for one, other in zip(apart, joined, strict=True):
        assert logged(one.folder) == logged(other.folder)
        written = json.loads((other.folder / "config.json").read_text())
        assert written["team"] == ["td3-lfiw", "td3-per"]


def test_teams_on_one_gpu_share_a_turn() -> None:
    first, second = fake_devices("gpu", 2)
    turns = turns_of_teams([[first], [second], [first]])
    assert turns[0] is turns[2] and turns[0] is not turns[1]
    spread = turns_of_teams([[first, second], [second, first]])
    assert spread[0] is spread[1]


def test_teams_on_the_cpu_never_wait_for_a_turn() -> None:
    core = fake_devices("cpu", 1)
    assert [type(turn) for turn in turns_of_teams([core, core])] == [nullcontext, nullcontext]


def test_a_turn_is_a_whole_phase_and_changes_no_bit(tmp_path: Path, monkeypatch: Any) -> None:
    settings = {"updates_per_call": 10, "env_steps": 300}  # five calls to a phase of 50 steps
    configs = [
        make_config(ENV, "td3", replay, seeds=(0,), **small(replay, **settings))
        for replay in ("uniform", "ere")
    ]
    calls: list[tuple[str, int]] = []
    learn = Team.learn

    def watched(team: Team, env_steps: int, updates: int) -> Any:
        calls.append((team.configs[0].method, env_steps))
        time.sleep(0.02)  # others come in between where they can
        return learn(team, env_steps, updates)

    with compiled_programs_kept_in(tmp_path / "cache"):
        free = train_all(configs, out=tmp_path / "free", workers=1, quiet=True)
        monkeypatch.setattr(Team, "learn", watched)
        shared = threading.Lock()
        monkeypatch.setattr(
            lfiw.training.start, "turns_of_teams", lambda placed: [shared] * len(placed)
        )
        taken = train_all(configs, out=tmp_path / "turns", workers=1, quiet=True)
    later = [call for call in calls if call[1] > 150]  # in the first phase teams compile
    assert len(calls) == 2 * 4 * 5
    assert [len(list(turn)) for _, turn in itertools.groupby(later)] == [5] * (2 * 3)
    for one, other in zip(free, taken, strict=True):
        assert logged(one.folder) == logged(other.folder)


def test_metrics_are_fetched_one_call_behind(monkeypatch: Any) -> None:
    """While the device works on a call, the metrics of the one before it are fetched."""
    config = train_config(active(SacConfig), UniformConfig(), seeds=(0, 1))
    team = Team([config], SPEC, jax.devices("cpu")[:1])
    team.add([np.stack([random_rows(seed, 300) for seed in config.seeds])])
    fetched = []
    split = Group.split

    def watched(group: Group, parts: Any) -> Any:
        fetched.append(len(calls))
        return split(group, parts)

    monkeypatch.setattr(Group, "split", watched)
    calls: list[int] = []
    for updates in (0, 4, 8):
        calls.append(updates)
        team.learn(300, updates)
    assert fetched == [2, 3]  # the first call's after the second was started, and so on
    assert len(team.calls()[0]) == len(fetched) == 3
    team.add([np.stack([random_rows(seed, 10) for seed in config.seeds])])
    assert team.calls() == [[]]


def test_a_member_that_fails_waits_for_the_others(tmp_path: Path, monkeypatch: Any) -> None:
    """What training saves then must not change while it is saved."""
    configs = [
        make_config(ENV, "td3", replay, seeds=(0,), **small(replay))
        for replay in ("uniform", "per")
    ]
    events: list[str] = []
    collect, save = Member.collect, Member.save

    def failing(member: Member, *arguments: Any) -> Any:
        if member.config.replay.name == "uniform":
            raise RunError("It broke.")
        time.sleep(0.3)
        collected = collect(member, *arguments)
        events.append("collected")
        return collected

    def saved(member: Member, *arguments: Any) -> None:
        events.append("saved")
        save(member, *arguments)

    monkeypatch.setattr(lfiw.training.start, "make_teams", lambda jobs, devices: [list(jobs)])
    monkeypatch.setattr(Member, "collect", failing)
    monkeypatch.setattr(Member, "save", saved)
    with pytest.raises(RunError, match="It broke"):
        train_all(configs, out=tmp_path, workers=1, quiet=True)
    assert events == ["collected", "saved", "saved"]


def test_members_that_were_saved_apart_come_together_again(
    tmp_path: Path, monkeypatch: Any
) -> None:
    """A kill between the checkpoints of a team's members may leave one within a phase and the other
    after it, both at the same steps and updates."""
    configs = [
        make_config(ENV, "td3", replay, seeds=(0,), **small(replay, env_steps=200))
        for replay in ("uniform", "per")
    ]
    monkeypatch.setattr(lfiw.training.start, "make_teams", lambda jobs, devices: [list(jobs)])
    whole = train_all(configs, out=tmp_path / "whole", workers=0, quiet=True)
    finish, due = Member.finish_phase, Trainer._checkpoint_due

    def finish_first(member: Member, *arguments: Any) -> None:
        """The second member does not get to it in the phase that ends at 150 steps."""
        if member.config.replay.name == "uniform" or arguments[0].env_steps != 150:
            finish(member, *arguments)

    def killed(trainer: Trainer) -> bool:
        if trainer.position.env_steps == 150:
            trainer._save()
            raise RunError("It was killed.")
        return due(trainer)

    with monkeypatch.context() as patch:
        patch.setattr(Member, "finish_phase", finish_first)
        patch.setattr(Trainer, "_checkpoint_due", killed)
        with pytest.raises(RunError, match="It was killed"):
            train_all(configs, out=tmp_path / "apart", workers=0, quiet=True)
    resume_all([tmp_path / "apart"], workers=0, quiet=True)
    for one in whole:
        again = tmp_path / "apart" / one.folder.relative_to(tmp_path / "whole")
        assert logged(one.folder) == logged(again)
