"""Results accumulate: cells are replaced or stay, never lost."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lfiw.cli import main
from lfiw.errors import InputError
from lfiw.learning.config import make_config
from lfiw.report.comparison import choose_baseline
from lfiw.results.methods import read_methods
from lfiw.results.readme import BEGIN, END, evaluations_text, rebuild_page
from lfiw.results.store import add_runs, comparable
from lfiw.runs.files import write_json
from lfiw.settings import to_json

STEPS = 200


def make_run(
    folder: Path,
    returns: dict[int, tuple[float, float]],
    env: str = "Hopper-v5",
    trust: float | None = None,
    **settings: Any,
) -> Path:
    """A finished method folder with two evaluations, at 100 and 200 steps, for each seed."""
    agent, replay = folder.name.split("-")[:2]
    config = make_config(
        env, agent, replay, seeds=list(returns), **({"env_steps": STEPS} | settings)
    )
    folder.mkdir(parents=True)
    write_json(
        folder / "config.json",
        {
            "config": to_json(config),
            "versions": {"jax": "1.2.3"},
            "hardware": {"device": "abacus", "cores": 2},
            "command": ["/somewhere/lfiw/__main__.py", "train", env],
            "commit": "abc1234",
            "started": "2026-01-02T03:04:05+00:00",
        },
    )
    lines = []
    for index, env_steps in enumerate((100, STEPS)):
        for seed, values in returns.items():
            common = {"seed": seed, "env_steps": env_steps, "wall_seconds": float(env_steps)}
            ages = [1.5, 1, 1, 1, 0.5]
            diagnostics = {"q_mean": 0.5, "trust": trust, "weight_by_age": ages}
            lines.append({"kind": "train", **common, **diagnostics})
            evaluation = {"return_mean": values[index], "return_std": 0.0, "length_mean": 9.0}
            lines.append({"kind": "eval", **common, **evaluation})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def returns_of(store: Path, task: str = "Hopper-v5") -> dict[str, dict[int, list[float]]]:
    return {
        method.name: dict(zip(method.curves.seeds, method.curves.returns.tolist(), strict=True))
        for method in read_methods([store])
        if method.task == task
    }


def record(store: Path, method: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((store / "Hopper-v5" / f"{method}.json").read_text())
    return content


def test_what_is_kept_of_a_run(tmp_path: Path) -> None:
    store = tmp_path / "results"
    add_runs([make_run(tmp_path / "sac-lfiw", {0: (1, 2), 3: (5, 6)})], store)
    assert returns_of(store) == {"sac-lfiw": {0: [1, 2], 3: [5, 6]}}
    with (store / "Hopper-v5" / "curves.csv").open() as lines:
        first, *_ = csv.DictReader(lines)
    assert (first["method"], first["seed"], first["env_steps"]) == ("sac-lfiw", "0", "100")
    assert (first["q_mean"], first["weight_by_age_0"], first["alpha"]) == ("0.5", "1.5", "")
    kept = record(store, "sac-lfiw")
    assert (kept["commit"], kept["date"]) == ("abc1234", "2026-01-02T03:04:05+00:00")
    assert (kept["command"], kept["wall_seconds"]) == ("lfiw train Hopper-v5", 200)
    assert kept["config"]["replay"]["temperature"] == 5.0


def test_the_same_seeds_are_replaced_and_other_cells_stay(tmp_path: Path) -> None:
    store = tmp_path / "results"
    add_runs([make_run(tmp_path / "a" / "sac-per", {0: (1, 1)})], store)
    add_runs([make_run(tmp_path / "a" / "sac-lfiw", {0: (2, 2), 1: (3, 3)})], store)
    add_runs([make_run(tmp_path / "a" / "td3-lfiw", {0: (4, 4)}, env="Ant-v5")], store)
    add_runs([make_run(tmp_path / "b" / "sac-lfiw", {0: (9, 8), 1: (7, 6)})], store, commit="new")
    assert returns_of(store) == {
        "sac-per": {0: [1, 1]},
        "sac-lfiw": {0: [9, 8], 1: [7, 6]},
    }
    assert returns_of(store, "Ant-v5") == {"td3-lfiw": {0: [4, 4]}}
    assert record(store, "sac-lfiw")["commit"] == "new"
    assert "earlier_runs" not in record(store, "sac-lfiw")


def test_more_seeds_join_and_keep_where_they_came_from(tmp_path: Path) -> None:
    store = tmp_path / "results"
    add_runs([make_run(tmp_path / "a" / "sac-lfiw", {0: (1, 1), 1: (2, 2)})], store)
    add_runs([make_run(tmp_path / "b" / "sac-lfiw", {1: (5, 5), 2: (3, 3)})], store, commit="b")
    add_runs([make_run(tmp_path / "c" / "sac-lfiw", {3: (4, 4)})], store, commit="c")
    assert returns_of(store)["sac-lfiw"] == {0: [1, 1], 1: [5, 5], 2: [3, 3], 3: [4, 4]}
    kept = record(store, "sac-lfiw")
    assert (kept["config"]["seeds"], kept["commit"]) == ([0, 1, 2, 3], "c")
    assert [(run["seeds"], run["commit"]) for run in kept["earlier_runs"]] == [
        ([1, 2], "b"),
        ([0], "abc1234"),
    ]


def test_seeds_that_were_added_to_a_run_belong_to_it(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a" / "sac-lfiw", {0: (1, 2)})
    (run / "added").mkdir()
    make_run(tmp_path / "b" / "sac-lfiw", {5: (3, 4)}).rename(run / "added" / "seed-5")
    add_runs([run], tmp_path / "results")
    assert returns_of(tmp_path / "results")["sac-lfiw"] == {0: [1, 2], 5: [3, 4]}
    kept = record(tmp_path / "results", "sac-lfiw")
    assert (kept["config"]["seeds"], kept["wall_seconds"]) == ([0, 5], 400)
    log = run / "added" / "seed-5" / "metrics.jsonl"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:2]))
    with pytest.raises(InputError, match="not finished: seed 5 was evaluated up to 100 of 200"):
        add_runs([run], tmp_path / "other")


def test_one_cell_from_two_runs_is_refused(tmp_path: Path) -> None:
    one = make_run(tmp_path / "a" / "sac-lfiw", {0: (1, 1), 1: (2, 2)})
    two = make_run(tmp_path / "b" / "sac-lfiw", {1: (3, 3)})
    with pytest.raises(InputError, match="sac-lfiw both have seed 1 of sac-lfiw; name only one"):
        add_runs([one, two], tmp_path / "results")
    assert not (tmp_path / "results").exists()
    add_runs([one, one], tmp_path / "results")  # the same folder named twice is one


def test_seeds_with_other_settings_do_not_mix(tmp_path: Path) -> None:
    store = tmp_path / "results"
    add_runs([make_run(tmp_path / "a" / "sac-lfiw", {0: (1, 1)})], store)
    other = {"replay.temperature": 2.0}
    with pytest.raises(InputError, match=r"seeds \[0\] with other settings \(replay\)"):
        add_runs([make_run(tmp_path / "b" / "sac-lfiw", {1: (2, 2)}, **other)], store)
    # All of its seeds anew is another matter.
    add_runs([make_run(tmp_path / "c" / "sac-lfiw", {0: (3, 3), 1: (4, 4)}, **other)], store)
    assert returns_of(store)["sac-lfiw"] == {0: [3, 3], 1: [4, 4]}


def test_seeds_that_were_evaluated_in_other_ways_join_and_say_so(tmp_path: Path) -> None:
    """The store has a seed of an older version, whose config names no starts."""
    store, old = tmp_path / "results", make_run(tmp_path / "a" / "sac-lfiw", {0: (1, 2)})
    content = json.loads((old / "config.json").read_text())
    del content["config"]["eval_starts"]
    write_json(old / "config.json", content)
    add_runs([old], store)
    rarely = {"eval_every_env_steps": 20_000, "eval_episodes": 3}
    add_runs([make_run(tmp_path / "b" / "sac-lfiw", {1: (3, 4)}, **rarely)], store)
    add_runs([make_run(tmp_path / "c" / "sac-lfiw", {2: (5, 6)}, **rarely)], store)
    assert returns_of(store)["sac-lfiw"] == {0: [1, 2], 1: [3, 4], 2: [5, 6]}
    kept = record(store, "sac-lfiw")
    fixed = {"eval_every_env_steps": 10_000, "eval_episodes": 5, "eval_starts": "fixed"}
    varied = rarely | {"eval_starts": "varied"}
    assert [(run["seeds"], run["evaluation"]) for run in kept["earlier_runs"]] == [
        ([1], varied),
        ([0], fixed),
    ]
    assert kept["config"]["eval_starts"] == "varied"
    assert evaluations_text(kept) == (
        "3 episodes every 20,000 steps, varied starts (seeds 1, 2); "
        "5 episodes every 10,000 steps, fixed starts (seeds 0)"
    )


def test_other_arguments_of_the_environment_are_another_task(tmp_path: Path) -> None:
    store = tmp_path / "results"
    add_runs([make_run(tmp_path / "a" / "sac-per", {0: (1, 1)})], store)
    other = {"env.kwargs": {"frame_skip": 2}}
    add_runs([make_run(tmp_path / "b" / "sac-per", {0: (2, 2)}, **other)], store)
    assert returns_of(store) == {"sac-per": {0: [1, 1]}}
    assert returns_of(store, "Hopper-v5 (frame_skip=2)") == {"sac-per": {0: [2, 2]}}


def test_nothing_is_written_unless_all_runs_are_finished(tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "sac-ere", {0: (1, 1)})
    make_run(tmp_path / "runs" / "sac-per", {0: (1, 1)}, env_steps=300)
    with pytest.raises(InputError, match="sac-per is not finished: seed 0 was evaluated up to 200"):
        add_runs([tmp_path / "runs"], tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_a_store_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    make_run(tmp_path / "sac-ere", {0: (1, 1)})
    with pytest.raises(InputError, match="cannot be written: Not a directory"):
        add_runs([tmp_path / "sac-ere"], tmp_path / "file")


def test_a_run_that_was_cut_short_is_added_on_request_as_far_as_it_came(tmp_path: Path) -> None:
    run, store = make_run(tmp_path / "sac-per", {0: (1, 2)}, env_steps=300), tmp_path / "results"
    with pytest.raises(SystemExit, match="0"):
        main(["results", "add", str(run), "--results", str(store), "--unfinished"])
    assert returns_of(store) == {"sac-per": {0: [1, 2]}}
    assert "| Hopper-v5 | sac-per | 200 |" in (store / "README.md").read_text()
    (run / "metrics.jsonl").write_text("")
    with pytest.raises(InputError, match="evaluated up to 0 of 300 environment steps"):
        add_runs([run], store, unfinished=True)


def test_a_run_whose_last_evaluation_failed_is_finished(tmp_path: Path) -> None:
    """Nothing is left to train; a run without any evaluation has nothing to add."""
    store, run = tmp_path / "results", make_run(tmp_path / "sac-per", {0: (1, 2)})
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    failed = json.dumps({"kind": "failed eval", "seed": 0, "env_steps": STEPS}) + "\n"
    (run / "metrics.jsonl").write_text("".join([*lines[:-1], failed]))
    add_runs([run], store)
    assert returns_of(store) == {"sac-per": {0: [1]}}
    (run / "metrics.jsonl").write_text(failed)
    with pytest.raises(InputError, match="evaluated up to 0 of 200 environment steps"):
        add_runs([run], store)


def test_a_store_without_the_newer_columns_is_read_and_merged(tmp_path: Path) -> None:
    store = tmp_path / "results"
    add_runs([make_run(tmp_path / "a" / "sac-lfiw", {0: (1, 2)})], store)
    path = store / "Hopper-v5" / "curves.csv"
    with path.open() as lines:
        rows = list(csv.DictReader(lines))
    old = [name for name in rows[0] if name not in ("raw_effective_sample_size", "trust")]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, old, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    assert returns_of(store) == {"sac-lfiw": {0: [1, 2]}}
    add_runs([make_run(tmp_path / "b" / "sac-lfiw", {1: (3, 4)}, trust=0.5)], store)
    assert returns_of(store) == {"sac-lfiw": {0: [1, 2], 1: [3, 4]}}
    with path.open() as lines:
        trusts = {row["seed"]: row["trust"] for row in csv.DictReader(lines)}
    assert trusts == {"0": "", "1": "0.5"}


def test_a_seed_that_was_stopped_is_left_out_and_named(tmp_path: Path) -> None:
    store = tmp_path / "results"
    run = make_run(tmp_path / "sac-lfiw", {0: (1, 2), 1: (3, 4)})
    with (run / "metrics.jsonl").open("a") as log:
        log.write(json.dumps({"kind": "stopped", "seed": 1, "env_steps": 150}) + "\n")
    add_runs([run], store)
    assert returns_of(store) == {"sac-lfiw": {0: [1, 2]}}
    assert record(store, "sac-lfiw")["stopped_seeds"] == [1]
    assert record(store, "sac-lfiw")["config"]["seeds"] == [0]


def test_page_says_what_was_not_run_and_keeps_the_authors_words(tmp_path: Path) -> None:
    store = tmp_path / "results"
    store.mkdir()
    (store / "README.md").write_text(f"# Mine\n\nWords.\n\n{BEGIN}\nstale\n{END}\n\nMore words.\n")
    for _ in range(2):  # a page that is rebuilt stays as it is
        with pytest.raises(SystemExit):
            run = tmp_path / "sac-lfiw"
            if not run.exists():
                make_run(run, {0: (1000, 2000), 1: (3000, 1000)})
            main(["results", "add", str(run), "--results", str(store)])
        page = (store / "README.md").read_text()
        assert page.startswith("# Mine\n\nWords.\n")
        assert page.endswith(f"{END}\n\nMore words.\n")
        assert "stale" not in page
        # Best evaluations 2000 and 3000: 2,500 ± 707 (500 sqrt(2)).
        row = "| sac-lfiw | {} (at 200 steps) | not run | not run | not run | not run |"
        assert row.format("2,500 ± 707") in page
        assert row.format("1,500 ± 707") in page
        assert "| td3-per | not run | not run | not run | not run | - |" in page
        assert "| 2,395 ± 212 |" in page  # the paper's
        evaluations = "5 episodes every 10,000 steps, varied starts"
        assert f"| Hopper-v5 | sac-lfiw | 200 | 0, 1 | {evaluations} | abacus, 2 cores |" in page
        assert "| abc1234 | 2026-01-02 | 3 min 20 s |" in page
        assert "sac-lfiw" in (store / "report" / "index.html").read_text()


FULL = """
import resource, sys
from pathlib import Path
from lfiw.results.readme import rebuild_page
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # as a disk that is full from there on
try:
    rebuild_page(Path(sys.argv[1]))
