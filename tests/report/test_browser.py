"""The page in headless Chromium; screenshots are left in pytest's temporary folder."""

import base64
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
from report_runs import write_run

from lfiw.report import write_report
from lfiw.results.catalogue import STRATEGIES

pytestmark = pytest.mark.slow
NO_SELENIUM = "Selenium is not installed; `make install` brings it."
NO_BROWSER = "No Chromium here; `apt-get install chromium chromium-driver` brings it."
HOSTILE = "</script><script>document.title='broken'</script>"
LONG = "a-label-that-is-much-longer-than-anything-a-phone-can-show-in-a-single-line"
TASKS = 2


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason=NO_SELENIUM)
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    program = shutil.which("chromedriver")
    if not (browser and program):
        pytest.skip(NO_BROWSER)
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=program)
    started = webdriver.Chrome(options=options, service=service)
    yield started
    started.quit()


@pytest.fixture(scope="module")
def address(tmp_path_factory: Any) -> str:
    folder = tmp_path_factory.mktemp("report")
    values = {seed: [100.0 * index + 10 * seed for index in range(30)] for seed in (0, 1)}
    better = {seed: [2 * value for value in row] for seed, row in values.items()}
    ess = [1.0, *[0.5] * 29]
    for task, more in enumerate([{}, {"note": HOSTILE}]):
        runs = folder / "runs" / str(task)
        write_run(runs, "sac-uniform", values, **more)
        write_run(runs, "sac-lfiw", better, ess=ess, **more)
        write_run(runs, f"td3-lfiw-{LONG}", better, ess=ess, **more)
    write_report([folder / "runs"], folder / "report")
    return (folder / "report" / "index.html").as_uri()


@pytest.fixture
def page(driver: Any, address: str) -> Iterator[Any]:
    """The page as it opens, on a desktop."""
    resize(driver, 1280, 900)
    driver.get_log("browser")
    driver.get(address)
    yield driver
    assert [entry for entry in driver.get_log("browser") if entry["level"] != "INFO"] == []


def resize(driver: Any, width: int, height: int, mobile: bool = False) -> None:
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def settle(driver: Any) -> None:
    """Panels draw themselves anew in the frame after their width has changed."""
    frames = "requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done)))"
    driver.execute_async_script(f"const done = arguments[0]; {frames}")


def select(driver: Any, css: str) -> list[Any]:
    """What there is once nothing is drawn any more: a node found before would be stale."""
    settle(driver)
    return list(driver.find_elements("css selector", css))


def click(driver: Any, css: str) -> None:
    (node,) = select(driver, css)
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", node)
    node.click()


def screenshot(driver: Any, path: Path) -> np.ndarray:
    """The whole page, also what is below the window."""
    options = {"format": "png", "captureBeyondViewport": True}
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", options)
    path.write_bytes(base64.b64decode(shot["data"]))
    return matplotlib.image.imread(path)[..., :3]


def share_of(picture: np.ndarray, colour: str) -> float:
    wanted = np.array([int(colour[index : index + 2], 16) for index in (1, 3, 5)]) / 255
    return float(np.mean(np.all(np.abs(picture - wanted) < 0.02, axis=-1)))


def test_page_opens_and_draws(page: Any, tmp_path: Path) -> None:
    assert page.title == "Experience replay on Ant-v5, Ant-v5 (note=" + HOSTILE + ")"
    picture = screenshot(page, tmp_path / "desktop.png")
    for name in ("lfiw", "uniform"):
        assert share_of(picture, STRATEGIES[name].colour) > 1e-4
    # Returns of two agents, three diagnostics of each, and the weights of both LFIW methods.
    assert len(select(page, "#task-0 .chart svg[role=img]")) == 2 + 6 + 2
    assert len(select(page, "#forests svg[role=img], #profiles svg[role=img]")) == 2 + 1


def test_click_in_the_legend_hides_a_curve_and_brings_it_back(page: Any, tmp_path: Path) -> None:
    lfiw = "#task-0 .curve[data-strategy=lfiw]"
    button = "#legend button[data-strategy=lfiw]"
    before = len(select(page, lfiw))
    uniform = len(select(page, "#task-0 .curve[data-strategy=uniform]"))
    assert before == 1 + 3 + 5  # return, diagnostics, ages
    click(page, button)
    assert select(page, lfiw) == []
    assert len(select(page, "#task-0 .curve[data-strategy=uniform]")) == uniform == 1
    assert select(page, button)[0].get_attribute("aria-pressed") == "false"
    screenshot(page, tmp_path / "hidden.png")
    click(page, button)
    assert len(select(page, lfiw)) == before


