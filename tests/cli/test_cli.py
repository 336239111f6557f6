import json
import os
import random
import re
import string
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from environments import UNSUPPORTED
from processes import PATIENCE, import_path
from safetensors.numpy import save_file

from lfiw import __version__
from lfiw.agents import AGENTS
from lfiw.cli import COMMANDS, CommandGroup, main, parse_command
from lfiw.cli.train import Train
from lfiw.errors import InputError
from lfiw.learning.config import check, make_config
from lfiw.replay import REPLAYS
from lfiw.runs.trust import signed
from lfiw.settings import walk

ENV = "environments:make_point"


def parse(*arguments: str) -> Any:
    """The command, not run."""
    return parse_command(list(arguments))


def configs(*arguments: str) -> Any:
    command = parse("train", ENV, *arguments)
    assert isinstance(command, Train)
    return command.configs()


class Outcome:
    def __init__(self, code: Any, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def sentence(self) -> str:
        """What a user with bad input sees."""
        assert self.code == 2, self.err
        assert "Traceback" not in self.err
        assert self.out == ""
        (line,) = self.err.splitlines()
        assert line.startswith("lfiw: ")
        return line


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: Any, capfd: Any) -> Any:
    """Runs a command in this process, in an empty working directory."""
    monkeypatch.chdir(tmp_path)
    capfd.readouterr()

    def run(*arguments: str) -> Outcome:
        with pytest.raises(SystemExit) as exited:
            main(list(arguments))
        return Outcome(exited.value.code, *capfd.readouterr())

    return run