except OSError:
    print("refused")
"""


def test_a_full_disk_keeps_the_page(tmp_path: Path) -> None:
    store = tmp_path / "results"
    add_runs([make_run(tmp_path / "sac-lfiw", {0: (1.0, 2.0)})], store)
    (store / "README.md").write_text("The author's words. " * 100)
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    command = [sys.executable, "-c", FULL, str(store)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "refused\n"
    assert {path: path.read_bytes() for path in store.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "damage",
    [b"\xff", b"method,seed\nsac-lfiw,x\n", b"a,b\n1,2\n", b"a,b\n1," + 200_000 * b"2" + b"\n"],
    ids=["encoding", "columns", "names", "size"],
)
def test_a_damaged_table_is_refused(tmp_path: Path, damage: bytes) -> None:
    run, store = make_run(tmp_path / "sac-lfiw", {0: (1.0, 2.0)}), tmp_path / "results"
    (path := store / "Hopper-v5" / "curves.csv").parent.mkdir(parents=True)
    path.write_bytes(damage)
    with pytest.raises(InputError, match=r"curves\.csv is not a table"):
        add_runs([run], store)
    assert path.read_bytes() == damage


HEADER = b"method,seed,env_steps,return_mean\n"


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (b"", "it is empty"),
        (b"x,y\n", "its first line does not name method, seed, env_steps, return_mean"),
        (b"sac-lfiw,0,100,1.0\n", "its first line does not name method, seed, env_steps"),
        (HEADER + b"sac-lfiw,0,100\n", "line 2 has 3 columns and not 4"),
        (HEADER + b"sac-lfiw,0,100,1,2\n", "line 2 has 5 columns and not 4"),
        (HEADER + b"sac-lfiw,0,ten,1\n", "line 2 has 'ten' for env_steps, which is not a number"),
        (HEADER + b"sac-lfiw,0,,1\n", "line 2 has '' for env_steps, which is not a number"),
        (HEADER + b"sac-lfiw,0,100,high\n", "line 2 has 'high' for return_mean, which is not"),
        (HEADER + b"sac-lfiw,\xff,100,1\n", "line 2 is not UTF-8 text"),
        (HEADER + b"m," + 70_000 * b"2", "it has a line of more than 65536 bytes."),
    ],
)
def test_what_is_wrong_with_a_table_is_said_in_plain_words(
    tmp_path: Path, damage: bytes, reason: str, capfd: Any
) -> None:
    """Nothing of Python's own words for it, wherever a table is read."""
    run, store = make_run(tmp_path / "sac-lfiw", {0: (1.0, 2.0)}), tmp_path / "results"
    (path := store / "Hopper-v5" / "curves.csv").parent.mkdir(parents=True)
    path.write_bytes(damage)
    for arguments in (["results", "show", "--results", str(store)], ["report", str(store)]):
        with pytest.raises(SystemExit) as exited:
            main(arguments)
        assert exited.value.code == 2
        said = capfd.readouterr().err
        assert said.startswith(f"lfiw: {path} is not a table of evaluations: {reason}")
        assert said.count("\n") == 1
    with pytest.raises(InputError, match=r"curves\.csv is not a table"):
        add_runs([run], store)
    assert [file for file in store.rglob("*") if file.is_file()] == [path]