def test_all_methods_hidden_is_no_error(page: Any) -> None:
    for node in select(page, "#legend button"):
        page.execute_script("arguments[0].click()", node)
    assert select(page, "#task-0 .curve") == []
    assert "nothing shown" in select(page, "#task-0 .chart")[0].text


def test_seeds_are_shown_one_by_one(page: Any) -> None:
    assert select(page, ".seed") == []
    click(page, "#seeds button[data-seed='1']")
    shown = select(page, "#task-0 .chart:first-child .seed")
    assert {node.get_attribute("data-seed") for node in shown} == {"1"}
    assert len(shown) == 2
    click(page, "#seeds button[data-seed='1']")
    assert select(page, ".seed") == []
    click(page, "#seeds button:not([data-seed])")
    assert len(select(page, "#task-0 .chart:first-child .seed")) == 4


def read_right_edge(page: Any) -> str:
    """The values of the first chart's last evaluation, by pointing there."""
    from selenium.webdriver.common.action_chains import ActionChains

    plot = select(page, "#task-0 .plot")[0]
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", plot)
    right = plot.size["width"] // 2 - 14
    ActionChains(page).move_to_element_with_offset(plot, right, 0).perform()
    return str(select(page, "#task-0 .readout:not([hidden])")[0].text)


def test_hover_reads_the_values(page: Any) -> None:
    """At the right edge: step 300, returns 2900 and 2910 of uniform, twice that of LFIW. The
    deviation of the sample 2900, 2910 is 10 / sqrt(2)."""
    from selenium.webdriver.common.action_chains import ActionChains

    words = read_right_edge(page)
    assert "300 environment steps" in words
    assert "SAC 2,905 ± 7.07" in words
    assert "SAC + LFIW 5,810 ± 14.1" in words
    ActionChains(page).move_to_element(select(page, "h2")[0]).perform()
    assert select(page, ".readout:not([hidden])") == []


def test_running_mean_smooths_the_returns_and_is_printed(page: Any) -> None:
    """At the right edge, of five points three are there: 2700, 2800 and 2900 of seed 0."""
    click(page, "#smoothing button[data-window='5']")
    assert "SAC 2,805 ± 7.07" in read_right_edge(page)
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    shown = [node.text for node in select(page, "#smoothing button") if node.is_displayed()]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert shown == ["5 points"]
    click(page, "#smoothing button[data-window='1']")
    assert "SAC 2,905 ± 7.07" in read_right_edge(page)


def test_touched_values_stay_until_a_touch_elsewhere(page: Any) -> None:
    plot = select(page, "#task-0 .plot")[0]
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", plot)
    touch(page, plot)
    (readout,) = select(page, ".readout:not([hidden])")
    assert "environment steps" in readout.text
    touch(page, select(page, "#task-0 .chart h4")[0])
    assert select(page, ".readout:not([hidden])") == []


def touch(driver: Any, node: Any) -> None:
    """A tap in the middle."""
    frame = driver.execute_script("return arguments[0].getBoundingClientRect()", node)
    place = {"x": frame["x"] + frame["width"] / 2, "y": frame["y"] + frame["height"] / 2}
    for kind, points in (("touchStart", [place]), ("touchEnd", [])):
        driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


def test_tabs_choose_the_task(page: Any) -> None:
    tabs = select(page, "#tabs button")
    shown = [node.is_displayed() for node in select(page, ".task")]
    assert (len(tabs), shown) == (TASKS, [True, False])
    page.execute_script("arguments[0].click()", tabs[1])
    assert [node.is_displayed() for node in select(page, ".task")] == [False, True]
    assert select(page, "#task-1 .plot svg")[0].size["width"] > 400


@pytest.mark.parametrize("width", [320, 390, 768])
def test_nothing_is_wider_than_a_phone(
    driver: Any, page: Any, address: str, tmp_path: Path, width: int
) -> None:
    resize(driver, width, 800, mobile=True)
    driver.get(address)
    for index in range(TASKS):
        driver.execute_script(f"document.querySelectorAll('#tabs button')[{index}].click()")
        settle(driver)
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    screenshot(driver, tmp_path / "phone.png")
    heights = [node.size["height"] for node in select(driver, ".chips button")]
    assert min(heights) >= 32  # a finger's width


def test_print_shows_every_task_and_no_controls(page: Any, tmp_path: Path) -> None:
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert all(node.is_displayed() for node in select(page, ".task"))
    assert not any(node.is_displayed() for node in select(page, "nav, #tabs, #seeds, #smoothing"))
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    printed = page.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
    content = base64.b64decode(printed["data"])
    (tmp_path / "print.pdf").write_bytes(content)
    assert content.startswith(b"%PDF")
