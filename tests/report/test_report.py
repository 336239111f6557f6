import csv
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from report_runs import write_run

import lfiw.paper.chain
import lfiw.report.figures
import lfiw.results.plot
from lfiw.cli import main
from lfiw.errors import InputError
from lfiw.paper.chain import ChainConfig, run_chain, save_chain
from lfiw.report import make_texts, write_report
from lfiw.report.figures import write_figures
from lfiw.report.page import MAX_POINTS, embed
from lfiw.report.summary import summarise
from lfiw.results.catalogue import STRATEGIES
from lfiw.results.methods import read_methods
from lfiw.results.readme import runs_table
from lfiw.wording import one_line

HOSTILE = "</script><script>document.title='broken'</script><!-- {{css}} \u2028 & $x^$"


class Page(HTMLParser):
    """Rows of all tables as texts, scripts, and everything that is fetched."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.scripts: list[str] = []
        self.links: list[str] = []
        self.bold: list[str] = []
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("meta", "link"):
            return
        self._open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("th", "td"):
            self.tables[-1][-1].append("")
        elif tag == "script":
            self.scripts.append("")
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["script"]:
            self.scripts[-1] += data
        elif {"td", "th"} & set(self._open):
            words = f" ({data})" if self._open[-1] == "small" else data
            self.tables[-1][-1][-1] += words
            if self._open[-1] == "strong":
                self.bold.append(data)


def report(runs: Path) -> tuple[Page, dict[str, str]]:
    """The page, and all texts by file name."""
    methods = read_methods([runs])
    texts = make_texts(methods, summarise(methods))
    return Page(texts["index.html"]), texts


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Maxima 1000 and 3000 against 2000 and 6000; LFIW reaches 2000 at half the steps."""
    folder = tmp_path / "runs"
    write_run(folder, "sac-uniform", {0: [0, 1000], 1: [0, 3000]}, env="HalfCheetah-v5")
    lfiw = {0: [1500, 2000], 1: [2500, 6000]}
    write_run(folder, "sac-lfiw-published", lfiw, env="HalfCheetah-v5", ess=[1.0, 0.5])
    return folder


def test_tables_by_hand(runs: Path) -> None:
    page, texts = report(runs)
    assert "(the paper's numbers: HalfCheetah-v2, 1,000,000 steps)" in texts["tables.md"]
    task = page.tables[0]
    assert task[1][:4] == [*("SAC", "2 × 20", "2,000 ± 1,414 (paper 6,548 ± 635)", "2,000 ± 1,414")]
    # Areas (1500 + 2000) / 2 and (2500 + 6000) / 2; of four pairs of finals, 2000 against 3000
    # is lost.
    assert task[4][:5] == [
        *("SAC + LFIW (published)", "2 × 20", "4,000 ± 2,828 ★ (paper 7,037 ± 629)"),
        *("4,000 ± 2,828 ★", "3,000 ± 1,768 ★"),
    ]
    assert task[4][5].startswith("4,000 (2,000 to 6,000")
    assert task[4][6].startswith("0.75 (")
    assert task[1][7].startswith("0.25 (") and task[4][7:] == ["–", "–", "–"]
    assert page.bold.count("4,000 ± 2,828") == 4  # maximum and final, twice each


def test_cell_that_was_not_run_says_so(runs: Path) -> None:
    page, texts = report(runs)
    overview = page.tables[1]
    assert overview[0] == ["method", "Hopper", "Walker2d", "HalfCheetah-v5", "Ant", "Humanoid"]
    assert overview[2][:4] == [
        *("SAC + PER", "not run (paper 1,853 ± 106)", "not run (paper 3,210 ± 418)"),
        "not run (paper 6,816 ± 531)",
    ]
    assert overview[7][5] == "–"  # the paper has no TD3 on Humanoid either
    rows = list(csv.DictReader(io.StringIO(texts["cells.csv"])))
    assert len(rows) == 5 * 7 - 3
    assert {row["status"] for row in rows} == {"run", "not run"}