@pytest.mark.parametrize(
    ("kept", "lost"),
    [
        (
            lambda line: False,
            "sac-lfiw, sac-per: bring back a copy of the table, or remove METHOD.json",
        ),
        (
            lambda line: ",sac-lfiw," in line,
            "sac-per: bring back a copy of the table, or remove sac-per.json",
        ),
    ],
    ids=["all rows", "a method"],
)
def test_rows_that_a_table_has_lost_are_noticed(
    tmp_path: Path, kept: Any, lost: str, capfd: Any
) -> None:
    """The records of both methods outlive the loss of rows, so neither reading nor adding takes
    what is left for all there was."""
    store = tmp_path / "results"
    add_runs([make_run(tmp_path / "a" / "sac-lfiw", {0: (1, 2)})], store)
    add_runs([make_run(tmp_path / "a" / "sac-per", {0: (1, 2), 1: (3, 4)})], store)
    path = store / "Hopper-v5" / "curves.csv"
    header, *lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([header, *filter(kept, lines)]))
    before = {file: file.read_bytes() for file in store.rglob("*") if file.is_file()}
    more = str(make_run(tmp_path / "c" / "sac-ere", {0: (7, 8)}))
    for arguments in (
        ["results", "show", "--results", str(store)],
        ["results", "add", more, "--results", str(store)],
        ["report", str(store)],
    ):
        with pytest.raises(SystemExit) as exited:
            main(arguments)
        assert exited.value.code == 2
        said = capfd.readouterr().err
        assert said.startswith(f"lfiw: {path} has lost the rows of {lost}")
        assert said.count("\n") == 1
    assert {file: file.read_bytes() for file in store.rglob("*") if file.is_file()} == before


