import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from processes import PATIENCE, alive, children_of, finish, import_path, wait_for
from safetensors.numpy import load, load_file, save_file
from small import as_options, compiled_programs_kept_in, small

import lfiw
from lfiw import Training, train, train_all
from lfiw.acting.envs import make_env
from lfiw.acting.evaluator import eval_seeds
from lfiw.acting.policy import Policy
from lfiw.env_config import EnvConfig
from lfiw.errors import InputError, RunError
from lfiw.learning.config import check, config_from_json, make_config
from lfiw.runs.evaluate import evaluate
from lfiw.runs.policies import load_policy
from lfiw.runs.read import read_metrics
from lfiw.runs.record import record
from lfiw.runs.trust import signed
from lfiw.settings import to_json

ENV = "environments:make_point"
FOLDER = "environments-make_point"
TIME_FIELDS = {"steps_per_second", "wall_seconds"}
NEEDS_VIDEO = "Recording needs imageio; `pip install 'lfiw[video]'` brings it."


@pytest.fixture(scope="module", autouse=True)
def programs(tmp_path_factory: Any) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("programs")
    with compiled_programs_kept_in(folder):
        yield folder


def train_small(out: Path, replay: str = "lfiw", **changes: Any) -> Training:
    options = {"workers": 0, "agent": "sac", "quiet": True} | changes
    return train(ENV, replay=replay, out=out, **small(replay, **options))


@pytest.fixture(scope="module")
def run(tmp_path_factory: Any) -> Training:
    return train_small(tmp_path_factory.mktemp("run"), seeds=(3, 0), workers=2)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: Any) -> Training:
    return train_small(tmp_path_factory.mktemp("alone"), seeds=(0,), workers=0)


def log_of(run: Training, kind: str | None = None, seed: int | None = None) -> list[dict[str, Any]]:
    """The log without its time fields."""
    return [
        {name: value for name, value in row.items() if name not in TIME_FIELDS}
        for row in read_metrics(run, kind)
        if seed in (None, row["seed"])
    ]


def arrays_of(run: Any, seed: int) -> dict[str, bytes]:
    """All files of arrays of one seed."""
    files = sorted(Path(run).glob(f"**/seed-{seed}.safetensors"))
    return {str(file.relative_to(run)): file.read_bytes() for file in files}


def trained_arrays_of(run: Any, seed: int) -> dict[str, dict[str, bytes]]:
    """The same array by array, without the policy that evaluations found best."""
    return {
        file: {
            name: array.tobytes()
            for name, array in load(content).items()
            if not name.startswith("best.")
        }
        for file, content in arrays_of(run, seed).items()
    }


def returns_by_hand(policy: Policy, env: gymnasium.Env[Any, Any], seeds: list[int]) -> list[float]:
    totals = []
    for seed in seeds:
        obs, _ = env.reset(seed=seed)
        total, ended = 0.0, False
        while not ended:
            obs, reward, terminated, truncated, _ = env.step(policy.predict(obs)[0])
            total += float(reward)
            ended = terminated or truncated
        totals.append(total)
    return totals


def test_run_folder_layout(run: Training) -> None:
    assert run.folder.parts[-2:] == (FOLDER, "sac-lfiw")
    files = {str(path.relative_to(run.folder)) for path in run.folder.rglob("*") if path.is_file()}
    boards = {file for file in files if file.startswith("tensorboard/seed-")}
    assert len(boards) == 2
    assert files >= {
        "config.json",
        "metrics.jsonl",
        *(f"policies/seed-{seed}.safetensors" for seed in (0, 3)),
        *(
            f"snapshots/{percent}/seed-{seed}.safetensors"
            for percent in ("020", "040", "060", "080", "100")
            for seed in (0, 3)
        ),
    }
    assert {file.partition("/")[0] for file in files} <= {
        *("config.json", "metrics.jsonl", "tensorboard", "policies", "snapshots"),
        *("checkpoints", "ring", "lock", "sealed.json"),  # for `lfiw resume` and `verify`
    }
    assert not [file for file in files if "tmp" in file]


