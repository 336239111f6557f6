import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from foreign_logs import write_evaluations, write_events, write_monitor
from report_runs import write_run

from lfiw.cli import main
from lfiw.errors import InputError
from lfiw.results.foreign import names_of
from lfiw.results.foreign_logs import EPISODES, EVALUATIONS, Log, read_monitors
from lfiw.results.method import Method
from lfiw.results.methods import read_methods
from lfiw.results.shared_steps import returns_at


def by_name(methods: list[Method]) -> dict[str, Method]:
    return {method.name: method for method in methods}


# The formats, each with numbers worked by hand.


def test_evaluations_are_averaged_over_episodes(tmp_path: Path) -> None:
    for seed, shift in ((0, 0), (1, 10)):
        results = [[1.0 + shift, 3.0 + shift], [5.0 + shift, 9.0 + shift]]
        write_evaluations(tmp_path / "Hopper-v5" / f"sac_{seed}", [100, 200], results)
    (method,) = read_methods([tmp_path])
    assert (method.task, method.name, method.curves.seeds) == ("Hopper-v5", "sac", (0, 1))
    assert method.curves.env_steps.tolist() == [100, 200]
    assert method.curves.returns.tolist() == [[2, 7], [12, 17]]
    assert method.is_foreign and not method.diagnostics


def test_monitors_of_one_run_are_merged_by_time(tmp_path: Path) -> None:
    """Two environments: episodes end at times 5, 6, 7 and 8, after 10, 14, 24 and 30 steps in all.
    The second file starts its clock 2 later."""
    write_monitor(tmp_path / "0.monitor.csv", [(1, 10, 5), (2, 10, 7)], "Env-v0")
    write_monitor(tmp_path / "1.monitor.csv", [(30, 4, 4), (40, 6, 6)], "Env-v0", start=2)
    log = read_monitors([tmp_path / "0.monitor.csv", tmp_path / "1.monitor.csv"])
    assert log.env_steps.tolist() == [10, 14, 24, 30]
    assert log.returns.tolist() == [1, 30, 2, 40]
    assert (log.kind, log.env) == (EPISODES, "Env-v0")


def test_a_monitor_that_was_continued_keeps_its_order(tmp_path: Path) -> None:
    """Time began anew; and the last line was cut short by a kill."""
    path = write_monitor(tmp_path / "monitor.csv", [(1, 10, 50), (2, 10, 3)])
    with path.open("a", encoding="utf-8") as file:
        file.write("7,1")
    log = read_monitors([path])
    assert (log.env_steps.tolist(), log.returns.tolist(), log.env) == ([10, 20], [1, 2], "")


def test_cleanrl_by_its_folder(tmp_path: Path) -> None:
    for seed in (1, 2):
        points = [(10, 1.0 * seed), (20, 3.0 * seed), (30, 5.0 * seed)]
        folder = tmp_path / f"Hopper-v4__sac_continuous_action__{seed}__1700000000"
        write_events(folder, charts__episodic_return=points, charts__SPS=[(1, 9.0)])
    (method,) = read_methods([tmp_path])
    assert (method.task, method.name) == ("Hopper-v4", "sac_continuous_action")
    assert method.curves.seeds == (1, 2)
    # Three even steps from 10 to 30, the means of 1, of 1 and 3, and of 1, 3 and 5.
    assert method.curves.env_steps.tolist() == [10, 20, 30]
    np.testing.assert_allclose(method.curves.returns, [[1, 2, 3], [2, 4, 6]])


def test_tensorboard_of_stable_baselines_prefers_evaluations(tmp_path: Path) -> None:
    training = [(10, 1.0), (20, 2.0)]
    write_events(tmp_path / "SAC_1", rollout__ep_rew_mean=training)
    write_events(
        tmp_path / "TD3_1", rollout__ep_rew_mean=training, eval__mean_reward=[(10, 7.0), (20, 8.0)]
    )
    methods = by_name(read_methods([tmp_path], task="Ant-v5"))
    assert {method.task for method in methods.values()} == {"Ant-v5"}
    assert methods["SAC"].curves.returns.tolist() == [[1, 2]]
    assert methods["TD3"].curves.returns.tolist() == [[7, 8]]
    assert methods["TD3"].curves.seeds == (1,)


