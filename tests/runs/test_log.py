import json
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from lfiw.errors import InputError
from lfiw.results.curves import read_curves
from lfiw.runs.config_file import read_config
from lfiw.runs.files import save_arrays, write_json
from lfiw.runs.layout import find_folders, method_folder, safe_name
from lfiw.runs.log import RunLog
from lfiw.runs.policies import save_policies
from lfiw.runs.read import read_metrics
from lfiw.runs.rows import Row, rounded
from lfiw.runs.trust import env_of


def train_row(env_steps: int, **values: Any) -> Row:
    return {"kind": "train", "seed": 0, "env_steps": env_steps, "updates": 0, **values}


def eval_row(env_steps: int, seed: int = 0) -> Row:
    return {"kind": "eval", "seed": seed, "env_steps": env_steps, "return_mean": 1.0}


def written(folder: Path) -> list[tuple[str, int]]:
    return [(row["kind"], row["env_steps"]) for row in read_metrics(folder)]


def test_rows_keep_their_order_while_an_evaluation_is_pending(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    slow: Future[int] = Future()
    quick: Future[int] = Future()
    log.append(train_row(1))
    log.append((slow, lambda value: eval_row(value)))
    log.append((quick, lambda value: eval_row(value)))
    log.append(train_row(2))
    quick.set_result(1002)
    log.append(train_row(3))
    assert written(tmp_path) == [("train", 1)]
    slow.set_result(1001)
    log.flush()
    expected = [("train", 1), ("eval", 1001), ("eval", 1002), ("train", 2), ("train", 3)]
    assert written(tmp_path) == expected
    log.close()
    assert written(tmp_path) == expected


def test_close_writes_what_was_pending(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    done: Future[int] = Future()
    log.append((done, lambda value: eval_row(value)))
    done.set_result(5)
    log.append(train_row(6))
    log.close()
    assert written(tmp_path) == [("eval", 5), ("train", 6)]


def test_failed_evaluation_is_raised_after_the_rows_before_it(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    failed: Future[int] = Future()
    log.append(train_row(1))
    log.append((failed, lambda value: eval_row(value)))
    failed.set_exception(InputError("The wheel came off."))
    with pytest.raises(InputError, match="wheel"):
        log.flush(wait=True)
    with pytest.raises(InputError, match="wheel"):
        log.close()
    assert written(tmp_path) == [("train", 1)]


def test_rows_are_announced(tmp_path: Path) -> None:
    seen: list[Row] = []
    log = RunLog(tmp_path, seen.append)
    log.append(train_row(1))
    log.append(eval_row(2))
    log.close()
    assert seen == [train_row(1), eval_row(2)]


def test_every_row_is_strict_json(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    log.append(
        train_row(
            1,
            q_mean=np.float32(np.nan),
            td_error=float("inf"),
            alpha=np.float32(0.1),
            weight_by_age=np.float32([1, 1.25]),
            beta=np.array(0.5, np.float32),
            critic_loss=1.23456789012,
        )
    )
    log.close()

    def refuse(name: str) -> None:
        raise AssertionError(name)

    row = json.loads((tmp_path / "metrics.jsonl").read_text(), parse_constant=refuse)
    assert row["q_mean"] is None
    assert row["td_error"] is None
    assert row["alpha"] == pytest.approx(0.1)
    assert row["weight_by_age"] == [1.0, 1.25]
    assert row["beta"] == 0.5
    assert row["critic_loss"] == 1.234568


def test_values_that_are_not_finite_do_not_stop_the_log(tmp_path: Path) -> None:
    """A diverged run must still be logged, also in the TensorBoard files."""
    log = RunLog(tmp_path)
    log.append(train_row(1, weight_by_age=np.float32([1, np.nan]), q_mean=np.nan))
    log.close()
    assert read_metrics(tmp_path)[0]["weight_by_age"] == [1.0, None]


def test_rounded() -> None:
    assert rounded(np.float32(1 / 3)) == 0.3333333
    assert rounded(123456789.0) == 123456800.0
    assert rounded(-float("inf")) is None
    assert rounded(np.array([[1.0], [np.nan]])) == [[1.0], [None]]
    assert rounded(123456789) == 123456789
    assert rounded("text") == "text"


def test_tensorboard_files_have_the_usual_tags(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    log.append(train_row(100, steps_per_second=5.0, q_mean=1.0, max_weight=2.0))
    log.append(eval_row(100))
    log.append(eval_row(100, seed=3))
    log.close()
    for seed in (0, 3):
        (events,) = (tmp_path / "tensorboard" / f"seed-{seed}").glob("events.out.tfevents.*")
        content = events.read_bytes()
        assert b"eval/mean_reward" in content
        if seed == 0:
            for tag in (b"charts/SPS", b"time/fps", b"train/q_mean", b"lfiw/max_weight"):
                assert tag in content


def tensorboard_content(folder: Path) -> bytes:
    (events,) = (folder / "tensorboard" / "seed-0").glob("events.out.tfevents.*")
    return events.read_bytes()


@pytest.mark.parametrize("learning_starts", [200, 1000, 4800])
def test_tensorboard_of_a_short_run_has_losses(tmp_path: Path, learning_starts: int) -> None:
    """Though its first rows have none."""
    log = RunLog(tmp_path)
    for env_steps in range(200, learning_starts + 400, 200):
        metrics = {"critic_loss": 1.0} if env_steps > learning_starts else {}
        log.append(train_row(env_steps, **metrics))
    log.close()
    assert b"train/critic_loss" in tensorboard_content(tmp_path)


def test_tensorboard_of_a_long_run_is_thinned(tmp_path: Path) -> None:
    """From 100,000 steps on to every 5000; before, to a twentieth of the steps so far."""
    log = RunLog(tmp_path)
    for env_steps in range(200, 200_001, 200):
        log.append(train_row(env_steps, q_mean=1.0))
    log.close()
    shown = tensorboard_content(tmp_path).count(b"train/q_mean")
    # Every row up to 4000 steps; then steps that grow by a factor of 1.05 to 1.1.
    assert 20 + 20 + 20 < shown < 20 + 20 + 70


def test_tensorboard_files_numbers_of_evaluations_together(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    log.append(eval_row(100) | {"return_std": 2.0, "length_mean": 3.0})
    log.close()
    assert b"eval/std_reward" in tensorboard_content(tmp_path)
    assert b"train/" not in tensorboard_content(tmp_path)


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("HalfCheetah-v5", "HalfCheetah-v5"),
        ("module.sub:make_it", "module.sub-make_it"),
        ("ALE/Pong-v5", "ALE-Pong-v5"),
        ("../../etc/passwd", "etc-passwd"),
        ("..", "unnamed"),
        ("", "unnamed"),
        ("a b\n\0c", "a-b-c"),
        ("T=2.5+x_y", "T=2.5+x_y"),
        ("ümlaut", "mlaut"),
        ("-rf", "rf"),
    ],
)
def test_names_are_safe(name: str, safe: str) -> None:
    assert safe_name(name) == safe


def test_run_folder_layout(tmp_path: Path) -> None:
    assert method_folder(tmp_path, "Ant-v5", "sac-lfiw") == tmp_path / "Ant-v5" / "sac-lfiw"
    labelled = method_folder(tmp_path, "mod:make/../x", "td3-per", "T=2")
    assert labelled == tmp_path / "mod-make-..-x" / "td3-per-T=2"
    assert labelled.resolve().is_relative_to(tmp_path.resolve())
    with pytest.raises(InputError, match=r"unlike 'T=2/\.\./x'"):
        method_folder(tmp_path, "Ant-v5", "sac-lfiw", "T=2/../x")


def test_line_cut_short_is_left_out(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    log.append(train_row(1))
    log.append(eval_row(2))
    log.close()
    path = tmp_path / "metrics.jsonl"
    whole = path.read_bytes()
    rows = [json.loads(line) for line in whole.splitlines()]
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        complete = [row for row in rows if row in read_metrics(tmp_path)]
        assert read_metrics(tmp_path) == complete
        assert len(complete) >= whole[:cut].count(b"\n")


def test_metrics_are_read_by_kind(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    log.append(train_row(1))
    log.append(eval_row(2))
    log.close()
    assert [row["env_steps"] for row in read_metrics(tmp_path, "eval")] == [2]
    assert [row["env_steps"] for row in read_metrics(tmp_path, "train")] == [1]
    assert len(read_metrics(tmp_path)) == 2


def test_folder_without_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no metrics\.jsonl"):
        read_metrics(tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "is not a method folder"),
        (b"{", "is damaged"),
        (b"\xff\xfe", "is damaged"),
        (b"[]", "is damaged"),
        (b"{}", "is not the configuration of a run"),
    ],
)
def test_damaged_configuration_is_refused(tmp_path: Path, content: Any, words: str) -> None:
    if content is not None:
        (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_config(tmp_path)


@pytest.mark.parametrize("content", ['{"config": 3}', '{"config": {}}', '{"config": {"env": 1}}'])
@pytest.mark.parametrize("read", [read_curves, env_of])
def test_incomplete_configuration_is_refused(tmp_path: Path, content: str, read: Any) -> None:
    (tmp_path / "config.json").write_text(content)
    (tmp_path / "metrics.jsonl").write_text(json.dumps(eval_row(2)) + "\n")
    with pytest.raises(InputError, match=str(tmp_path)):
        read(tmp_path)


def test_configuration_is_read_back(tmp_path: Path) -> None:
    config = {"env": {"id": "Ant-v5"}, "agent": {"name": "sac"}, "seeds": [0]}
    content = {"config": config, "versions": {}}
    write_json(tmp_path / "config.json", content)
    assert read_config(tmp_path) == content
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_arrays_are_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "seed-0.safetensors"
    transposed = np.arange(6, dtype=np.float32).reshape(2, 3).T
    save_arrays(path, {"a": transposed, "b": np.float32(2)})
    save_arrays(path, {"a": transposed, "b": np.float32(3)})
    stored = load_file(path)
    np.testing.assert_array_equal(stored["a"], transposed)
    assert (stored["b"].shape, stored["b"]) == ((), 3)
    assert [file.name for file in path.parent.iterdir()] == ["seed-0.safetensors"]


def test_policies_carry_the_action_bounds(tmp_path: Path) -> None:
    bounds = {"action_low": np.float32([-2]), "action_high": np.float32([2])}
    policies = {seed: {"gaussian.0.bias": np.float32([seed])} for seed in (4, 7)}
    save_policies(tmp_path, policies, bounds)
    stored = load_file(tmp_path / "policies" / "seed-7.safetensors")
    assert {name: array.tolist() for name, array in stored.items()} == {
        "gaussian.0.bias": [7],
        "action_low": [-2],
        "action_high": [2],
    }


def test_runs_are_found_below_a_folder(tmp_path: Path) -> None:
    runs = [tmp_path / "Ant-v5" / name for name in ("sac-lfiw", "sac-per")]
    for run in runs:
        run.mkdir(parents=True)
        (run / "config.json").write_text("{}")
    assert find_folders([tmp_path]) == runs
    assert find_folders([runs[1], runs[0]]) == [runs[1], runs[0]]
    places = {"nowhere": "does not exist", "Ant-v5/sac-lfiw/config.json": "holds no method folder"}
    for name, sentence in places.items():
        with pytest.raises(InputError, match=sentence):
            find_folders([tmp_path / name])
