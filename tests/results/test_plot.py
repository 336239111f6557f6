from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from report_runs import EVERY, write_run

from lfiw.errors import InputError
from lfiw.results.catalogue import STRATEGIES
from lfiw.results.curves import Curves
from lfiw.results.methods import read_methods
from lfiw.results.plot import check_picture, plot_curves, weights_figure

LFIW, PER = STRATEGIES["lfiw"].colour, STRATEGIES["per"].colour


def curves(env: str = "Ant-v5", method: str = "sac-lfiw", level: float = 1.0) -> Curves:
    steps = np.arange(1, 11) * 1000
    returns = level * np.stack([np.linspace(0, 100, 10), np.linspace(0, 140, 10)])
    return Curves(env, method.partition("-")[0], method, (0, 1), steps, returns)


def pixels(path: Path) -> np.ndarray:
    return matplotlib.image.imread(path)[..., :3]


def share_of(picture: np.ndarray, colour: str) -> float:
    wanted = np.array([int(colour[index : index + 2], 16) for index in (1, 3, 5)]) / 255
    return float(np.mean(np.all(np.abs(picture - wanted) < 0.05, axis=-1)))


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg", ".PNG"])
def test_picture_is_written(tmp_path: Path, suffix: str) -> None:
    path = plot_curves([curves()], tmp_path / "new" / f"curves{suffix}")
    assert path == tmp_path / "new" / f"curves{suffix}"
    starts = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}
    assert path.read_bytes().startswith(starts[suffix.lower()])
    assert path.stat().st_size > 5000


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_picture_does_not_depend_on_the_date(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures = []
    for date in ("0", "1000000000"):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", date)
        pictures.append(plot_curves([curves()], tmp_path / f"{date}{suffix}").read_bytes())
    assert pictures[0] == pictures[1]


def test_each_method_has_its_line_and_its_band(tmp_path: Path) -> None:
    one = pixels(plot_curves([curves()], tmp_path / "one.png"))
    two = pixels(
        plot_curves([curves(), curves(method="sac-per", level=-1.0)], tmp_path / "two.png")
    )
    assert share_of(one, LFIW) > 1e-3
    assert share_of(one, PER) == 0
    assert share_of(two, LFIW) > 1e-3
    assert share_of(two, PER) > 1e-3
    tinted = np.ptp(one, axis=-1) > 0.05  # neither white nor grey: line and band
    assert tinted.mean() > 2 * share_of(one, LFIW)


def test_each_environment_has_its_panel(tmp_path: Path) -> None:
    one = pixels(plot_curves([curves()], tmp_path / "one.png"))
    two = pixels(plot_curves([curves(), curves("Hopper-v5")], tmp_path / "two.png"))
    four = pixels(plot_curves([curves(f"E{index}") for index in range(4)], tmp_path / "four.png"))
    assert two.shape[:2] == (one.shape[0], 2 * one.shape[1])
    assert four.shape[:2] == (2 * one.shape[0], 3 * one.shape[1])


def test_agents_stand_side_by_side(tmp_path: Path) -> None:
    """Three environments with SAC, one of them with TD3 too: three rows, two columns, one empty
    place in each of the other rows."""
    one = pixels(plot_curves([curves()], tmp_path / "one.png"))
    shown = [*(curves(f"E{index}") for index in range(3)), curves("E1", "td3-lfiw")]
    height, width = one.shape[:2]
    grid = pixels(plot_curves(shown, tmp_path / "grid.png"))
    assert grid.shape[:2] == (3 * height, 2 * width)
    right = [share_of(grid[row * height : (row + 1) * height, width:], LFIW) for row in range(3)]
    assert right[0] == right[2] == 0 and right[1] > 1e-3
    place = grid[height // 5 : 4 * height // 5, width + width // 5 : 2 * width - width // 5]
    assert np.all(place == 1)  # not even axes


def test_weights_are_drawn_by_age_and_by_evenness(tmp_path: Path) -> None:
    """Of a run without a floor, which logged no trust, there are two lines less."""
    write_run(tmp_path, "sac-lfiw", {0: [1, 3], 7: [2, 4]}, ess=[0.5, 0.25])
    (method,) = read_methods([tmp_path])
    by_age, evenly = weights_figure(method).axes
    heights = {line.get_label(): line.get_ydata().tolist() for line in by_age.lines}
    assert heights["newest fifth"] == [3.0, 3.0] and heights["oldest fifth"] == [0.2, 0.2]
    (line,) = evenly.lines
    assert line.get_ydata().tolist() == [0.5, 0.25]
    assert line.get_xdata().tolist() == [EVERY, 2 * EVERY]


def test_text_names_methods_and_environment(tmp_path: Path) -> None:
    text = plot_curves([curves()], tmp_path / "a.svg").read_text()
    for words in ("Ant-v5", "sac-lfiw (2 seeds)", "environment steps"):
        assert words in text


def test_one_seed_is_not_several(tmp_path: Path) -> None:
    """The legend counts as people do."""
    one = Curves("Ant-v5", "sac", "sac-lfiw", (0,), np.array([10, 20]), np.array([[3.0, 4.0]]))
    assert "sac-lfiw (1 seed)" in plot_curves([one], tmp_path / "a.svg").read_text()


def test_running_means_are_drawn_and_named(tmp_path: Path) -> None:
    steps, zigzag = np.arange(40), np.tile([0.0, 100.0], 20)[None]
    jagged = Curves("Ant-v5", "sac", "sac-lfiw", (0,), steps, zigzag)
    rough = pixels(plot_curves([jagged, curves(method="sac-per")], tmp_path / "rough.png"))
    smooth = pixels(
        plot_curves([jagged, curves(method="sac-per")], tmp_path / "smooth.png", smooth=9)
    )
    assert share_of(smooth, LFIW) < 0.5 * share_of(rough, LFIW)  # a shorter line
    words = "Running means over 5 evaluations"
    assert words in plot_curves([curves()], tmp_path / "a.svg", smooth=5).read_text()
    assert words not in plot_curves([curves()], tmp_path / "b.svg").read_text()
    for refused in (-3, 0, 2):
        with pytest.raises(InputError, match=f"odd and at least 1, not {refused}"):
            plot_curves([curves()], tmp_path / "c.svg", smooth=refused)


def test_single_evaluation_is_visible(tmp_path: Path) -> None:
    point = Curves("Ant-v5", "sac", "sac-lfiw", (0,), np.array([10]), np.array([[3.0]]))
    assert share_of(pixels(plot_curves([point], tmp_path / "a.png")), LFIW) > 1e-5


@pytest.mark.parametrize("name", ["curves.jpg", "curves", "png", ".png"])
def test_other_formats_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="must end in one of"):
        check_picture(tmp_path / name)