def test_an_event_file_that_a_kill_cut_short(tmp_path: Path) -> None:
    folder = write_events(tmp_path / "SAC_1", rollout__ep_rew_mean=[(10, 1.0), (20, 2.0)])
    (file,) = folder.iterdir()
    file.write_bytes(file.read_bytes()[:-3])
    (method,) = read_methods([tmp_path])
    assert method.curves.env_steps.tolist() == [10]


@pytest.mark.parametrize("header", ["env,method,seed,env_steps,return", "RETURN_MEAN, seed ,x"])
def test_table(tmp_path: Path, header: str) -> None:
    path = tmp_path / "mine.csv"
    if header.startswith("env"):
        path.write_text(f"{header}\nA-v0,new,3,1e3,2.5\nA-v0,new,3,2000.0,4\n", encoding="utf-8")
    else:  # in another order, with more columns, without a task and from a spreadsheet
        text = f"{header},env_steps,method\n2.5,3,?,1000,new\n4,3,?,2000,new\n"
        path.write_text(text, encoding="utf-8-sig")
    (method,) = read_methods([path])
    assert (method.task, method.name) == ("A-v0" if header.startswith("env") else "mine", "new")
    assert method.curves.seeds == (3,)
    assert method.curves.env_steps.tolist() == [1000, 2000]
    assert method.curves.returns.tolist() == [[2.5, 4]]


def test_a_table_with_agents_names_methods_by_both(tmp_path: Path) -> None:
    rows = [f"{agent},{name},0,10,1" for agent in ("sac", "td3") for name in ("uniform", "new")]
    path = tmp_path / "a.csv"
    path.write_text("agent,method,seed,env_steps,return\n" + "\n".join(rows), encoding="utf-8")
    methods = by_name(read_methods([path]))
    assert list(methods) == ["sac-uniform", "sac-new", "td3-uniform", "td3-new"]
    assert methods["td3-new"].agent == "td3" and methods["td3-new"].curves.strategy == "new"


# Names.


@pytest.mark.parametrize(
    ("folder", "names"),
    [
        ("Hopper-v5/sac_0", ("Hopper-v5", "sac", 0)),
        ("Hopper-v5/sac/seed=12", ("Hopper-v5", "sac", 12)),
        ("sac/Hopper-v5/3", ("Hopper-v5", "sac", 3)),
        ("ppo/HalfCheetah-v4_2", ("HalfCheetah-v4", "ppo", 2)),  # rl-zoo
        ("HalfCheetah-v4/PPO_2", ("HalfCheetah-v4", "PPO", 2)),  # and its TensorBoard files
        ("x/sac_Hopper-v5_1", ("Hopper-v5", "sac", 1)),
        ("x/Hopper-v5_sac-seed1", ("Hopper-v5", "sac", 1)),
        ("exp/td3", ("exp", "td3", None)),
        ("exp/sac-run7", ("exp", "sac", 7)),
        ("runs/A-v1__dqn__x__4__1700", ("A-v1", "dqn__x", 4)),
    ],
)
def test_names(tmp_path: Path, folder: str, names: tuple[str, str, int | None]) -> None:
    assert names_of(tmp_path / folder) == names


def test_rl_zoo_with_an_environment_of_another_name(tmp_path: Path) -> None:
    run = write_evaluations(tmp_path / "ppo" / "my_arm_1", [10], [[1.0]])
    (run / "my_arm").mkdir()
    assert names_of(run) == ("my_arm", "ppo", 1)


def test_the_log_knows_its_task(tmp_path: Path) -> None:
    write_monitor(tmp_path / "x" / "sac_0.monitor.csv", [(1, 10, 1)], "Arm")
    write_evaluations(tmp_path / "x" / "td3_0", [10], [[1.0]])
    write_monitor(tmp_path / "x" / "td3_0" / "monitor.csv", [(1, 10, 1)], "Arm")
    methods = read_methods([tmp_path])
    assert [(one.task, one.name) for one in methods] == [("Arm", "sac"), ("Arm", "td3")]