def run_process(*arguments: str, cwd: Path, **variables: str) -> Outcome:
    done = subprocess.run(
        [sys.executable, "-m", "lfiw", *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": import_path()} | variables,
        cwd=cwd,
        timeout=PATIENCE,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def method_folder(tmp_path: Path) -> Path:
    """A finished run whose policy always takes the middle action."""
    folder = tmp_path / "runs" / "Point" / "td3-uniform-with-a-rather-long-label"
    (folder / "policies").mkdir(parents=True)
    env = {"id": ENV, "kwargs": {"length": 5}}
    config = {"config": {"env": env, "seeds": [0, 4], "agent": {"name": "sac"}}, **signed(env)}
    (folder / "config.json").write_text(json.dumps(config))
    rows = [
        {"kind": "eval", "seed": seed, "env_steps": env_steps, "return_mean": -12345.0 / env_steps}
        for env_steps in (1000, 2000)
        for seed in (0, 4)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    arrays = {
        "deterministic.0.weight": np.zeros((2, 2), np.float32),
        "deterministic.0.bias": np.zeros(2, np.float32),
        "action_low": np.full(2, -1, np.float32),
        "action_high": np.full(2, 1, np.float32),
    }
    for seed in (0, 4):
        save_file(arrays, folder / "policies" / f"seed-{seed}.safetensors")
    return folder


BAD_TRAIN = [
    (["Pendulumm-v1"], "Unknown environment 'Pendulumm-v1'. Did you mean Pendulum-v1?"),
    (["environments:make_pont"], "Did you mean make_point?"),
    (["nowhere:make"], "No module named 'nowhere'"),
    (["CartPole-v1"], "has actions Discrete(2)"),
    ([ENV, "--agent", "sacc"], "Unknown agent 'sacc'. Did you mean sac?"),
    ([ENV, "--agent", "sac,tdd3"], "Unknown agent 'tdd3'. Did you mean td3?"),
    ([ENV, "--agent", "sac,sac"], "--agent names 'sac,sac' contain one twice."),
    ([ENV, "--agent", ","], "--agent needs at least one name."),
    ([ENV, "--replay", "lfwi"], "Unknown replay strategy 'lfwi'. Did you mean lfiw?"),
    ([ENV, "--replay", ""], "--replay needs at least one name."),
    ([ENV, "--preset", "papr"], "Unknown preset 'papr'. Did you mean paper?"),
    ([ENV, "--set", "replay.temprature=2"], "Did you mean replay.temperature?"),
    ([ENV, "--set", "temperature=2"], "Did you mean replay.temperature?"),
    ([ENV, "--set", "agent=tdd3"], "Unknown agent 'tdd3'. Did you mean td3?"),
    ([ENV, "--set", "replay.temperature"], "--set takes KEY=VALUE"),
    ([ENV, "--set", "=2"], "Unknown setting ''."),
    ([ENV, "--set", "env.kwargs=2"], "env.kwargs has parts of its own"),
    ([ENV, "--set", "env.kwargs.wheels=4"], "wheels"),
    ([ENV, "--set", "replay.temperature=warm"], "takes a value of type float, not 'warm'."),
    ([ENV, "--set", "replay.temperature=0"], "replay.temperature must be above 0, not 0.0."),
    ([ENV, "--set", "replay.temperature=-1"], "replay.temperature must be above 0, not -1.0."),
    ([ENV, "--set", "replay.temperature=nan"], "replay.temperature must be finite, not nan."),
    ([ENV, "--set", "replay.divergence=js"], "replay.divergence cannot be 'js'."),
    ([ENV, "--set", "agent.gamma=1.5"], "agent.gamma must be at most 1, not 1.5."),
    ([ENV, "--set", "replay.fast_size=1e6"], "must be below the ring's capacity"),
    ([ENV, "--set", "batch_size=5001"], "larger than the data before training starts"),
    ([ENV, "--set", "learning_starts=10"], "larger than the data before training starts"),
    ([ENV, "--num-seeds", "0"], "--num-seeds must be at least 1, not 0."),
    ([ENV, "--num-seeds", "-3"], "--num-seeds must be at least 1, not -3."),
    ([ENV, "--seeds", ""], "At least one seed is needed."),
    ([ENV, "--seeds", "0,0"], "Seeds must differ from each other, not [0, 0]."),
    ([ENV, "--seeds", "one"], "--seeds takes a value of type int, not 'one'."),
    ([ENV, "--seeds", "0", "--num-seeds", "2"], "either --seeds or --num-seeds, not both."),
    ([ENV, "--env-steps", "0"], "env_steps must be at least 1, not 0."),
    ([ENV, "--env-steps", "many"], "env_steps takes a value of type int, not 'many'."),
    ([ENV, "--env-steps", "1e12"], "env_steps must be"),
    ([ENV, "--workers", "-1"], "workers must be at least 0, not -1."),
    ([ENV, "--devices", "abacus"], "--devices abacus: jax sees no 'abacus' here"),
    ([ENV, "--devices", "cpu:99"], "--devices cpu:99: choose from the"),
    ([ENV, "--devices", "cpu:0"], "--devices cpu:0: choose from the"),
    ([ENV, "--devices", "cpu:-1"], "--devices cpu:-1: choose from the"),
    ([ENV, "--devices", "cpu:one"], "--devices cpu:one: choose from the"),
    ([ENV, "--devices", "cpu:0,-1"], "--devices cpu:0,-1: choose from the"),
    ([ENV, "--env-steps", "2e9", "--set", "buffer_size=2e9"], "This cannot fit"),
    ([ENV, "--set", "env.max_episode_steps=0"], "env.max_episode_steps must be at least 1"),
    *(([f"environments:{name}"], words) for name, words in UNSUPPORTED.items()),
]


@pytest.mark.parametrize(("arguments", "words"), BAD_TRAIN)
def test_bad_training_input_is_one_sentence(
    cli: Any, tmp_path: Path, arguments: list[str], words: str
) -> None:
    # Should it start at all; and no worker needs to be started to be told.
    few = [] if "--env-steps" in arguments else ["--env-steps", "9"]
    few += [] if "--workers" in arguments else ["--workers", "0"]
    assert words in cli("train", *arguments, *few).sentence()
    assert list(tmp_path.iterdir()) == []


def test_bad_input_to_the_real_command(tmp_path: Path) -> None:
    """Where a worker tries the environment."""
    outcome = run_process("train", "Pendulumm-v1", "--env-steps", "9", cwd=tmp_path)
    assert "Did you mean Pendulum-v1?" in outcome.sentence()
    assert list(tmp_path.iterdir()) == []


def test_outdated_environment_gets_the_new_name(cli: Any, tmp_path: Path) -> None:
    """Gymnasium may print a warning of its own before the sentence."""
    outcome = cli("train", "HalfCheetah-v0", "--env-steps", "9")
    assert outcome.code == 2
    assert "Traceback" not in outcome.err
    *_, line = outcome.err.splitlines()
    assert line.startswith("lfiw: ")
    assert "HalfCheetah-v5" in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("env", "hint"),
    [
        ("Pendulum", "Did you mean Pendulum-v1?"),
        ("ALE/Pong-v5", "Where a package registers it, say which: PACKAGE:ALE/Pong-v5."),
    ],
)
def test_environment_whose_version_or_package_is_not_named(
    cli: Any, tmp_path: Path, env: str, hint: str
) -> None:
    sentence = cli("train", env, "--workers", "0", "--env-steps", "9").sentence()
    assert sentence == f"lfiw: Unknown environment {env!r}. {hint}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("label", ["a/b", "..", "two words", "-"])
def test_label_that_is_no_part_of_a_name(cli: Any, label: str) -> None:
    outcome = cli("train", ENV, f"--label={label}", "--env-steps", "9", "--workers", "0")
    assert "A label has letters" in outcome.sentence()


def test_reader_that_has_seen_enough(method_folder: Path) -> None:
    """Nothing is said about a closed pipe."""
    command = [sys.executable, "-m", "lfiw", "evaluate", str(method_folder), "--json"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": import_path(), "PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_existing_run_is_refused(cli: Any, tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "environments-make_point" / "sac-lfiw"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    options = ("--replay", "uniform,lfiw", "--env-steps", "9")
    sentence = cli("train", ENV, *options).sentence()
    assert "sac-lfiw already holds a training; choose another --out or --label" in sentence
    assert [path.name for path in tmp_path.rglob("*")] == [
        "runs",
        "environments-make_point",
        "sac-lfiw",
        "config.json",
    ]


def test_folder_that_cannot_be_written_is_refused(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("mine")
    outcome = cli("train", ENV, "--env-steps", "9")
    assert outcome.code == 2
    assert "cannot be written" in outcome.err.splitlines()[-1]
    assert "Traceback" not in outcome.err
    assert (tmp_path / "runs").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([], "Say which: `lfiw --help` lists train, resume,"),
        (["--quiet", "train"], "lfiw needs a command before '--quiet'"),
        (["train"], "Name what to train on"),
        (["trian", ENV], "Did you mean train?"),
        (["train", ENV, "--num-seeds", "two"], "--num-seeds takes a value of type int, not 'two'."),
        (["train", ENV, "--num_seeds=two"], "--num-seeds takes a value of type int, not 'two'."),
        (["train", ENV, "--numseeds", "2"], "no option '--numseeds'. Did you mean --num-seeds?"),
        (["train", ENV, "--nonsense", "1"], "lfiw train has no option '--nonsense'."),
        (["train", ENV, "-x"], "lfiw train has no option '-x'."),
        (["train", ENV, "--workers", "1.5"], "--workers takes a value of type int, not '1.5'."),
        (["train", ENV, "--seeds", "-1"], "-1"),
        (["train", ENV, "Pendulum-v1"], "lfiw train does not know what 'Pendulum-v1' is for."),
        (["train", ENV, "--set"], "--set needs a value."),
        (["train", ENV, "--label", "--quiet"], "--label needs a value."),
        (["evaluate"], "lfiw evaluate needs FOLDER: see `lfiw evaluate --help`."),
        (
            ["evaluate", "x", "--episodes", "few"],
            "--episodes takes a value of type int, not 'few'.",
        ),
        (["evaluate", "x", "--which", "latst"], "--which cannot be 'latst'. Did you mean latest?"),
        (["export"], "lfiw export needs FOLDER and --to:"),
        (["bench", "learner", "--call", "3"], "lfiw bench learner has no option '--call'."),
        (["bench", "learner", "--runs", "1,0"], "--runs must be at least 1, not 0."),
        (["demo", "--speed", "2"], "lfiw demo has no option '--speed'."),
    ],
)
def test_wrong_command_lines(cli: Any, tmp_path: Path, arguments: list[str], part: str) -> None:
    assert part in cli(*arguments).sentence()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plot"], "Name at least one method folder."),
        (["plot", "nowhere"], "nowhere does not exist."),
        (
            ["plot", "file"],
            "file holds neither method folders nor stored results, nor other libraries' logs: "
            "evaluations.npz, TensorBoard files, monitor.csv, or a CSV table of returns.",
        ),
        (["plot", "RUN", "--methods", "sac-lfw"], "No run is of the method 'sac-lfw'. Valid"),
        (["report", "RUN", "--methods", ","], "--methods needs at least one name."),
        (["plot", "RUN", "--smooth", "4"], "running mean must be odd and at least 1, not 4."),
        (["plot", "RUN", "--out", "a.jpg"], "a.jpg: the file name must end in one of"),
        (["plot", "RUN", "--out", "file/a.png"], "file/a.png"),
        (["plot", "RUN", "--out", "folder.png"], "folder.png cannot be read or written: Is a dir"),
        (["plot", "a" * 300], "a" * 300 + " cannot be read or written: File name too long."),
        (["verify", "a" * 300], "cannot be read or written: File name too long."),
        (["report"], "Name at least one folder with runs or results."),
        (["report", "nowhere"], "nowhere does not exist."),
        (
            ["report", "RUN", "--env-steps", "1e"],
            "--env-steps takes a value of type int, not '1e'.",
        ),
        (["plot", "RUN", "--env-steps", "1.5"], "--env-steps takes a value of type int, not '1.5'"),
        (["report", "RUN", "--env-steps", "1e2"], "environment steps, not after 100."),
        (
            ["report", "RUN", "--out", "RUN"],
            "is a method folder: choose another one for the report.",
        ),
        (["report", "RUN", "--out", "file"], "file cannot be written"),
        (["record", "nowhere"], "nowhere"),
        (["record", "RUN", "--out", "a.avi"], "a.avi: the file name must end in .mp4 or .gif."),
        (["record", "RUN", "--seed", "1"], "holds no policy of seed 1. It has: seed-0, seed-4."),
        (["record", "RUN", "--out", "file/a.mp4"], "file/a.mp4"),
        (["record", "RUN", "--episode-seed", "-1"], "seed"),
        (["evaluate", "RUN", "--seed", "1"], "holds no policy of seed 1."),
        (["evaluate", "RUN", "--episodes", "0"], "episodes must be at least 1, not 0."),
        (["evaluate", "RUN", "--episode-seed", "-1"], "seed"),
        (["evaluate", "file"], "file is not a method folder"),
        (["settings", "--agent", "sca"], "Unknown agent 'sca'. Did you mean sac?"),
        (["settings", "--replay", "pre"], "Unknown replay strategy 'pre'. Did you mean per?"),
    ],
)
def test_bad_input_to_the_other_commands(
    cli: Any, method_folder: Path, tmp_path: Path, arguments: list[str], words: str
) -> None:
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "folder.png").mkdir()
    before = sorted(tmp_path.rglob("*"))
    arguments = [str(method_folder) if argument == "RUN" else argument for argument in arguments]
    assert words in cli(*arguments).sentence()
    assert sorted(tmp_path.rglob("*")) == before


