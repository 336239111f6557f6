"""The real libraries, offline: what they have kept is read back, number by number.

`make test-tracking` runs this where they are installed.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hand_made import make_run
from small import small

import lfiw
from lfiw.extras import is_installed
from lfiw.runs.config_file import read_config
from lfiw.runs.read import read_evaluations
from lfiw.runs.verify import verify_run
from lfiw.tracking import TRACKERS
from lfiw.tracking.beside import Tracking

if missing := [name for name in TRACKERS if not is_installed(name)]:
    # Not imported here: some read their environment variables then.
    needs = f"needs {', '.join(missing)}; make test-tracking has them"
    pytest.skip(needs, allow_module_level=True)

NOWHERE = "http://127.0.0.1:9"  # where nobody answers
ENV = "environments:make_point"
GROUP = "environments-make_point/sac-lfiw-real"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for everything, and no way to a network."""
    folder = tmp_path_factory.mktemp("trackers")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for proxy in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            patch.setenv(proxy, NOWHERE)
            patch.setenv(proxy.lower(), NOWHERE)
        patch.setenv("WANDB_MODE", "offline")
        patch.setenv("WANDB_ERROR_REPORTING", "false")
        patch.setenv("WANDB_PROJECT", "own-project")
        patch.setenv("TRACKIO_DIR", str(folder / "trackio"))
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder / 'mlflow.db'}")
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        patch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        yield folder


@pytest.fixture(scope="module")
def folder(place: Path) -> Path:
    """Trained to 400 steps, then to 600, followed all the way; and what trackers kept of it."""
    options: dict[str, Any] = {**small("lfiw"), "env_steps": 400, "seeds": (3, 4)}
    where = {"out": place / "runs", "label": "real", "track": list(TRACKERS), "quiet": True}
    training = lfiw.train(ENV, "sac", "lfiw", **where, **options)
    return lfiw.resume(training, env_steps=600, track="wandb,trackio,mlflow", quiet=True).folder


def curves(folder: Path, seed: int) -> dict[str, list[tuple[int, float]]]:
    rows = [row for row in read_evaluations(folder) if row["seed"] == seed]
    tags = {"eval/mean_reward": "return_mean", "eval/mean_ep_length": "length_mean"}
    return {tag: [(row["env_steps"], row[name]) for row in rows] for tag, name in tags.items()}


def last_returns(folder: Path, seed: int) -> tuple[float, float]:
    """Of three evaluations the last is the final one."""
    returns = [value for _, value in curves(folder, seed)["eval/mean_reward"]]
    assert len(returns) == 3
    return returns[-1], max(returns)


def of_wandb(place: Path) -> list[Any]:
    from wandb_file import WandbFile

    return [WandbFile(path) for path in sorted(place.glob("wandb/offline-run-*/*.wandb"))]


def test_the_folder_is_as_without_trackers(folder: Path) -> None:
    assert verify_run(folder)[0] == []


@pytest.mark.parametrize("seed", [3, 4])
def test_wandb(folder: Path, place: Path, seed: int) -> None:
    name = f"{GROUP}/seed-{seed}"
    files = [file for file in of_wandb(place) if file.run.display_name == name]
    assert len({file.run.run_id for file in files}) == 1 and len(files) == 2  # and its resume
    for tag, curve in curves(folder, seed).items():
        assert [point for file in files for point in file.curve(tag)] == curve
    for file in files:
        assert (file.run.project, file.run.run_group) == ("own-project", GROUP)
        assert list(file.run.tags) == ["sac", "lfiw", ENV, "real"]
        assert file.config["replay"] == read_config(folder)["config"]["replay"]
        assert file.config["seed"] == seed and file.config["versions"]["jax"]
        assert file.summary["state"] == "finished" and file.exit_codes == [0]
        assert [(own.glob_name, own.step_metric) for own in file.metrics] == [("*", "env_steps")]
    final, best = last_returns(folder, seed)
    assert (files[-1].summary["final_return"], files[-1].summary["max_return"]) == (final, best)
    assert any("lfiw/weight_by_age_4" in row for row in files[-1].rows)
    videos = [point for file in files for point in file.curve("video.path")]
    assert [steps for steps, _ in videos] == ([400, 600] if seed == 3 else [])
    for _, path in videos:
        assert any(found.stat().st_size > 1000 for found in place.glob(f"wandb/*/files/{path}"))


@pytest.mark.parametrize("seed", [3, 4])
def test_trackio(folder: Path, place: Path, seed: int) -> None:
    from trackio.sqlite_storage import SQLiteStorage

    name = f"{GROUP}/seed-{seed}-"
    (run,) = [own for own in SQLiteStorage.get_runs("lfiw") if own.startswith(name)]
    logs = SQLiteStorage.get_logs("lfiw", run)
    for tag, curve in curves(folder, seed).items():
        assert [(row["step"], row[tag]) for row in logs if tag in row] == curve
    config = SQLiteStorage.get_run_config("lfiw", run)
    assert config["_Group"] == GROUP and config["tags"]["label"] == "real"
    assert config["replay"] == read_config(folder)["config"]["replay"] and config["seed"] == seed
    final, best = last_returns(folder, seed)
    (end,) = [row for row in logs if row["step"] == 600 and "state" in row]
    assert (end["state"], end["final_return"], end["max_return"]) == ("finished", final, best)
    videos = [(row["step"], row["video"]["file_path"]) for row in logs if "video" in row]
    assert [steps for steps, _ in videos] == ([400, 600] if seed == 3 else [])
    for _, path in videos:
        assert (place / "trackio" / "media" / path).stat().st_size > 1000