def test_of_several_logs_of_a_run_the_evaluations_are_read(tmp_path: Path) -> None:
    run = write_evaluations(tmp_path / "exp" / "sac_0" / "eval", [10, 20], [[1.0], [2.0]])
    write_monitor(run.parent / "monitor.csv", [(9, 10, 1)], "Arm")
    write_events(run.parent / "SAC_1", rollout__ep_rew_mean=[(10, 9.0)])
    notes: list[str] = []
    (method,) = read_methods([tmp_path], note=notes.append)
    assert (method.task, method.name, method.curves.seeds) == ("Arm", "sac", (0,))
    assert method.curves.returns.tolist() == [[1, 2]]
    (note,) = notes
    assert "SAC_1" in note and "is left out: " in note and "evaluations.npz" in note


def test_methods_that_the_user_names(tmp_path: Path) -> None:
    """Folders put together under one name; seeds that meet are numbered anew."""
    for index, name in enumerate(["a/SAC_1", "b/SAC_1", "c/td3", "d=e"]):
        write_evaluations(tmp_path / name, [10], [[float(index)]])
    sac = f"sac={tmp_path}/a,{tmp_path}/b"
    methods = by_name(read_methods([sac, f"other={tmp_path}/[cd]*"], task="A"))
    assert methods["sac"].curves.seeds == (0, 1)
    assert methods["sac"].curves.returns.tolist() == [[0], [1]]
    assert methods["other"].curves.seeds == (0, 1)
    (plain,) = read_methods([tmp_path / "d=e"])  # a path that exists is no name
    assert plain.name == "d=e"
    # What was named before is not read twice.
    again = by_name(read_methods([f"one={tmp_path}/a", tmp_path / "a"], task="A"))
    assert list(again) == ["one"]


def test_seeds_without_a_number_have_the_next_ones(tmp_path: Path) -> None:
    for name in ("x", "y", "sac_0"):
        write_evaluations(tmp_path / name, [10], [[1.0]])
    (method,) = read_methods([f"sac={tmp_path}"], task="A")
    assert method.curves.seeds == (0, 1, 2)


def test_the_same_seed_twice_is_refused(tmp_path: Path) -> None:
    for time in (1, 2):
        folder = tmp_path / f"A-v0__dqn__1__{time}"
        write_events(folder, charts__episodic_return=[(10, 1.0)])
    with pytest.raises(InputError, match="are both seed 1 of dqn on A-v0; name only one"):
        read_methods([tmp_path])


# Common steps.


def test_returns_at_steps_by_hand() -> None:
    """Evaluations between two, and means of the latest hundred episodes."""
    evaluations = Log(np.array([10, 20, 40]), np.array([1.0, 3.0, 7.0]), EVALUATIONS)
    found = returns_at(evaluations, np.array([10, 15, 20, 25, 40]))
    np.testing.assert_allclose(found, [1, 2, 3, 4, 7])
    # Returns 1 to 150, one episode each step: after step 150 those of 51 to 150.
    episodes = Log(np.arange(1, 151), np.arange(1.0, 151.0), EPISODES)
    np.testing.assert_allclose(returns_at(episodes, np.array([1, 4, 150])), [1, 2.5, 100.5])


def test_unequal_lengths_end_where_the_shortest_ends(tmp_path: Path) -> None:
    """Evaluations at the same steps are not moved; a run that has every second is the measure."""
    write_evaluations(tmp_path / "sac_0", [10, 20, 30, 40], [[1.0], [2.0], [3.0], [4.0]])
    write_evaluations(tmp_path / "sac_1", [20, 40, 60], [[5.0], [6.0], [7.0]])
    notes: list[str] = []
    (method,) = read_methods([tmp_path], note=notes.append)
    assert method.curves.env_steps.tolist() == [20, 40]
    assert method.curves.returns.tolist() == [[2, 4], [5, 6]]
    (note,) = notes
    assert "is compared up to 40 environment steps, where" in note and "goes on to 60." in note
    (cut,) = read_methods([tmp_path], env_steps=30)
    assert cut.curves.env_steps.tolist() == [20]