def test_failure_while_running_is_a_sentence_with_code_1(tmp_path: Path) -> None:
    """The environment was sound when it was checked; its third step was not."""
    arguments = ("environments:make_faulty", "--replay", "uniform", "--workers", "1")
    options = ("--env-steps", "300", "--set", "env.kwargs.at=3")
    outcome = run_process("train", *arguments, *options, cwd=tmp_path)
    assert outcome.code == 1
    assert "Traceback" not in outcome.err
    line = outcome.err.splitlines()[-1]
    assert line.startswith("lfiw: sac-uniform stopped: environments:make_faulty produced a non-")
    assert line.endswith("next_obs at environment step 3.")


def test_home_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    """Compiled programs are kept where they can be; in a container that may be nowhere."""
    (tmp_path / "file").write_text("in the way")
    variables = {"HOME": str(tmp_path / "file"), "XDG_CACHE_HOME": str(tmp_path / "file")}
    options = ("--replay", "uniform", "--env-steps", "9", "--workers", "0")
    outcome = run_process("train", ENV, *options, cwd=tmp_path, **variables)
    assert outcome.code == 0, outcome.err


def test_evaluate_prints_a_table_or_json(cli: Any, method_folder: Path) -> None:
    outcome = cli("evaluate", str(method_folder), "--episodes", "2", "--json")
    assert (outcome.code, outcome.err) == (0, "")
    rows = json.loads(outcome.out)
    assert [row["seed"] for row in rows] == [0, 4]
    for row in rows:
        assert set(row) == {"seed", "return_mean", "return_std", "length_mean", "episodes"}
        assert (row["length_mean"], row["episodes"]) == (5, 2)
    outcome = cli("evaluate", str(method_folder), "--episodes", "2", "--seed", "4")
    assert outcome.code == 0
    assert f"{rows[1]['return_mean']:,.1f} ± {rows[1]['return_std']:,.1f}" in outcome.out


