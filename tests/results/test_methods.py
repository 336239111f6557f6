import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_runs import EVERY, record, write_run, write_store

from lfiw.errors import InputError
from lfiw.results.method import task_name
from lfiw.results.methods import read_methods
from lfiw.results.own import evaluation_rows

STORE = Path(__file__).parents[2] / "results"


def test_run_folder_is_read(tmp_path: Path) -> None:
    write_run(tmp_path, "sac-lfiw", {0: [1, 3], 7: [2, 4]}, ess=[0.5, 0.25])
    (method,) = read_methods([tmp_path])
    assert (method.task, method.name, method.agent) == ("Ant-v5", "sac-lfiw", "sac")
    assert method.curves.seeds == (0, 7)
    assert method.curves.returns.tolist() == [[1, 3], [2, 4]]
    assert method.diagnostics["effective_sample_size"].tolist() == [[0.5, 0.25]] * 2
    assert method.diagnostics["q_mean"].tolist() == [[10.0 * EVERY, 20.0 * EVERY]] * 2
    assert method.diagnostics["weight_by_age_4"].tolist() == [[0.2, 0.2]] * 2
    assert method.logged("q_mean").tolist() == [[10.0 * EVERY, 20.0 * EVERY]] * 2
    ages = method.logged("weight_by_age")
    assert ages.shape == (2, 2, 5) and ages[1, 1].tolist() == [3.0, 1.0, 0.5, 0.3, 0.2]
    for name, hint in (("trust", "Valid names: .*q_mean"), ("q_men", "Did you mean q_mean")):
        with pytest.raises(InputError, match=rf"has no {name}\. {hint}"):
            method.logged(name)
    assert method.command == "lfiw train Ant-v5 --label 'two words'"
    assert method.wall_seconds == 20
    assert method.versions["jax"] == "0.10.2"


def test_store_says_the_same_as_the_run_that_it_was_made_from(tmp_path: Path) -> None:
    run = write_run(tmp_path / "runs", "sac-lfiw", {0: [1, 3], 7: [2, 4]}, ess=[0.5, 0.25])
    write_store(tmp_path / "store" / "Ant-v5", run)
    (of_run,), (of_store,) = read_methods([tmp_path / "runs"]), read_methods([tmp_path / "store"])
    np.testing.assert_array_equal(of_run.curves.returns, of_store.curves.returns)
    np.testing.assert_array_equal(of_run.curves.env_steps, of_store.curves.env_steps)
    assert of_run.diagnostics.keys() == of_store.diagnostics.keys()
    for name in of_run.diagnostics:
        np.testing.assert_array_equal(of_run.diagnostics[name], of_store.diagnostics[name])
    assert (of_store.config, of_store.commit) == (of_run.config, "abc1234")
    assert (of_store.title, of_store.task) == (of_run.title, of_run.task)


def test_committed_results_are_read() -> None:
    methods = {(method.task, method.name): method for method in read_methods([STORE])}
    assert methods["HalfCheetah-v5", "sac-lfiw-published"].curves.returns.shape == (5, 100)
    assert methods["HalfCheetah-v5", "td3-uniform"].diagnostics.keys() == {"q_mean", "td_error"}


def test_diagnostics_are_those_of_the_phase_before(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"kind": "eval", "seed": 0, "env_steps": 1, "return_mean": 0.0},
        {"kind": "train", "seed": 0, "env_steps": 2, "effective_sample_size": 0.25},
        {"kind": "train", "seed": 1, "env_steps": 2, "effective_sample_size": 0.75},
        {"kind": "eval", "seed": 0, "env_steps": 3, "return_mean": 0.0},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    first, second = evaluation_rows(tmp_path)
    assert "effective_sample_size" not in first
    assert second["effective_sample_size"] == 0.25