def test_variant_has_rows_only_where_it_ran(runs: Path) -> None:
    write_run(runs / "hopper", "sac-uniform", {0: [100, 200]}, env="Hopper-v5")
    write_run(runs / "hopper", "sac-lfiw-temperature=1", {0: [100, 300]}, env="Hopper-v5")
    page, texts = report(runs)
    title = "SAC + LFIW (temperature=1)"
    (overview,) = [row for row in page.tables[2] if row[0] == title]
    assert overview[1].startswith("300 ★") and overview[2:] == ["–"] * 4
    of_tasks = page.tables[:2]  # Hopper's, HalfCheetah's
    assert [any(row[0] == title for row in table) for table in of_tasks] == [True, False]
    rows = csv.DictReader(io.StringIO(texts["cells.csv"]))
    assert [row["task"] for row in rows if "temperature" in row["method"]] == ["Hopper-v5"]


def test_numbers_as_csv_and_markdown(runs: Path) -> None:
    _, texts = report(runs)
    rows = csv.DictReader(io.StringIO(texts["cells.csv"]))
    (row,) = [
        row for row in rows if (row["status"], row["method"]) == ("run", "sac-lfiw-published")
    ]
    expected = {"maximum_mean": 4000, "maximum_std": 2828.427, "maximum_best": 1, "area_mean": 3000}
    expected |= {"published_maximum_mean": 7037, "improvement": 0.75, "stopped": 0}
    assert {name: float(row[name]) for name in expected} == expected
    # Two evaluations are too few to be smoothed, or to count collapses.
    assert (row["efficiency_ratio"], row["collapses"]) == ("", "")
    text = texts["tables.md"]
    assert "| SAC + LFIW (published) | not run (paper 2,395 ± 212) |" in text
    assert "**4,000 ± 2,828** ★ (paper 7,037 ± 629)" in text
    rows = csv.DictReader(io.StringIO(texts["aggregates.csv"]))
    assert [row["method"] for row in rows] == ["sac-uniform", "sac-lfiw-published"]


MARKUP = "<img src=x> `code` [a](b) ![c](http://d/e.png) **f** \\"


def test_names_of_strangers_are_no_markup(tmp_path: Path) -> None:
    """Neither in titles nor in cells; a backslash at the end would open the cell's wall."""
    run = write_run(
        tmp_path / "runs", f"sac-lfiw-{MARKUP}".replace("/", ""), {0: [1, 2]}, note=MARKUP
    )
    content = json.loads((run / "config.json").read_text())
    content |= {"commit": f"\n\n{MARKUP}\n# heading", "versions": {MARKUP: MARKUP}}
    (run / "config.json").write_text(json.dumps(content))
    _, texts = report(tmp_path / "runs")
    text = texts["tables.md"]
    assert "<" not in text and "# heading" in text
    assert not re.search(r"(?<!\\)`|(?<!\\)\[|\n#|(?<!\\)\*\*f", text)
    table = [line for line in text.splitlines() if "# heading" in line]
    assert len(table) == 1
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", table[0])) == 8  # seven cells


@pytest.mark.parametrize("start", ["=", "+", "-", "@"])
def test_names_of_strangers_are_no_formulas(tmp_path: Path, start: str) -> None:
    task = f"{start}cmd|'/c calc'!A1"
    write_run(tmp_path / "runs", "sac-uniform", {0: [-3, -2], 1: [-4, -1]}, env=task)
    write_run(tmp_path / "runs", f"{start}SUM(1)", {0: [1, 2]}, env=task)
    _, texts = report(tmp_path / "runs")
    for name in ("cells.csv", "aggregates.csv"):
        rows = list(csv.DictReader(io.StringIO(texts[name])))
        cells = [cell for row in rows for cell in row.values()]
        suspects = [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]
        assert all(float(cell) < 0 for cell in suspects)  # numbers stay numbers
        assert f"'{task}" in cells
    rows = csv.DictReader(io.StringIO(texts["cells.csv"]))
    assert {"sac-uniform": "-1.5"}.items() <= {
        row["method"]: row["final_mean"] for row in rows
    }.items()