def test_some_seeds_alone_and_other_files_are_no_lost_rows(tmp_path: Path) -> None:
    """Whoever looks at some seeds only takes their rows and the method's record as it is; a file
    that is no record has no rows."""
    store = tmp_path / "results"
    add_runs([make_run(tmp_path / "sac-lfiw", {0: (1, 2), 1: (3, 4)})], store)
    path = store / "Hopper-v5" / "curves.csv"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if ",sac-lfiw,1," not in line))
    (store / "Hopper-v5" / "notes.json").write_text('{"words": "of mine"}')
    (store / "Hopper-v5" / "draft.json").write_text("{")
    assert returns_of(store) == {"sac-lfiw": {0: [1, 2]}}


def test_a_table_without_rows_and_records_has_nothing_yet(tmp_path: Path, capfd: Any) -> None:
    path = tmp_path / "curves.csv"
    path.write_bytes(HEADER)
    with pytest.raises(SystemExit) as exited:
        main(["report", str(tmp_path)])
    assert exited.value.code == 2
    assert capfd.readouterr().err == f"lfiw: {path} has no evaluation yet.\n"
    with pytest.raises(InputError, match="no method to compare"):
        choose_baseline([])


def test_a_method_whose_rows_were_lost_can_be_added_anew(tmp_path: Path) -> None:
    """As the sentence says: without its record."""
    store, run = tmp_path / "results", make_run(tmp_path / "sac-per", {0: (1, 2), 1: (3, 4)})
    add_runs([run], store)
    path = store / "Hopper-v5" / "curves.csv"
    path.write_text(path.read_text().splitlines(keepends=True)[0])
    with pytest.raises(InputError, match=r"of sac-per: .* or remove sac-per\.json and add"):
        add_runs([run], store)
    (store / "Hopper-v5" / "sac-per.json").unlink()
    add_runs([run], store)
    assert returns_of(store) == {"sac-per": {0: [1, 2], 1: [3, 4]}}


