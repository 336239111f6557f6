"""Running statistics of an environment's own are found when it is tried."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hand_made import linear, make_run, save_snapshot

import lfiw
from lfiw.acting.spaces import probe_env
from lfiw.cli import main
from lfiw.env_config import EnvConfig
from lfiw.errors import InputError

OBSERVATIONS = '**{"env.normalize_observations": True}'
REWARDS = "scale rewards by a constant (gymnasium.wrappers.TransformReward)"


def refusal(env_id: str, **kwargs: Any) -> str:
    with pytest.raises(InputError) as raised:
        probe_env(EnvConfig(f"environments:{env_id}", kwargs))
    return str(raised.value)


@pytest.mark.parametrize(
    ("names", "found", "remedies"),
    [
        ("NormalizeObservation", ["NormalizeObservation.obs_rms"], [OBSERVATIONS]),
        ("NormalizeReward", ["NormalizeReward.return_rms"], [REWARDS]),
        ("TimeLimit NormalizeObservation", ["NormalizeObservation.obs_rms"], [OBSERVATIONS]),
        (
            "TimeLimit NormalizeReward RecordEpisodeStatistics NormalizeObservation RescaleAction",
            ["NormalizeReward.return_rms", "NormalizeObservation.obs_rms"],
            [OBSERVATIONS, REWARDS],
        ),
    ],
)
def test_normalising_wrappers_are_named_with_what_to_do(
    names: str, found: list[str], remedies: list[str]
) -> None:
    message = refusal("make_wrapped", names=names)
    assert message.startswith("environments:make_wrapped keeps running statistics of its own (")
    assert f"({', '.join(found)})" in message
    for remedy in (OBSERVATIONS, REWARDS):
        assert (remedy in message) == (remedy in remedies)


def test_wrappers_of_other_libraries_and_within_an_environment_are_found() -> None:
    assert "Centred.mean" in refusal("make_centred")
    assert "NormalizeObservation.obs_rms" in refusal("make_vectorised")


@pytest.mark.parametrize(
    ("factory", "kwargs"),
    [
        ("make_centred", {"by_episode": True}),
        ("make_wrapped", {"names": "NormalizeObservation", "fixed": True}),
        ("make_wrapped", {"names": "TransformReward RescaleAction DelayObservation"}),
        ("make_wrapped", {"names": "RecordEpisodeStatistics TimeLimit"}),
    ],
)
def test_what_an_episode_begins_anew_is_accepted(factory: str, kwargs: dict[str, Any]) -> None:
    assert probe_env(EnvConfig(f"environments:{factory}", kwargs))[0].obs_size == 2


def test_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    wrapped = ["environments:make_wrapped", "--set", "env.kwargs.names=NormalizeObservation"]
    with pytest.raises(SystemExit) as exited:
        main(["train", *wrapped, "--replay", "uniform"])
    assert exited.value.code == 2
    assert "--set env.normalize_observations=true" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_an_older_version_is_neither_evaluated_nor_recorded(tmp_path: Path) -> None:
    pytest.importorskip("imageio_ffmpeg")
    kwargs = {"names": "NormalizeObservation"}
    run = make_run(
        tmp_path / "run", "environments:make_wrapped", "td3", "uniform", **{"env.kwargs": kwargs}
    )
    save_snapshot(run, 100, {"policy": linear(np.zeros((2, 2)), [0, 0])}, action_size=2)
    video = tmp_path / "episode.gif"
    for use in (
        lambda folder: lfiw.evaluate(folder, trust_env=True),
        lambda folder: lfiw.record(folder, video, trust_env=True),
    ):
        with pytest.raises(InputError, match=r"NormalizeObservation\.obs_rms"):
            use(run.folder)
    assert not video.exists()