def test_evaluation_rows(run: Training) -> None:
    rows = read_metrics(run, "eval")
    assert rows == run.evaluations()
    assert [(row["env_steps"], row["seed"]) for row in rows] == [
        (env_steps, seed) for env_steps in (200, 400, 600) for seed in (3, 0)
    ]
    for row in rows:
        assert list(row) == [
            "kind",
            "seed",
            "env_steps",
            "return_mean",
            "return_std",
            "length_mean",
            "episodes",
            "wall_seconds",
        ]
        assert row["length_mean"] == 30
        assert row["episodes"] == 2
        assert row["return_mean"] < 0 < row["return_std"]


def test_training_rows(run: Training) -> None:
    rows = log_of(run, "train", seed=3)
    assert [row["env_steps"] for row in rows] == list(range(50, 601, 50))
    assert [row["updates"] for row in rows] == [max(0, count - 100) for count in range(50, 601, 50)]
    assert sum(row["episodes"] for row in rows) == 600 // 30
    finished = [row for row in rows if row["episodes"]]
    assert all(row["episode_length_mean"] == 30 for row in finished)
    assert all(row["episode_return_mean"] < 0 for row in finished)
    learned = [row for row in rows if row["updates"]]
    for name in (
        "classifier_loss",
        "balanced_accuracy",
        "effective_sample_size",
        "max_weight",
        "q_mean",
        "td_error",
        "alpha",
    ):
        assert all(isinstance(row[name], float) for row in learned), name
        assert all(name not in row for row in rows if not row["updates"])
    assert all(len(row["weight_by_age"]) == 5 for row in learned)


def test_weights_are_switched_on_after_the_warm_up(run: Training) -> None:
    """The first update that counts 300 steps or more belongs to the row of 300."""
    rows = [row for row in log_of(run, "train") if row["updates"]]
    before = [row for row in rows if row["env_steps"] < 300]
    after = [row for row in rows if row["env_steps"] >= 300]
    assert before
    assert all(row["max_weight"] == row["effective_sample_size"] == 1 for row in before)
    assert all(row["max_weight"] > 1 > row["effective_sample_size"] > 0 for row in after)
    assert all(row["balanced_accuracy"] != 0.5 for row in rows)  # it trains from the start


def test_configuration_is_complete(run: Training) -> None:
    content = json.loads((run.folder / "config.json").read_text())
    assert config_from_json(content["config"]) == run.config
    packages = {"python", "lfiw", "jax", "jaxlib", "numpy", "optax", "gymnasium", "mujoco"}
    assert set(content["versions"]) >= packages
    assert content["versions"]["lfiw"] == lfiw.__version__
    assert content["versions"]["numpy"] == np.__version__
    assert set(content["hardware"]) >= {"platform", "device", "num_devices", "cpu", "cores"}
    assert content["updates_in_call"] == 50
    assert "command" in content


def test_snapshots_hold_policy_critics_and_ratio(run: Training) -> None:
    snapshots = {
        percent: load_file(run.folder / "snapshots" / f"{percent:03d}" / "seed-3.safetensors")
        for percent in (20, 40, 60, 80, 100)
    }
    layers = {f"{index}.{name}" for index in range(2) for name in ("weight", "bias")}
    for arrays in snapshots.values():
        assert set(arrays) == {
            f"{network}.{layer}" for network in ("policy", "critics", "ratio") for layer in layers
        } | {"action_low", "action_high"}
        assert arrays["critics.0.weight"].shape == (2, 4, 32)
        assert arrays["ratio.0.weight"].shape == (4, 32)
    for network in ("policy", "critics", "ratio"):
        name = f"{network}.1.weight"
        changed = [np.any(snapshots[20][name] != snapshots[later][name]) for later in (40, 60, 100)]
        assert all(changed)
    policy = load_file(run.folder / "policies" / "seed-3.safetensors")
    for layer in layers:
        np.testing.assert_array_equal(
            policy[f"gaussian.{layer}"], snapshots[100][f"policy.{layer}"]
        )