def test_a_lost_mark_is_refused(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(f"# Mine\n\n{BEGIN}\nwords that would be lost\n")
    with pytest.raises(InputError, match="lost its mark"):
        rebuild_page(tmp_path)
    assert "would be lost" in (tmp_path / "README.md").read_text()


def test_show(tmp_path: Path, capfd: Any) -> None:
    store = tmp_path / "results"
    add_runs([make_run(tmp_path / "sac-lfiw", {0: (10, 20)})], store)
    with pytest.raises(SystemExit):
        main(["results", "show", "--results", str(store)])
    out = capfd.readouterr().out
    assert re.search(r"sac-lfiw +1 +200 +20 +20 +15 ", out)  # one seed has no deviation
    assert "Hopper-v5, not run: sac-uniform, sac-per, sac-ere, sac-lfiw-published" in out


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["add"], "Name at least one method folder."),
        (["add", "nowhere"], "nowhere does not exist."),
        (["show"], "results does not exist."),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str], hint: str, tmp_path: Path, monkeypatch: Any, capfd: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as exited:
        main(["results", *arguments])
    assert exited.value.code == 2
    assert capfd.readouterr().err == f"lfiw: {hint}\n"
    assert list(tmp_path.iterdir()) == []


def test_the_committed_store_is_complete() -> None:
    """The tables of the page follow from its files."""
    store = Path(__file__).parents[2] / "results"
    methods = read_methods([store])
    assert len(methods) >= 7
    for method in methods:
        assert list(method.curves.seeds) == method.config["seeds"]
        assert method.record["commit"]
        assert method.wall_seconds is not None


def test_seeds_join_a_method_that_was_stored_before_there_was_a_floor() -> None:
    env = {"id": "Hopper-v5", "kwargs": {}}
    ratio = {"name": "lfiw", "temperature": 5.0}
    before = {"env": env, "env_steps": 10, "replay": ratio | {"sampling": "uniform", "per": {}}}
    now = ratio | {"over": {"name": "uniform"}, "min_effective_sample_size": 0.0}
    assert comparable(before) == comparable({"env": env, "env_steps": 10, "replay": now})
    known = {"env": env, "env_steps": 10, "replay": now, "deterministic": False}
    assert comparable(before) == comparable(known) != comparable(known | {"deterministic": True})
    floored = now | {"min_effective_sample_size": 0.6}
    assert comparable(before) != comparable({"env": env, "env_steps": 10, "replay": floored})
