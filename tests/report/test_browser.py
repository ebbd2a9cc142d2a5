"""The report in a real browser: what is drawn, what reacts, and that nothing leaves or runs."""

from __future__ import annotations

import json
import shutil
import time

import numpy as np
import pandas as pd
import pytest

from anypca import PPCA

webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
if not (shutil.which("chromium") and shutil.which("chromedriver")):
    pytest.skip(
        "needs chromium and chromedriver (Debian: chromium, chromium-driver)", allow_module_level=True
    )

PLOT = "#scores-plot"
ROWS_NAMED = 6


@pytest.fixture(scope="module")
def names(hostile):
    """Names of the rows, the first ones hostile."""
    return [*hostile, *(f"sample {i}" for i in range(ROWS_NAMED, 60))]


@pytest.fixture(scope="module")
def report(hostile, names, gaussian_table, tmp_path_factory):
    """A report with hostile names of columns, rows, metadata and cells."""
    frame = pd.DataFrame(gaussian_table, columns=list(hostile))
    path = tmp_path_factory.mktemp("report") / "report.html"
    metadata = {"group": ["left"] * 20 + ["right"] * 40, hostile[0]: list(hostile) * 10}
    PPCA(2).fit(frame).report(path, frame, row_names=names, metadata=metadata, title=hostile[1])
    return path


@pytest.fixture(scope="module")
def scores(gaussian_table):
    return PPCA(2).fit_transform(gaussian_table)


@pytest.fixture
def page(browser, report):
    """The page, opened anew, with its scores drawn; the logs start with its load."""
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(report.as_uri())
    wait_for(lambda: count(browser, f"{PLOT} .points path") == 60)
    browser.execute_script(
        "document.getElementById('scores-plot').scrollIntoView({block: 'center', behavior: 'instant'})"
    )
    time.sleep(0.1)
    return browser