def test_seeds_differ(run: Training) -> None:
    first, second = arrays_of(run, 0), arrays_of(run, 3)
    assert set(first.values()).isdisjoint(second.values())
    # From different starts: 50 updates cannot move a weight by more than 50 learning rates.
    weights = [
        load_file(run.folder / "snapshots" / "020" / f"seed-{seed}.safetensors")["policy.0.weight"]
        for seed in (0, 3)
    ]
    assert np.max(np.abs(weights[0] - weights[1])) > 10 * 50 * 3e-4


def test_same_seed_gives_the_same_log_and_bytes(run: Training, tmp_path: Path) -> None:
    again = train_small(tmp_path, seeds=(3, 0), workers=2)
    assert log_of(again) == log_of(run)
    for seed in (0, 3):
        assert arrays_of(again, seed) == arrays_of(run, seed)


@pytest.mark.parametrize("workers", [0, 2])
def test_seed_alone_equals_the_seed_in_a_group(run: Training, tmp_path: Path, workers: int) -> None:
    alone = train_small(tmp_path, seeds=(0,), workers=workers)
    assert log_of(alone) == log_of(run, seed=0)
    assert arrays_of(alone, 0) == arrays_of(run, 0)
    assert len(arrays_of(alone, 0)) >= 6


def test_order_of_the_seeds_does_not_matter(run: Training, tmp_path: Path) -> None:
    reversed_order = train_small(tmp_path, seeds=(0, 3), workers=1)
    assert arrays_of(reversed_order, 3) == arrays_of(run, 3)


@pytest.mark.parametrize("changes", [{"eval_every_env_steps": 50}, {"eval_episodes": 7}])
def test_evaluation_never_disturbs_training(
    alone: Training, tmp_path: Path, changes: dict[str, int]
) -> None:
    other = train_small(tmp_path, seeds=(0,), **changes)
    assert len(log_of(other, "eval")) == (12 if "eval_every_env_steps" in changes else 3)
    assert log_of(other, "train") == log_of(alone, "train")
    assert trained_arrays_of(other, 0) == trained_arrays_of(alone, 0)
    assert all(trained_arrays_of(alone, 0).values())


def test_calls_of_another_length_do_as_many_updates(tmp_path: Path) -> None:
    """1.5 updates a step from 100 steps on; what does not fill a call of 2 waits."""
    run = train_small(
        tmp_path, "uniform", env_steps=230, phase_env_steps=30, updates_per_env_step=1.5
    )
    rows = log_of(run, "train")
    # The first phases are cut at the end of the random steps.
    assert [row["env_steps"] for row in rows] == [30, 60, 90, 100, 130, 160, 190, 220, 230]
    assert [row["updates"] for row in rows] == [0, 0, 0, 0, 45, 90, 135, 180, 180]
    assert run.evaluations()[-1]["env_steps"] == 230


def test_last_evaluation_is_always_there(tmp_path: Path) -> None:
    run = train_small(tmp_path, "uniform", env_steps=230, eval_every_env_steps=10**6)
    assert [row["env_steps"] for row in run.evaluations()] == [230]


def test_logged_evaluation_is_that_of_the_stored_policy(run: Training) -> None:
    env = make_env(EnvConfig(ENV))
    for seed in (0, 3):
        (*_, last) = [row for row in run.evaluations() if row["seed"] == seed]
        starts = eval_seeds(seed, 2, last["env_steps"])
        returns = returns_by_hand(load_policy(run, seed), env, starts)
        assert last["return_mean"] == pytest.approx(np.mean(returns), rel=1e-5)
        assert last["return_std"] == pytest.approx(np.std(returns), rel=1e-4)