def test_plot_prints_the_table_and_draws(cli: Any, method_folder: Path, tmp_path: Path) -> None:
    outcome = cli("plot", str(tmp_path / "runs"), "--out", "pictures/a.png")
    assert outcome.code == 0
    assert (tmp_path / "pictures" / "a.png").read_bytes().startswith(b"\x89PNG")
    for words in ("2,000", "-6 ± 0", "pictures/a.png"):
        assert words in outcome.out


def test_brackets_in_a_name_are_no_markup(cli: Any, method_folder: Path) -> None:
    folder = method_folder.rename(method_folder.with_name("[red]sac"))
    for command in ("evaluate", "plot"):
        outcome = cli(command, str(folder))
        assert outcome.code == 0 and "[red]sac" in outcome.out, outcome.err


def test_results_are_whole_where_the_output_is_no_terminal(cli: Any, method_folder: Path) -> None:
    """Nothing is cut off at the 80 columns that are assumed there."""
    outcome = cli("plot", str(method_folder))
    assert outcome.code == 0, outcome.err
    assert method_folder.name in outcome.out
    assert "…" not in outcome.out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_each_default_once(cli: Any, name: str, monkeypatch: Any) -> None:
    """And none that a user could not write."""
    monkeypatch.setenv("COLUMNS", "80")
    command = COMMANDS[name]
    groups = command.commands if isinstance(command, CommandGroup) else {"": command}
    for own in groups:
        shown = cli(*filter(None, (name, own)), "--help").out
        described = " ".join(re.sub("[│╭╰─╮╯]", " ", shown).split())
        for words in ("None", "(default: )", "(default: False)", "--no-"):
            assert words not in described, (name, own)
        for text in re.split(r" --[a-z]", described):
            assert text.count("(default:") <= 1, text