def wait_for(condition, seconds=120.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the page did not get there"
        time.sleep(0.05)


def count(browser, selector):
    return browser.execute_script("return document.querySelectorAll(arguments[0]).length", selector)


def texts(browser, selector):
    script = "return [...document.querySelectorAll(arguments[0])].map((node) => node.textContent)"
    return browser.execute_script(script, selector)


def choose(browser, menu, text):
    """Pick the option of this text, as a user does."""
    browser.execute_script(
        """const menu = document.getElementById(arguments[0]);
        menu.value = [...menu.options].find((option) => option.text === arguments[1]).value;
        menu.dispatchEvent(new Event("change", { bubbles: true }));""",
        menu,
        text,
    )


def places(browser):
    """Centre of each point in the window and the row it stands for, (60, 2) and (60,)."""
    found = browser.execute_script(
        """const start = document.querySelector("#scores-plot svg").getBoundingClientRect();
        return [...document.querySelectorAll("#scores-plot .points path")].map((path) => {
          const shift = path.transform.baseVal[0].matrix;
          return [start.x + shift.e, start.y + shift.f, Number(path.dataset.row)];
        });"""
    )
    found = np.array(found)
    return found[np.argsort(found[:, 2]), :2]


def is_affine(pixels, values):
    """Whether places are an affine map of values, to a pixel."""
    slope, start = np.polyfit(values, pixels, 1)
    return slope != 0 and np.abs(slope * values + start - pixels).max() < 1


def move(browser, *stops, held=False):
    """Lead the mouse through points of the window, its button held down from the first on if asked."""
    actions = webdriver.ActionChains(browser, duration=30)
    pointer = actions.w3c_actions.pointer_action
    for number, (x, y) in enumerate(stops):
        pointer.move_to_location(round(x), round(y))
        if held and number == 0:
            pointer.pointer_down()
    if held:
        pointer.pointer_up()
    actions.perform()


def hover_over(browser, row):
    x, y = places(browser)[row]
    move(browser, (x - 30, y - 30), (x, y))
    wait_for(lambda: count(browser, "#tip:not([hidden])") == 1)
    return "".join(texts(browser, "#tip"))


def test_the_plots_are_drawn(page, scores):
    # Row k is where its scores say: pixels are an affine map of them.
    pixels = places(page)
    for k in range(2):
        assert is_affine(pixels[:, k], scores[:, k])
    figures = count(page, "[data-figure]")
    assert figures >= 6
    assert count(page, "[data-figure] svg:has(text)") == figures
    assert texts(page, f"{PLOT} .xtitle")[0].startswith("component 1 (")


def test_hovering_shows_the_name_of_the_row(page, scores, names):
    row = int(np.argmax(scores[:, 0]))
    assert hover_over(page, row).startswith(f"{names[row]}\ncomponent 1")


def test_hostile_names_are_shown_as_they_are(page, hostile):
    for row in range(len(hostile) - 1):
        assert hostile[row] in hover_over(page, row)


def test_zooming_and_moving_keep_points_at_their_scores(page, scores):
    # Labels of the ticks, and so the width of the plane, change with the zoom.
    width = "return Number(document.querySelector('#scores-clip rect').getAttribute('width'))"
    before, wide = places(page), page.execute_script(width)
    page.find_element("id", "zoom-in").click()
    assert is_affine(places(page)[:, 0], scores[:, 0])
    stretch = np.ptp(places(page)[:, 0]) / page.execute_script(width)
    assert stretch == pytest.approx(np.ptp(before[:, 0]) / wide / 0.6, rel=1e-3)
    choose(page, "drag", "moves the plane")
    start = places(page)
    x, y = page.execute_script(
        """const box = document.querySelector("#scores-plot svg").getBoundingClientRect();
        return [box.x + box.width / 2, box.y + box.height / 2];"""
    )
    move(page, (x, y), (x + 40, y - 20), held=True)
    np.testing.assert_allclose(places(page) - start, np.tile([40, -20], (60, 1)), atol=1)
    page.find_element("id", "reset").click()
    np.testing.assert_allclose(places(page), before, atol=0.01)


def test_colouring_by_another_column_changes_the_plot(page, hostile):
    fills = (
        "return [...document.querySelectorAll('#scores-plot .points path')].map((path) => path.style.fill)"
    )
    assert texts(page, "#legend .entry") == ["left", "right"]
    assert len(set(page.execute_script(fills))) == 2
    choose(page, "colour", "plain")
    wait_for(lambda: count(page, "#legend .colorbar") == 1)
    assert len(set(page.execute_script(fills))) > 10
    choose(page, "colour", hostile[0])
    wait_for(lambda: count(page, "#legend .entry") == len(hostile))
    assert sorted(texts(page, "#legend .entry")) == sorted(hostile)
    choose(page, "colour", "none")
    wait_for(lambda: count(page, "#legend .entry") == 0)
    assert len(set(page.execute_script(fills))) == 1


def test_the_lasso_fills_the_table(page, scores, names):
    pixels = places(page)
    order = np.argsort(pixels[:, 0])
    # Between the two points with the widest gap, so that rounding of pixels decides nothing.
    gap = int(np.argmax(np.diff(pixels[order, 0][20:50]))) + 20
    x = pixels[order, 0][gap : gap + 2].mean()
    box = page.execute_script(
        """const box = document.querySelector("#scores-plot svg").getBoundingClientRect();
        return [box.left, box.top, box.right, box.bottom];"""
    )
    right, top, bottom = box[2] - 2, box[1] + 2, box[3] - 2
    move(page, (x, top), (x, bottom), (right, bottom), (right, top), (x, top), held=True)
    wait_for(lambda: count(page, "#selected td") > 0)
    expected = [names[i] for i in sorted(order[gap + 1 :])]
    assert texts(page, "#selected tbody tr td:first-child") == expected
    assert f"{len(expected)} rows selected" in texts(page, "#selected p")[0]
    found = [float(text) for text in texts(page, "#selected tbody tr td:nth-child(2)")]
    np.testing.assert_allclose(found, scores[sorted(order[gap + 1 :]), 0], rtol=1e-3, atol=1e-3)
    # The table follows the colour.
    choose(page, "colour", "plain")
    assert texts(page, "#selected th")[-1] == "plain"


def test_nothing_runs_nothing_leaves_nothing_fails(page, hostile, report):
    for column in ("group", *hostile, "none"):
        choose(page, "colour", column)
    hover_over(page, 30)
    # Open what is folded away, too.
    page.execute_script("for (const part of document.querySelectorAll('details')) part.open = true")
    time.sleep(0.5)
    assert page.execute_script("return window.hacked === undefined")
    assert count(page, "img, iframe, object, main a, main script") == 0
    body = page.execute_script("return document.body.innerText")
    assert all(name in body for name in hostile)
    assert page.title == hostile[1]
    messages = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    sent = [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]
    assert report.as_uri() in sent
    assert [url for url in sent if not url.startswith((report.as_uri(), "data:", "blob:"))] == []
    # The security policy would complain here of whatever tried to run.
    assert page.get_log("browser") == []