def test_a_run_of_an_older_version_keeps_its_starts(tmp_path: Path) -> None:
    stored = to_json(make_config(ENV, "sac", "uniform", **small("uniform")))
    del stored["eval_starts"]
    config = config_from_json(stored)
    assert config.eval_starts == "fixed"
    (run,) = train_all([config], out=tmp_path, workers=0, quiet=True)
    for seed in config.seeds:
        (*_, last) = [row for row in run.evaluations() if row["seed"] == seed]
        starts = eval_seeds(seed, 2, None)
        returns = returns_by_hand(load_policy(run, seed), make_env(EnvConfig(ENV)), starts)
        assert last["return_mean"] == pytest.approx(np.mean(returns), rel=1e-5)


def test_existing_run_is_refused_and_left_alone(run: Training) -> None:
    def state() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}

    before = state()
    with pytest.raises(InputError, match="already holds a training"):
        train_small(run.folder.parents[1])
    assert state() == before
    assert list(run.folder.parent.iterdir()) == [run.folder]


def test_nothing_is_written_unless_all_methods_can_start(tmp_path: Path) -> None:
    good = make_config(ENV, "sac", "uniform", **small("uniform"))
    bad_value = make_config(ENV, "sac", "per", **small("per", batch_size=101))
    bad_env = [
        make_config("environments:make_dict_obs", "sac", replay, **small(replay))
        for replay in ("uniform", "per")
    ]
    for configs, words in (
        ([good, bad_value], "batch_size 101 is larger"),
        (bad_env, "only a 1-D Box"),
        ([good, good], "Two of the methods"),
        ([], "nothing to train"),
    ):
        with pytest.raises(InputError, match=words):
            train_all(configs, out=tmp_path / "runs", quiet=True)
        assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match="workers must be at least 0"):
        train_all([good], out=tmp_path / "runs", workers=-1, quiet=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("blocked", [".", FOLDER, f"{FOLDER}/sac-lfiw"])
def test_file_in_the_way_is_refused(tmp_path: Path, blocked: str) -> None:
    path = tmp_path / "runs" / blocked
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine")
    with pytest.raises(InputError, match="runs"):
        train_small(tmp_path / "runs")
    assert path.read_text() == "mine"


def test_arguments_that_cannot_be_stored_are_refused(tmp_path: Path) -> None:
    """Else the folder would exist, half written, when the sentence comes."""
    env = EnvConfig(ENV, {"length": np.float32(3)})
    with pytest.raises(InputError, match="length"):
        train(env, out=tmp_path / "runs", quiet=True, **small("lfiw"))
    assert list(tmp_path.iterdir()) == []


def test_arguments_are_given_as_they_will_be_read_back(tmp_path: Path) -> None:
    """A tuple is a list in config.json: an environment that insists on one must say so before
    training, not when the finished run is evaluated."""
    env = EnvConfig("environments:make_spanned", {"span": (1, 2)})
    with pytest.raises(InputError, match="a tuple, not \\[1, 2\\]"):
        train(env, out=tmp_path / "runs", quiet=True, **small("lfiw"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "beside", [{"env_steps": 10}, {"agent": "td3"}, {"replay": "per"}, {"preset": "paper"}]
)
def test_settings_beside_a_whole_configuration_are_refused(
    beside: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="A TrainConfig says all by itself"):
        train(make_config(ENV), out=tmp_path, **beside)


@pytest.mark.parametrize("workers", [0, 1])
def test_sick_environment_stops_its_run_with_a_sentence(tmp_path: Path, workers: int) -> None:
    env = EnvConfig("environments:make_faulty", {"fault": "reward", "at": 70})
    with pytest.raises(RunError) as raised:
        train(env, "sac", "uniform", out=tmp_path, workers=workers, quiet=True, **small("uniform"))
    assert str(raised.value) == (
        "sac-uniform stopped: environments:make_faulty produced a non-finite reward at "
        "environment step 70."
    )
    (folder,) = tmp_path.glob("*/*")
    assert [row["env_steps"] for row in read_metrics(folder)] == [50]  # not the sick phase


def test_every_method_that_failed_is_named(tmp_path: Path) -> None:
    env = EnvConfig("environments:make_faulty", {"fault": "reward", "at": 70})
    configs = [make_config(env, "sac", name, **small(name)) for name in ("uniform", "per")]
    with pytest.raises(RunError, match=r"^sac-uniform stopped: .*\. sac-per stopped: .*\.$"):
        train_all(configs, out=tmp_path, workers=0, quiet=True)


def test_environments_may_differ_between_methods(tmp_path: Path) -> None:
    """Each collects and is evaluated in its own: episodes of 30 and of 5 steps."""
    configs = [
        make_config(EnvConfig(ENV, {"length": length}), "sac", replay, **small(replay))
        for replay, length in (("uniform", 30), ("lfiw", 5))
    ]
    runs = train_all(configs, out=tmp_path, workers=0, quiet=True)
    assert [run.evaluations()[-1]["length_mean"] for run in runs] == [30, 5]
    collected = [log_of(run, "train")[-1]["episode_length_mean"] for run in runs]
    assert collected == [30, 5]


def test_evaluate_by_hand(run: Training) -> None:
    rows = evaluate(run, episodes=3, episode_seed=5)
    assert [row["seed"] for row in rows] == [3, 0]
    env = make_env(EnvConfig(ENV))
    for row in rows:
        returns = returns_by_hand(load_policy(run, row["seed"]), env, [5, 6, 7])
        assert row["return_mean"] == pytest.approx(np.mean(returns), rel=1e-5)
        assert row["return_std"] == pytest.approx(np.std(returns), rel=1e-4)
        assert (row["length_mean"], row["episodes"]) == (30, 3)
    assert evaluate(run, episodes=3, seed=0, episode_seed=5) == [rows[1]]
    assert evaluate(run, episodes=3, episode_seed=6)[0] != rows[0]


def test_evaluate_refuses_in_a_sentence(run: Training, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="episodes must be at least 1, not 0"):
        evaluate(run, episodes=0)
    with pytest.raises(InputError, match=r"no policy of seed 9\. It has: seed-0, seed-3\."):
        evaluate(run, seed=9)
    with pytest.raises(InputError, match="is not a method folder"):
        evaluate(tmp_path)
    with pytest.raises(InputError, match="seed"):
        evaluate(run, episodes=1, episode_seed=-1)


def make_run(folder: Path, env: str, obs_size: int, action_size: int) -> Path:
    """A method folder whose policy always takes the middle action."""
    (folder / "policies").mkdir(parents=True)
    entry = {"id": env, "kwargs": {}}
    config = {"config": {"env": entry, "seeds": [0]}, **signed(entry)}
    (folder / "config.json").write_text(json.dumps(config))
    arrays = {
        "deterministic.0.weight": np.zeros((obs_size, action_size), np.float32),
        "deterministic.0.bias": np.zeros(action_size, np.float32),
        "action_low": np.full(action_size, -1, np.float32),
        "action_high": np.full(action_size, 1, np.float32),
    }
    save_file(arrays, folder / "policies" / "seed-0.safetensors")
    return folder


def test_evaluate_refuses_another_observation_size(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", ENV, 5, 2)
    with pytest.raises(InputError, match=r"observations of size 5, but .* now gives 2"):
        evaluate(folder)


@pytest.mark.parametrize(
    ("env", "obs_size", "sentence"),
    [
        ("environments:make_raising", 5, r"observations of size 5, but .* now gives 1"),
        ("environments:make_raising", 1, r"make_raising failed in step 3: RuntimeError: boom"),
    ],
)
def test_record_tells_what_failed(tmp_path: Path, env: str, obs_size: int, sentence: str) -> None:
    pytest.importorskip("imageio_ffmpeg", reason=NEEDS_VIDEO)
    folder = make_run(tmp_path / "run", env, obs_size, 1)
    with pytest.raises((InputError, RunError), match=sentence):
        record(folder, tmp_path / "a.gif")
    assert not (tmp_path / "a.gif").exists()


def test_evaluate_refuses_a_damaged_policy(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", ENV, 2, 2)
    path = folder / "policies" / "seed-0.safetensors"
    whole = path.read_bytes()
    for content in (b"", b"garbage", whole[:-3], whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(InputError, match="is damaged"):
            evaluate(folder)
    save_file({"a": np.zeros(1)}, path)
    with pytest.raises(InputError, match="does not hold a policy"):
        evaluate(folder)


@pytest.mark.parametrize("suffix", [".mp4", ".gif"])
def test_record(run: Training, tmp_path: Path, suffix: str) -> None:
    imageio = pytest.importorskip("imageio.v2", reason=NEEDS_VIDEO)
    pytest.importorskip("imageio_ffmpeg", reason=NEEDS_VIDEO)
    path, total_reward, length = record(run, tmp_path / "new" / f"a{suffix}", seed=3)
    assert length == 30
    env = make_env(EnvConfig(ENV))
    assert total_reward == pytest.approx(returns_by_hand(load_policy(run, 3), env, [0])[0])
    with imageio.get_reader(path) as video:
        frames = [np.asarray(frame) for frame in video]
    assert frames[0].shape[:2] == (64, 64)
    assert frames[0].min() < 100 < frames[0].max()
    if suffix == ".mp4":
        assert len(frames) == 31


def test_record_refuses_in_a_sentence(run: Training, tmp_path: Path) -> None:
    pytest.importorskip("imageio_ffmpeg", reason=NEEDS_VIDEO)
    with pytest.raises(InputError, match=r"must end in \.mp4 or \.gif"):
        record(run, tmp_path / "a.avi")
    with pytest.raises(InputError, match="no policy of seed 9"):
        record(run, tmp_path / "a.mp4", seed=9)
    dark = make_run(tmp_path / "dark", "environments:make_diary", 3, 1)
    with pytest.raises(InputError, match="render_mode"):
        record(dark, tmp_path / "a.mp4")
    with pytest.raises(InputError, match="seed"):
        record(run, tmp_path / "a.mp4", episode_seed=-1)
    assert not list(tmp_path.glob("a.*"))


def test_record_of_mujoco_without_a_screen(tmp_path: Path) -> None:
    """In a process of its own: the choice of the renderer is made once in a process."""
    pytest.importorskip("imageio_ffmpeg", reason=NEEDS_VIDEO)
    folder = make_run(tmp_path / "run", "InvertedPendulum-v5", 4, 1)
    out = tmp_path / "a.mp4"
    environment = {
        name: value for name, value in os.environ.items() if name not in ("DISPLAY", "MUJOCO_GL")
    }
    command = [sys.executable, "-m", "lfiw", "record", str(folder), "--out", str(out)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False
    )
    assert "Traceback" not in done.stderr
    if done.returncode == 2 and "cannot render here" in done.stderr:
        pytest.skip(
            "MuJoCo finds neither EGL nor OSMesa to draw with; "
            "`apt-get install libegl1 libosmesa6` brings both."
        )
    assert done.returncode == 0, done.stderr
    assert out.stat().st_size > 1000


def test_policy_predicts_one_and_many(run: Training) -> None:
    policy = lfiw.load_policy(run, seed=3)
    observations = np.random.default_rng(0).uniform(-1, 1, (5, 2)).astype(np.float32)
    batch, state = policy.predict(observations, state="kept")
    assert state == "kept"
    assert batch.shape == (5, 2)
    assert batch.dtype == np.float32
    for obs, action in zip(observations, batch, strict=True):
        one, _ = policy.predict(obs)
        assert one.shape == (2,)
        np.testing.assert_allclose(one, action, atol=1e-6)
        np.testing.assert_array_equal(policy.predict(obs.tolist())[0], one)
    with pytest.raises(ValueError, match="observations of size 2"):
        policy.predict(np.zeros(3))


def test_seed_that_was_not_trained_is_named(run: Training) -> None:
    with pytest.raises(InputError) as raised:
        lfiw.load_policy(run, seed=99)
    assert str(raised.value).startswith(f"{run.folder} holds no policy of seed 99. It has: ")


def test_policy_explores_where_asked(run: Training) -> None:
    policy = load_policy(run, 3)
    obs = np.zeros((400, 2), np.float32)
    noisy, _ = policy.predict(obs, deterministic=False)
    assert np.all(np.std(noisy, axis=0) > 0.05)
    assert np.all(np.abs(noisy) <= 1)
    again, _ = load_policy(run, 3).predict(obs, deterministic=False)
    np.testing.assert_array_equal(noisy, again)
    calm, _ = policy.predict(obs)
    assert np.all(calm == calm[0])


def test_policy_acts_in_the_units_of_its_environment(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", "environments:make_echo", 2, 2)
    path = folder / "policies" / "seed-0.safetensors"
    arrays = load_file(path) | {
        "deterministic.0.bias": np.arctanh(np.float32([0.5, -0.25])),
        "action_low": np.float32([-3, 10]),
        "action_high": np.float32([1, 30]),
    }
    save_file(arrays, path)
    np.testing.assert_allclose(load_policy(folder).predict([0, 0])[0], [0, 17.5], atol=1e-5)


def start_cli(*arguments: str, programs: Path, **options: Any) -> subprocess.Popen[str]:
    environment = os.environ | {
        "PYTHONPATH": import_path(),
        "JAX_COMPILATION_CACHE_DIR": str(programs),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "lfiw", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **options,
    )


@pytest.mark.slow
def test_command_line_trains_every_combination_in_one_go(tmp_path: Path, programs: Path) -> None:
    """Two processes: three seeds of two methods, spread over the CPU's cores and two workers;
    then one of the seeds alone, in one process. The bits are the same."""

    def cli(*arguments: str) -> str:
        options = as_options(small("lfiw", env_steps=300))
        return finish(
            start_cli("train", ENV, *arguments, *options, programs=programs, cwd=tmp_path)
        )

    out = cli("--agent", "sac", "--replay", "uniform,lfiw", "--num-seeds", "3", "--workers", "2")
    alone = ("--agent", "sac", "--replay", "lfiw", "--seeds", "2", "--workers", "0")
    cli(*alone, "--label", "alone", "--out", "others")
    folders = [tmp_path / "runs" / FOLDER / name for name in ("sac-uniform", "sac-lfiw")]
    for folder in folders:
        assert {path.name for path in (folder / "policies").iterdir()} == {
            f"{which}seed-{seed}.safetensors" for seed in range(3) for which in ("", "best-")
        }
        assert str(folder.relative_to(tmp_path)) in out
        assert folder.name in out
    other = tmp_path / "others" / FOLDER / "sac-lfiw-alone"
    assert arrays_of(other, 2) == arrays_of(folders[1], 2)
    assert len(arrays_of(other, 2)) >= 6
    assert arrays_of(folders[0], 2) != arrays_of(folders[1], 2)


def test_interrupt_stops_training_and_leaves_no_worker(tmp_path: Path, programs: Path) -> None:
    """Ctrl-C goes to the whole process group."""
    settings = as_options(small("lfiw", env_steps=10**6))
    process = start_cli(
        *("train", ENV, "--num-seeds", "2", "--workers", "2", "--out", str(tmp_path)),
        *settings,
        programs=programs,
        start_new_session=True,
    )
    log = tmp_path / FOLDER / "sac-lfiw" / "metrics.jsonl"
    wait_for(lambda: log.is_file() and len(log.read_bytes().splitlines()) > 20, process)
    workers = children_of(process.pid)
    assert len(workers) >= 2
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, err
    assert f"lfiw: stopped; `lfiw resume {log.parent}` goes on." in err
    assert "Traceback" not in err
    assert not any(map(alive, workers))
    rows = read_metrics(log.parent)
    assert len(rows) == len(log.read_bytes().splitlines())  # every line is whole
    check(config_from_json(json.loads((log.parent / "config.json").read_text())["config"]))