def test_debug_shows_the_whole_traceback(cli: Any) -> None:
    """Of the environment too, in whatever process it raised."""
    options = ("train", "environments:make_broken", "--env-steps", "9")
    for more in ((), ("--workers", "0")):
        outcome = cli(*options, *more, "--debug")
        assert outcome.code == 2
        *_, line = outcome.err.splitlines()
        assert line.startswith("lfiw: Environment 'environments:make_broken' could not be made")
        assert "Traceback" in outcome.err
        assert 'raise RuntimeError("the cable' in outcome.err
        assert re.search(r'tests/support/environments.py", line \d+, in make_broken', outcome.err)


def test_missing_dependency_is_named_with_its_command(cli: Any, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)  # as if it were not installed
    for name in [name for name in sys.modules if name.startswith("lfiw.training")]:
        monkeypatch.delitem(sys.modules, name)
    sentence = cli("train", ENV, "--env-steps", "9").sentence()
    assert re.fullmatch(r"lfiw: jax is not installed: .* install \".*", sentence)


def test_quiet_prints_results_alone(cli: Any, tmp_path: Path) -> None:
    options = ("--replay", "uniform", "--env-steps", "9", "--workers", "0")
    talking = cli("train", ENV, *options)
    assert (talking.code, bool(talking.err)) == (0, True)
    quiet = cli("train", ENV, *options, "--label", "q", "--quiet")
    assert (quiet.code, quiet.err) == (0, "")
    assert "sac-uniform-q" in quiet.out
    assert cli("resume", "runs", "--quiet").err == ""