def test_unequal_steps_become_even_ones(tmp_path: Path) -> None:
    """From 20, the later start, to 40, the earlier end: as many as the run with the fewest has
    there, 25 and 40, so at 20 and 40. On the line from (10, 0) to (30, 20), 10 at 20; from
    (30, 20) to (50, 0), 10 at 40."""
    write_evaluations(tmp_path / "sac_0", [10, 30, 35, 50], [[0.0], [20.0], [15.0], [0.0]])
    write_evaluations(tmp_path / "sac_1", [20, 25, 40], [[1.0], [2.0], [4.0]])
    (method,) = read_methods([tmp_path])
    assert method.curves.env_steps.tolist() == [20, 40]
    np.testing.assert_allclose(method.curves.returns, [[10, 10], [1, 4]])


def test_at_most_a_hundred_steps(tmp_path: Path) -> None:
    write_monitor(tmp_path / "sac_0.monitor.csv", [(1.0, 7, index) for index in range(500)])
    (method,) = read_methods([tmp_path])
    assert len(method.curves.env_steps) == 100
    assert (method.curves.env_steps[0], method.curves.env_steps[-1]) == (7, 3500)
    assert (method.curves.returns == 1).all()


def test_runs_that_do_not_overlap(tmp_path: Path) -> None:
    write_evaluations(tmp_path / "sac_0", [10, 20], [[0.0], [1.0]])
    write_evaluations(tmp_path / "sac_1", [30, 40], [[0.0], [1.0]])
    with pytest.raises(InputError, match=r"sac_1 starts after 30 .*sac_0 ends after 20"):
        read_methods([tmp_path])
    with pytest.raises(InputError, match="first return after 10 environment steps, not after 5"):
        read_methods([tmp_path / "sac_0"], env_steps=5)


def test_our_own_evaluations_are_not_moved(tmp_path: Path) -> None:
    """Those at 20 and 30 are within the other run's 15 to 35."""
    write_run(tmp_path / "runs", "sac-uniform", {0: [1, 2, 3, 4]}, env="A-v0")
    write_evaluations(tmp_path / "A-v0" / "sb3_0", [15, 35], [[0.0], [20.0]])
    methods = by_name(read_methods([tmp_path / "runs", tmp_path / "A-v0"]))
    assert methods["sac-uniform"].curves.env_steps.tolist() == [20, 30]
    assert methods["sac-uniform"].curves.returns.tolist() == [[2, 3]]
    np.testing.assert_allclose(methods["sb3"].curves.returns, [[5, 15]])


def test_evaluations_beside_training_are_told(tmp_path: Path) -> None:
    write_evaluations(tmp_path / "A-v0" / "sac_0", [10], [[0.0]])
    write_monitor(tmp_path / "A-v0" / "td3_0.monitor.csv", [(1, 10, 1)])
    notes: list[str] = []
    read_methods([tmp_path], note=notes.append)
    assert notes == ["On A-v0 some returns are of evaluations and some of training, which differ."]


def test_a_run_without_a_return_is_left_out(tmp_path: Path) -> None:
    write_events(tmp_path / "SAC_1", rollout__ep_rew_mean=[(10, 1.0)])
    write_events(tmp_path / "SAC_2", other__tag=[(10, 1.0)])
    notes: list[str] = []
    (method,) = read_methods([tmp_path], note=notes.append)
    assert method.curves.seeds == (1,)
    assert len(notes) == 1 and notes[0].endswith("It is left out.")
    with pytest.raises(InputError, match="has no value of eval/mean_reward"):
        read_methods([tmp_path / "SAC_2"])


# What is no log.


