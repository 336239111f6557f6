"""The lists of metrics and looks, against what is logged and drawn."""

from pathlib import Path
from typing import Any

import jax
import pytest
from programs import BATCH, SPEC, draw_sample, make_context, small, update_agent

from lfiw.agents import AGENTS, make_agent
from lfiw.replay import REPLAYS, make_replay
from lfiw.replay.uniform import UniformConfig
from lfiw.results.catalogue import LOOKS, STRATEGIES, looks
from lfiw.runs.metrics import DIAGNOSTICS, METRICS, tags_of
from lfiw.runs.tensorboard import Boards

Shapes = dict[str, tuple[int, ...]]


def logged(kind: type[Any]) -> Shapes:
    """What an agent or a strategy logs."""

    def metrics(key: jax.Array) -> Any:
        replay = make_replay(
            UniformConfig() if kind in AGENTS.values() else small(kind), make_context()
        )
        _, sample, seen = draw_sample(replay, replay.init(key), key)
        if kind not in AGENTS.values():
            return seen
        agent = make_agent(small(kind), SPEC, BATCH)
        return update_agent(agent, agent.init(key), sample, key, agent.period - 1)[2]

    shapes = jax.eval_shape(metrics, jax.random.key(0))
    return {name: value.shape for name, value in shapes.items()}


@pytest.fixture(scope="module")
def everything() -> Shapes:
    return {
        name: shape
        for kind in (*AGENTS.values(), *REPLAYS.values())
        for name, shape in logged(kind).items()
    }


def test_what_is_logged_has_the_listed_shape(everything: Shapes) -> None:
    for name in everything.keys() & METRICS.keys():
        size = METRICS[name].size
        assert everything[name] == ((size,) if size else ())
    assert {metric.name for metric in DIAGNOSTICS} <= everything.keys()  # none is out of date


def test_tensorboard_has_all_that_is_logged_listed_or_not(
    everything: Shapes, tmp_path: Path
) -> None:
    row = {name: [1.0] * shape[0] if shape else 1.0 for name, shape in everything.items()}
    boards = Boards(tmp_path)
    boards.write({"kind": "train", "seed": 0, "env_steps": 1, **row, "mine": 1.0})
    boards.close()
    (events,) = tmp_path.glob("seed-0/events.out.tfevents.*")
    content = events.read_bytes()
    tags = {tag for name in row for tag in tags_of(name)}
    assert len(tags) == len(row)  # one each: none is hidden by another
    assert {"train/entropy", "train/ent_coef", "lfiw/trust"} <= tags
    for tag in (*tags, "train/mine", "lfiw/weight_by_age_4"):
        assert tag.encode() in content


def test_looks_differ_and_those_of_the_papers_strategies_are_fixed() -> None:
    assert len(set(LOOKS)) == len({look[:2] for look in LOOKS}) == 36
    labelled = [f"lfiw-{index}" for index in range(20)]
    for given in (["lfiw"], ["mine", "per"], [*labelled, "uniform"]):
        styles = looks(given)
        assert {name: styles[name] for name in STRATEGIES} == STRATEGIES
        assert len(set(styles.values())) == len(styles)