def test_several_tasks_in_one_command(cli: Any, tmp_path: Path) -> None:
    options = ("--replay", "uniform", "--env-steps", "9", "--workers", "0")
    outcome = cli("train", "environments:make_point,environments:make_bandit", *options)
    assert outcome.code == 0, outcome.err
    folders = [f"runs/environments-make_{name}/sac-uniform" for name in ("point", "bandit")]
    assert outcome.out.splitlines()[-2:] == folders
    for folder in folders:
        assert (tmp_path / folder / "policies" / "seed-0.safetensors").is_file()
    made = parse("train", "A-v1,m:f", "--agent", "sac,td3", "--replay", "ere,per").configs()
    names = [(config.env.id, config.method) for config in made]
    assert len(set(names)) == 8
    assert names[0] == ("A-v1", "sac-ere") and names[-1] == ("m:f", "td3-per")


def test_version(capsys: Any) -> None:
    main(["--version"])
    assert capsys.readouterr().out == f"lfiw {__version__}\n"


def test_help_names_every_command(cli: Any) -> None:
    outcome = cli("--help")
    assert outcome.code == 0
    assert set(COMMANDS) >= {"train", "evaluate", "plot", "record", "settings", "demo"}
    for command in COMMANDS:
        assert command in outcome.out


@pytest.mark.parametrize(
    ("command", "options"),
    [
        (
            "train",
            "ENV --agent --replay --num-seeds --seeds --env-steps --preset --out --label "
            "--workers --set",
        ),
        ("evaluate", "FOLDER --episodes --seed --episode-seed --json"),
        ("plot", "FOLDER --out --smooth --methods"),
        ("report", "FOLDER --out --methods"),
        ("record", "FOLDER --seed --episode-seed --out"),
        ("settings", "--agent --replay --preset"),
        ("demo", "--out"),
    ],
)
def test_help_of_every_command(cli: Any, command: str, options: str) -> None:
    outcome = cli(command, "--help")
    assert outcome.code == 0
    assert outcome.err == ""
    for option in options.split():
        assert option in outcome.out
    described = " ".join(outcome.out.split())
    assert str(COMMANDS[command].__doc__).split(":")[0] in described


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("replay", REPLAYS)
def test_settings_are_listed(cli: Any, agent: str, replay: str) -> None:
    outcome = cli("settings", "--agent", agent, "--replay", replay)
    assert outcome.code == 0
    for name, _, value in walk(make_config("ENV", agent, replay)):
        assert name in outcome.out
        if not isinstance(value, dict):
            shown = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            assert shown in outcome.out