def test_figures_are_written(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "report"
    write_report([runs], folder)
    starts = {"png": b"\x89PNG", "pdf": b"%PDF"}
    for name in ("curves", "profiles", "q_mean", "effective_sample_size", "balanced_accuracy"):
        for suffix, start in starts.items():
            assert (folder / f"{name}.{suffix}").read_bytes().startswith(start)


def test_a_strategy_has_one_colour_everywhere(tmp_path: Path, monkeypatch: Any) -> None:
    """In all figures and on the page, and the paper's strategies in the chain's figure too."""
    values = {0: [1.0, 2.0], 1: [2.0, 3.0]}
    write_run(tmp_path, "sac-mine", values)  # has no diagnostics
    write_run(tmp_path, "sac-uniform", values)
    write_run(tmp_path, "sac-lfiw", values, ess=[1.0, 0.5])
    write_run(tmp_path, "sac-other", values, ess=[1.0, 0.5])
    saved: dict[str, Any] = {}
    for module in (lfiw.results.plot, lfiw.paper.chain):
        monkeypatch.setattr(module, "save_figure", lambda f, path: saved.update({path.stem: f}))
    methods = read_methods([tmp_path])
    write_figures(methods, summarise(methods), tmp_path)
    save_chain(run_chain(ChainConfig(max_epochs=3, sweep_discounts=(0.9,))), tmp_path)

    def colours(name: str, words: str) -> set[str]:
        lines = [line for axes in saved[name].axes for line in axes.lines]
        labels = {line: line.get_label().lower() for line in lines}
        return {
            line.get_color()
            for line, label in labels.items()
            if words in label and ("floor" in words or "floor" not in label)
        }

    looks = json.loads(report(tmp_path)[0].scripts[0])["looks"]
    assert len(saved) == 6
    for strategy in ("lfiw", "other"):
        for name in saved.keys() - {"chain"}:
            assert colours(name, strategy) == {looks[strategy]["colour"]}
    assert colours("chain", "stationary") == {looks["lfiw"]["colour"]}
    assert len(colours("chain", ", floor") - {looks["lfiw"]["colour"]}) == 1
    assert colours("chain", "uniform") == {looks["uniform"]["colour"]}
    assert colours("curves", "uniform") == {looks["uniform"]["colour"]}
    assert colours("chain", "td error") == {STRATEGIES["per"].colour}


def test_the_page_draws_the_diagnostics_of_the_catalogue(runs: Path) -> None:
    data = json.loads(report(runs)[0].scripts[0])
    shown = {one["name"]: one for one in data["diagnostics"]}
    (lfiw,) = [one for one in data["tasks"][0]["methods"] if one["strategy"] == "lfiw-published"]
    assert list(shown) == list(lfiw["diagnostics"])
    size = shown["effective_sample_size"]
    assert size["title"] == "effective sample size, share of the batch"
    assert (size["log"], size["limits"], size["reference"]) == (True, None, 1)
    assert len(data["ages"]) == len(lfiw["ages"]) == 5


def test_page_is_self_contained(runs: Path) -> None:
    page, texts = report(runs)
    text = texts["index.html"]
    assert not re.search(r"https?:|//[a-z]|@import|url\(", text)
    assert all(link.startswith(("#", "data:")) for link in page.links)


def test_circumstances_are_told(runs: Path) -> None:
    page, texts = report(runs)
    (row,) = page.tables[-1][1:]
    assert row == [
        *("SAC, SAC + LFIW (published)", "HalfCheetah-v5", "not recorded", "A Device, 3 cores"),
        *("python 3.11.1, jax 0.10.2", "lfiw train HalfCheetah-v5 --label 'two words'", "20 s"),
    ]
    text = texts["index.html"]
    assert text.count("<details>") == 2
    assert "&quot;name&quot;: &quot;lfiw&quot;" in text


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    write_run(tmp_path / "runs", "sac-lfiw", {0: [1.0, 2.0]}, note=HOSTILE)
    page, texts = report(tmp_path / "runs")
    assert len(page.scripts) == 2
    shown = one_line(f"Ant-v5 (note={HOSTILE})")
    assert json.loads(page.scripts[0])["tasks"][0]["name"] == shown
    assert page.tables[1][0][4] == shown
    assert "<" not in texts["tables.md"]
    write_report([tmp_path / "runs"], tmp_path / "report")


def test_embedded_json_closes_no_script() -> None:
    assert "<" not in embed({HOSTILE: HOSTILE})
    assert json.loads(embed({HOSTILE: [HOSTILE, None]})) == {HOSTILE: [HOSTILE, None]}


def test_single_seed_is_shown_without_intervals(tmp_path: Path) -> None:
    for name, level in (("sac-uniform", 1.0), ("sac-lfiw", 2.0)):
        write_run(tmp_path / "runs", name, {0: [level, 2 * level]})
    page, texts = report(tmp_path / "runs")
    (aggregate,) = [a for a in json.loads(page.scripts[0])["aggregates"] if a["improvement"]]
    assert aggregate["improvement"] == [1, None, None]
    rows = [line for line in texts["tables.md"].splitlines() if line.startswith("| SAC")]
    assert rows and not any(" to " in row for row in rows)


def test_entries_that_are_null_are_no_obstacle(tmp_path: Path) -> None:
    run = write_run(tmp_path / "runs", "sac-uniform", {0: [1.0]})
    content = json.loads((run / "config.json").read_text())
    content["config"]["env_steps"] = content["hardware"] = content["versions"] = None
    (run / "config.json").write_text(json.dumps(content))
    report(tmp_path / "runs")
    assert "jax None" in runs_table(read_methods([tmp_path / "runs"])).markdown()


def test_number_that_is_not_finite_is_no_obstacle(tmp_path: Path) -> None:
    returns: dict[int, list[Any]] = {0: [1.0, None, 3.0], 1: [1.0, 2.0, 3.0]}
    write_run(tmp_path / "runs", "sac-uniform", returns)
    page, _ = report(tmp_path / "runs")
    assert json.loads(page.scripts[0])["tasks"][0]["methods"][0]["returns"][0] == [1, None, 3]
    assert page.tables[0][1][2:4] == ["not finite (paper 3,138 ± 283)", "3 ± 0"]


def test_long_curves_are_thinned_on_the_page_but_not_in_the_tables(tmp_path: Path) -> None:
    """The maximum is at a place that is not drawn."""
    values = [float(index % 7) for index in range(3000)]
    values[1501] = 5000.0
    write_run(tmp_path / "runs", "sac-uniform", {0: values})
    page, _ = report(tmp_path / "runs")
    (drawn,) = json.loads(page.scripts[0])["tasks"][0]["methods"]
    assert len(drawn["steps"]) == MAX_POINTS
    assert (drawn["steps"][0], drawn["steps"][-1]) == (10, 30000)
    assert drawn["returns"][0] == [values[step // 10 - 1] for step in drawn["steps"]]
    assert page.tables[0][1][2].startswith("5,000 (paper")


def test_forty_runs_on_five_tasks_fit_into_five_megabytes(tmp_path: Path) -> None:
    names = [f"{agent}-{replay}" for agent in ("sac", "td3") for replay in ("uniform", "lfiw")]
    values = [round(1234.567 * index**0.5, 4) for index in range(300)]
    for env in ("Hopper-v5", "Walker2d-v5", "HalfCheetah-v5", "Ant-v5", "Humanoid-v5"):
        for name in names:
            seeds = dict.fromkeys(range(10), values)
            ess = [0.123456] * 300 if name.endswith("lfiw") else None
            write_run(tmp_path / "runs" / env, name, seeds, env=env, ess=ess)
    _, texts = report(tmp_path / "runs")
    assert len(texts["index.html"].encode()) < 5e6


def test_report_is_the_same_every_time(runs: Path) -> None:
    assert report(runs)[1] == report(runs)[1]


def test_report_is_never_taken_for_results(runs: Path) -> None:
    before = report(runs)[1]
    write_report([runs], runs / "report")
    assert report(runs)[1] == before


def test_command(runs: Path, tmp_path: Path, capfd: Any) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["report", str(runs), "--out", str(tmp_path / "new" / "report")])
    assert exited.value.code == 0
    out = capfd.readouterr().out.split()
    assert out[0] == str(tmp_path / "new" / "report" / "index.html")
    assert all(Path(name).is_file() for name in out)


def test_bad_input_is_one_sentence(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match="file cannot be written"):
        write_report([runs], tmp_path / "file")
    with pytest.raises(InputError, match="does not exist"):
        write_report([tmp_path / "nowhere"], tmp_path / "report")
    assert not (tmp_path / "report").exists()
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.filterwarnings("error")
def test_long_names_are_wrapped_in_the_figures(tmp_path: Path) -> None:
    """In one line two of them were wider than the figure, and matplotlib gave up with a warning."""
    values = {0: [1.0, 2.0], 1: [2.0, 3.0]}
    for letter in "ab":
        label = "-".join(9 * ["longer"]) + letter
        write_run(tmp_path / "runs", f"sac-lfiw-{label}", values, ess=[1.0, 0.5])
    write_report([tmp_path / "runs"], tmp_path / "report")
    assert (tmp_path / "report" / "effective_sample_size.png").is_file()