def test_order_is_that_of_the_paper(tmp_path: Path) -> None:
    for env in ("Zebra-v0", "Humanoid-v5", "Hopper-v5"):
        for name in ("td3-uniform", "sac-lfiw", "sac-lfiw-warm", "sac-ere", "sac-uniform"):
            write_run(tmp_path / env, name, {0: [1.0]}, env=env)
    methods = read_methods([tmp_path])
    assert [method.title for method in methods[:5]] == [
        *("SAC", "SAC + ERE", "SAC + LFIW", "SAC + LFIW (warm)", "TD3")
    ]
    assert [method.task for method in methods[::5]] == ["Hopper-v5", "Humanoid-v5", "Zebra-v0"]


def test_labels_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for label in ("a=10", "a=2.5", "a=1", "b"):
        write_run(tmp_path, f"sac-lfiw-{label}", {0: [1.0]})
    assert [method.label for method in read_methods([tmp_path])] == ["a=1", "a=2.5", "a=10", "b"]
    chosen = read_methods([tmp_path], ["sac-lfiw-b", "sac-lfiw-a=1"])
    assert [method.label for method in chosen] == ["a=1", "b"]


def test_arguments_of_the_environment_make_another_task() -> None:
    assert task_name({"id": "Ant-v5", "kwargs": {}, "max_episode_steps": None}) == "Ant-v5"
    env = {"id": "Ant-v5", "kwargs": {"b": 2, "a": False}, "max_episode_steps": 9}
    assert task_name(env) == "Ant-v5 (a=False, b=2, max_episode_steps=9)"


def test_same_folder_twice_is_read_once(tmp_path: Path) -> None:
    run = write_run(tmp_path, "sac-lfiw", {0: [1.0]})
    assert len(read_methods([tmp_path, run, tmp_path / "."])) == 1


def test_same_method_twice_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "one", "sac-lfiw", {0: [1.0]})
    write_run(tmp_path / "two", "sac-lfiw", {1: [1.0]})
    with pytest.raises(InputError, match=r"sac-lfiw on Ant-v5 is in .*one.* and in .*two"):
        read_methods([tmp_path])


def test_what_is_no_result_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds neither method folders nor stored results"):
        read_methods([tmp_path])
    with pytest.raises(InputError, match="Name at least one"):
        read_methods([])
    (tmp_path / "curves.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="is not a table of evaluations"):
        read_methods([tmp_path])
    (tmp_path / "curves.csv").write_text("method,seed,env_steps,return_mean\nm,0,1,2\n")
    with pytest.raises(InputError, match=r"m\.json is missing"):
        read_methods([tmp_path])
    (tmp_path / "m.json").write_text(json.dumps(record("Ant-v5", "m", [0])))
    assert read_methods([tmp_path])[0].curves.returns.tolist() == [[2]]


def test_runs_without_an_evaluation_are_left_out_with_a_note(tmp_path: Path) -> None:
    """A sweep is looked at while its last methods have just begun."""
    write_run(tmp_path, "sac-uniform", {0: [1.0]})
    fresh = write_run(tmp_path, "sac-per", {0: [1.0]})
    (fresh / "metrics.jsonl").write_text("")
    notes: list[str] = []
    assert [method.name for method in read_methods([tmp_path], (), notes.append)] == ["sac-uniform"]
    assert notes == [f"{fresh} has no evaluation yet. It is left out."]
    with pytest.raises(InputError, match="sac-per has no evaluation yet"):
        read_methods([fresh])


def test_curves_up_to_a_step(tmp_path: Path) -> None:
    """Evaluations at 10 and 20 steps; up to 19 the first alone is left."""
    write_run(tmp_path, "sac-lfiw", {0: [1, 3], 7: [2, 4]}, ess=[0.5, 0.25])
    (early,) = read_methods([tmp_path], env_steps=19)
    assert early.curves.env_steps.tolist() == [10]
    assert early.curves.returns.tolist() == [[1], [2]]
    assert early.diagnostics["effective_sample_size"].tolist() == [[0.5], [0.5]]
    with pytest.raises(InputError, match="first evaluated after 10 environment steps, not after 9"):
        read_methods([tmp_path], env_steps=9)
    with pytest.raises(InputError, match="at least 1, not 0"):
        read_methods([tmp_path], env_steps=0)