@pytest.mark.parametrize("seed", [3, 4])
def test_mlflow(folder: Path, seed: int) -> None:
    from mlflow import MlflowClient

    client = MlflowClient()
    experiment = client.get_experiment_by_name("lfiw").experiment_id
    name = f"{GROUP}/seed-{seed}"
    (run,) = [own for own in client.search_runs([experiment]) if own.info.run_name == name]
    for tag, curve in curves(folder, seed).items():
        history = client.get_metric_history(run.info.run_id, tag)
        assert [(metric.step, metric.value) for metric in history] == curve
    assert client.get_metric_history(run.info.run_id, "train/critic_loss")
    own = {"agent": "sac", "strategy": "lfiw", "task": ENV, "label": "real", "group": GROUP}
    assert own.items() <= run.data.tags.items() and run.data.tags["state"] == "finished"
    assert run.info.status == "FINISHED"
    assert run.data.params["replay.fast_size"] == "100" and run.data.params["seed"] == str(seed)
    assert run.data.params["env_steps"] == "400"  # a parameter is what it was at first
    config = json.loads(Path(client.download_artifacts(run.info.run_id, "config.json")).read_text())
    assert config["env_steps"] == 600 and config["replay"]["fast_size"] == 100
    final, best = last_returns(folder, seed)
    assert (run.data.metrics["final_return"], run.data.metrics["max_return"]) == (final, best)
    videos = client.list_artifacts(run.info.run_id, "videos")
    expected = ["videos/seed-3-at-400.mp4", "videos/seed-3-at-600.mp4"] if seed == 3 else []
    assert [video.path for video in videos] == expected
    assert all(video.file_size > 1000 for video in videos)


def test_more_rows_than_a_request_takes_and_what_a_user_should_see(place: Path) -> None:
    """1,500 numbers in MLflow's requests of 1,000, a parameter too long for it, a run that was
    given up, and a warning."""
    folder = place / "by-hand"
    make_run(folder, "Task", "sac", "uniform", **{"env.kwargs.text": "x" * 7000})
    rows: list[dict[str, Any]] = [
        {"kind": "eval", "seed": 0, "env_steps": 10 * steps, "return_mean": float(steps)}
        for steps in range(1500)
    ]
    rows += [
        {"kind": kind, "seed": 0, "env_steps": 15000, "reason": f"why {kind}"}
        for kind in ("warning", "stopped")
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    said: list[str] = []
    with Tracking(list(TRACKERS), [folder], said.append) as tracking:
        pass
    assert tracking.incomplete == [], said
    expected = [(10 * steps, float(steps)) for steps in range(1500)]

    (file,) = [own for own in of_wandb(place) if "/by-hand/" in own.run.display_name]
    assert file.curve("eval/mean_reward") == expected
    assert file.summary["warning at 15000 steps"] == "why warning"
    assert file.summary["state"] == "stopped" and file.exit_codes == [1]

    from trackio.sqlite_storage import SQLiteStorage

    (run,) = [own for own in SQLiteStorage.get_runs("lfiw") if "/by-hand/" in own]
    logs = SQLiteStorage.get_logs("lfiw", run)
    assert [(row["step"], row["eval/mean_reward"]) for row in logs[:-1]] == expected
    told = {(alert["title"], alert["text"]) for alert in SQLiteStorage.get_alerts("lfiw", run)}
    assert told == {
        ("warning at 15000 steps", "why warning"),
        ("stopped at 15000 steps", "why stopped"),
    }

    from mlflow import MlflowClient

    client = MlflowClient()
    experiment = client.get_experiment_by_name("lfiw").experiment_id
    kept = client.search_runs([experiment])
    (found,) = [own for own in kept if "/by-hand/" in own.info.run_name]
    history = client.get_metric_history(found.info.run_id, "eval/mean_reward")
    assert sorted((metric.step, metric.value) for metric in history) == expected
    assert found.data.tags["stopped at 15000 steps"] == "why stopped"
    assert found.info.status == "FAILED" and len(found.data.params["env.kwargs.text"]) == 6000


def test_requests_to_mlflow_have_a_size_that_servers_take() -> None:
    """A local store takes any."""
    from lfiw.tracking.mlflow import MAX_METRICS, parts

    assert [len(part) for part in parts(range(2500), MAX_METRICS)] == [1000, 1000, 500]


@pytest.mark.parametrize(
    ("name", "environment"),
    [
        ("mlflow", {"MLFLOW_TRACKING_URI": NOWHERE}),
        (
            "wandb",
            {
                "WANDB_MODE": "online",
                "WANDB_BASE_URL": NOWHERE,
                "WANDB_API_KEY": "0" * 40,
                "WANDB_INIT_TIMEOUT": "1",
            },
        ),
    ],
)
def test_a_server_that_cannot_be_reached_stops_nothing(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, environment: dict
) -> None:
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    folder = make_run(tmp_path / "sac-uniform", "Task", "sac", "uniform").folder
    row = {"kind": "eval", "seed": 0, "env_steps": 1, "return_mean": 1.0}
    (folder / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    said: list[str] = []
    with Tracking([name], [folder], said.append) as tracking:
        pass
    assert tracking.incomplete == [name] and f"--to {name}" in said[-1]
    assert any(f"{name} has not got all rows: " in line for line in said), said
    monkeypatch.undo()
    with Tracking([name], [folder], said.append) as tracking:
        pass
    assert tracking.incomplete == []