def test_defaults() -> None:
    (config,) = configs()
    assert config == make_config(ENV, "sac", "lfiw")
    assert config.seeds == (0,)


def test_seeds() -> None:
    assert configs("--num-seeds", "5")[0].seeds == (0, 1, 2, 3, 4)
    assert configs("--seeds", "0,3,7")[0].seeds == (0, 3, 7)
    assert configs("--seeds", "[3, 7]")[0].seeds == (3, 7)


def test_lists_make_every_combination() -> None:
    made = configs("--agent", "sac,td3", "--replay", "uniform, per ,ere,lfiw")
    assert [config.method for config in made] == [
        f"{agent}-{replay}"
        for agent in ("sac", "td3")
        for replay in ("uniform", "per", "ere", "lfiw")
    ]


def test_numbers_and_presets() -> None:
    assert configs("--env-steps", "1e5")[0].env_steps == 100_000
    assert configs("--env-steps", "2_000")[0].env_steps == 2000
    assert configs("--preset", "paper") == [make_config(ENV, "sac", "lfiw", "paper")]


@pytest.mark.parametrize(
    "form",
    [
        ["--set", "replay.temperature=2.5", "batch_size=64"],
        ["--set", "replay.temperature=2.5", "--set", "batch_size=64"],
        ["--set=replay.temperature=2.5", "--set=batch_size=64"],
        ["--set", "replay.temperature = 2.5", "batch_size=64", "--num-seeds", "1"],
    ],
)
def test_set_in_every_form(form: list[str]) -> None:
    expected = make_config(ENV, batch_size=64, **{"replay.temperature": 2.5})
    assert configs(*form) == [expected]


def test_set_reaches_the_methods_that_have_the_setting() -> None:
    uniform, weighted = configs("--replay", "uniform,lfiw", "--set", "replay.temperature=2")
    assert weighted.replay.temperature == 2.0
    assert uniform == make_config(ENV, "sac", "uniform")


def test_set_of_environment_arguments() -> None:
    options = ("env.kwargs.length=7", "env.kwargs.mode=fast", "env.max_episode_steps=9")
    (config,) = configs("--set", *options, "agent.hidden_sizes=64,32", "agent.target_entropy=-2")
    assert config.env.kwargs == {"length": 7, "mode": "fast"}
    assert config.env.max_episode_steps == 9
    assert config.agent.hidden_sizes == (64, 32)
    assert config.agent.target_entropy == -2.0


def test_later_set_wins() -> None:
    assert configs("--set", "batch_size=1", "batch_size=2")[0].batch_size == 2


def test_random_command_lines_never_crash() -> None:
    """Each is a valid configuration, or one sentence."""
    rng = random.Random(0)
    replays = list(REPLAYS)
    names = [name for replay in replays for name, _, _ in walk(make_config(ENV, "sac", replay))]
    names += ["env.kwargs.x", "", ".", "agent", "replay.per", "env.id."]
    values = ["", "0", "-1", "1", "2.5", "1e3", "1e400", "-0", "nan", "inf", "none", "true", "x"]
    values += ["1,2", "()", "[]", "{}", "(((", "'", "é", "0x10", "1_0", "9" * 30, "sac", "per"]
    refused = 0
    for _ in range(1000):
        assignments = []
        for _ in range(rng.randrange(1, 4)):
            typo = rng.choice(string.printable[:94]) if rng.random() < 0.1 else ""
            equals = rng.choice(["=", "=", "=", "", "=="])
            assignments.append(f"{rng.choice(names)}{typo}{equals}{rng.choice(values)}")
        agent, replay = rng.choice(["sac", "td3"]), rng.choice(replays)
        try:
            for config in Train(ENV, agent, replay, set=tuple(assignments)).configs():
                check(config)
        except InputError as error:
            refused += 1
            assert "\n" not in str(error)
    assert 500 < refused < 1000