def npz(**members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return file.getvalue()


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


CLAIM = npy(np.zeros(1)).replace(b"(1,), }", b"(99999999999,), }")  # of far more than there is
HOSTILE = {
    "evaluations.npz": [
        b"",
        b"PK nothing",
        npz(timesteps=npy(np.arange(2))),
        npz(timesteps=npy(np.arange(2)), results=npy(np.zeros((3, 1)))),
        npz(timesteps=npy(np.arange(2)), results=npy(np.array([[None], [1]], object))),
        npz(timesteps=npy(np.arange(1)), results=CLAIM),
        npz(timesteps=npy(np.arange(1)), results=npy(np.array([[np.nan]]))),
        npz(timesteps=npy(np.array([-1])), results=npy(np.zeros((1, 1)))),
        npz(timesteps=npy(np.arange(1)), results=npy(np.zeros((1, 0)))),
    ],
    "monitor.csv": [
        b"",
        b"r,l,t\n1,2,3\n",
        b"#[1]\nr,l,t\n1,2,3\n",
        b"#{}\nr,l\n1,2\n",
        b'#{"t_start": 1}\nr,l,t\nx,2,3\n',
        b'#{"t_start": 1}\nr,l,t\n1,-2,3\n',
        b'#{"t_start": 1}\nr,l,t\n1,9999999999999999999999,3\n',
        b'#{"t_start": "x"}\nr,l,t\n1,2,3\n',
        b'#{"t_start": 1}\nr,l,t\nnan,2,3\n',
        b"#" + b"{" * 60_000 + b"\n",
        b"\xff\xfe\n",
        b"#{" + b"1" * 70_000,
    ],
    "events.out.tfevents.1": [
        b"",
        b"not a log, but long enough to be one",
        struct.pack("<Q", 2**62) + bytes(8),
    ],
    "mine.csv": [
        b"",
        b"method,seed,return\nx,1,2\n",
        b"method,seed,env_steps,return\nx,1,2\n",
        b"method,seed,env_steps,return\nx,1,2.5,1\n",
        b"method,seed,env_steps,return\nx,inf,2,1\n",
        b"method,seed,env_steps,return\n,1,2,1\n",
        b"method,seed,env_steps,return\nx,1,2,inf\n",
        b"method,seed,env_steps,return\nx,1,-2,1\n",
        b"method,seed,env_steps,return\nx,1,2,1\nx,1,2,3\n",
        b"method,seed,env_steps,return\n",
        b"method,seed,env_steps,return\nx,1,2," + b"1" * 70_000,
    ],
    "notes.txt": [b"something else"],
}


@pytest.mark.parametrize("command", ["plot", "report"])
@pytest.mark.parametrize(
    ("name", "content"), [(name, content) for name, own in HOSTILE.items() for content in own]
)
def test_what_is_no_log_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, name: str, content: bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    out = tmp_path / "out.png"
    with pytest.raises(SystemExit, match="2"):
        main([command, str(path), "--out", str(out)])
    error = capsys.readouterr().err
    assert error.startswith("lfiw: ") and error.count("\n") == 1 and name in error
    assert len(error) < 600 and "Traceback" not in error
    assert list(tmp_path.iterdir()) == [path]


def test_an_event_file_with_a_flipped_length(tmp_path: Path) -> None:
    folder = write_events(tmp_path / "SAC_1", rollout__ep_rew_mean=[(10, 1.0), (20, 2.0)])
    (file,) = folder.iterdir()
    content = bytearray(file.read_bytes())
    (length,) = struct.unpack("<Q", content[:8])
    content[12 + length + 4] ^= 1  # the second record's
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"is not a TensorBoard file: .* has no valid length"):
        read_methods([tmp_path])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plot", "sac=nowhere"], "nowhere does not exist."),
        (["plot", "=logs"], "Logs are named as METHOD=FOLDER or METHOD=FOLDER,FOLDER, not '=logs'"),
        (["plot", "sac=logs,,logs"], "Logs are named as METHOD=FOLDER"),
        (
            ["report", "logs", "--baseline", "sax"],
            "No run is of the method 'sax'. Did you mean sac?",
        ),
        (["report", "logs", "--methods", "td3"], "No run is of the method 'td3'."),
        (["plot", "empty"], "empty holds neither method folders nor stored results, nor other"),
        (["plot", "linked"], "is missing or not a plain file"),
    ],
)
def test_wrong_names(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_evaluations(Path("logs", "sac_0"), [10], [[1.0]])
    Path("empty").mkdir()
    Path("linked").mkdir()
    Path("linked", "monitor.csv").symlink_to("/dev/zero")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before
