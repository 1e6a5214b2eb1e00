"""The page in headless Chromium, as people see it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.publish.leaderboard import write_tables
from bench.publish.report import write_report
from bench.store.records import RunRecord

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra [dev]")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on the PATH: apt-get install chromium")
PATIENCE_MS = 60_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, timeout=PATIENCE_MS)
        yield browser
        browser.close()


@pytest.fixture
def view(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open a page; at the end, it must have asked for nothing and complained of nothing."""
    heard: list[str] = []
    contexts = []

    def open_page(path: Path, **options: object) -> Page:
        context = browser.new_context(**options)  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", lambda message: heard.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: heard.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (heard.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        address = path.as_uri()
        page.on("request", lambda request: None if asked_by_itself(request.url, address) else heard.append(request.url))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert heard == []


def asked_by_itself(url: str, address: str) -> bool:
    return url.partition("#")[0] == address or url.startswith("data:")


def column(page: Page, heading: str, board: int = 0) -> list[str]:
    """Click a heading of a board and return its column, top to bottom."""
    page.locator("table.board").nth(board).locator("th button", has_text=heading).click()
    return values(page, heading, board)


def values(page: Page, heading: str, board: int = 0) -> list[str]:
    table = page.locator("table.board").nth(board)
    table.locator("thead").hover()  # what was never in sight is not laid out, and has no inner text
    names = [name.strip() for name in table.locator("thead th").all_inner_texts()]
    place = next(i for i, name in enumerate(names) if name.startswith(heading))
    return [
        row.strip().split("\n")[0] for row in table.locator(f"tbody tr > :nth-child({place + 1})").all_inner_texts()
    ]


def test_it_renders(view: Callable[..., Page], built: Path) -> None:
    shown = view(built / "report.html")

    assert shown.title() == "What trained networks give away"
    assert shown.locator("table.board:visible").count() == 3
    sizes = shown.locator("figure svg").evaluate_all("all => all.map(one => one.getBoundingClientRect().height)")
    assert len(sizes) == 14
    widths = shown.locator(".gallery[open] img").evaluate_all("all => all.map(one => [one.naturalWidth, one.width])")
    assert widths
    assert all(natural == 8 and width % natural == 0 for natural, width in widths), "pixels are whole numbers of pixels"


def test_the_number_below_a_picture_has_a_name_beside_it(view: Callable[..., Page], built: Path) -> None:
    shown = view(built / "report.html").locator(".first .examples")
    name, number = (shown.locator(one).first.bounding_box() for one in (".rows .score", "figcaption"))
    assert name is not None and number is not None
    assert abs(name["y"] + name["height"] / 2 - number["y"] - number["height"] / 2) < 10


def test_tables_sort(view: Callable[..., Page], built: Path) -> None:
    shown = view(built / "report.html")
    board = next(i for i in range(3) if shown.locator("table.board").nth(i).locator("tbody tr").count() == 4)

    assert column(shown, "time", board) == ["0.02 s", "1 s", "1.5 min", "–"]
    assert column(shown, "time", board) == ["1.5 min", "1 s", "0.02 s", "–"]
    top = column(shown, "SSIM top 10", board)
    assert top == ["0.700", "0.500", "–", "–"]
    assert [name.split()[0] for name in column(shown, "attack", board)] == ["first-layer", "kkt", "random", "slow"]
    assert [text.split()[0] for text in column(shown, "good", board)] == ["14", "6", "2", "2"]
    assert shown.locator("table.board").nth(board).locator("[aria-sort]").count() == 1
    ranks = column(shown, "rank", board)
    assert ranks[0] == "1"


def test_sorting_one_table_leaves_the_others(view: Callable[..., Page], built: Path) -> None:
    shown = view(built / "report.html")
    before = [values(shown, "attack", board) for board in range(3)]
    column(shown, "time", 1)
    column(shown, "time", 1)

    assert [values(shown, "attack", board) for board in (0, 2)] == [before[0], before[2]]


def test_a_command_is_copied(view: Callable[..., Page], built: Path) -> None:
    shown = view(built / "report.html", permissions=["clipboard-read", "clipboard-write"])
    shown.locator("details.commands summary").first.click()
    shown.locator("button.copy").first.click()
    shown.locator("button.copy", has_text="copied").wait_for()

    assert shown.evaluate("navigator.clipboard.readText()") == shown.locator(".command code").first.inner_text()


def test_names_run_no_script(view: Callable[..., Page], results: Path, scored: Callable[..., RunRecord]) -> None:
    name = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    write_tables(results, [scored(name, run_id=name, victim=name, knowledge=name, flags=name)])
    shown = view(write_report(results))

    assert shown.locator("h2", has_text=name).count() == 1
    assert values(shown, "attack")[0].startswith(name)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_legible_by_day_and_by_night(view: Callable[..., Page], built: Path, scheme: str) -> None:
    shown = view(built / "report.html", color_scheme=scheme)
    luminance = r"""(element, property) => {
        const parts = getComputedStyle(element)[property].match(/\d+/g).slice(0, 3);
        return parts.reduce((sum, part) => sum + Number(part), 0) / 765;
    }"""
    background = shown.locator("body").evaluate(luminance, "backgroundColor")
    inks = [shown.locator(name).first.evaluate(luminance, "color") for name in ("h1", "td[data-value]", ".note")]
    inks.append(shown.locator("figure svg text").first.evaluate(luminance, "fill"))

    assert (background > 0.5) == (scheme == "light")
    assert all(abs(ink - background) > 0.4 for ink in inks)


def test_the_first_screen_holds_the_answer_the_best_picture_and_the_chart(
    view: Callable[..., Page], built: Path
) -> None:
    shown = view(built / "report.html", viewport={"width": 1440, "height": 900})
    first = shown.locator(".first .lead, .first .examples, .first .chart svg")
    places = first.evaluate_all("all => all.map(one => one.getBoundingClientRect().toJSON())")
    assert len(places) == 3 + 1 + 1
    assert all(place["bottom"] <= 900 for place in places)
    assert places[-1]["left"] > places[-2]["right"], "the chart stands beside the picture"


@pytest.mark.parametrize("width", [360, 800, 1440])
def test_it_fits_any_screen(view: Callable[..., Page], built: Path, width: int) -> None:
    shown = view(built / "report.html", viewport={"width": width, "height": 800})
    assert shown.evaluate("document.documentElement.scrollWidth") <= width


def test_what_an_attack_remarks_is_folded_and_makes_no_board_wide(
    view: Callable[..., Page], results: Path, scored: Callable[..., RunRecord]
) -> None:
    remark = "n is not shown: assumed 271, the directions of W1 - c W1(0) that stand above noise of the training"
    write_tables(results, [scored("kkt-delta", flags=f"{remark};not_homogeneous")])
    shown = view(write_report(results), viewport={"width": 1280, "height": 800})
    assert shown.evaluate("document.documentElement.scrollWidth") <= 1280
    assert shown.locator(".board .chip.warning").all_inner_texts() == ["not homogeneous"]
    told = shown.locator(".board .remarks li")
    assert not told.is_visible()
    shown.locator(".board .remarks summary", has_text="1 remark").click()
    assert told.inner_text() == remark


def test_headings_stay_in_sight(view: Callable[..., Page], results: Path, scored: Callable[..., RunRecord]) -> None:
    write_tables(results, [scored(f"attack-{number}", run_id=str(number)) for number in range(40)])
    shown = view(write_report(results), viewport={"width": 1280, "height": 600})
    shown.locator("table.board tbody tr").nth(30).evaluate("row => row.scrollIntoView({behavior: 'instant'})")

    assert shown.locator("table.board thead th").first.bounding_box()["y"] == pytest.approx(0, abs=1)  # type: ignore[index]


def test_names_of_attacks_stay_in_sight_beside_many_networks(
    view: Callable[..., Page], results: Path, scored: Callable[..., RunRecord]
) -> None:
    write_tables(results, [scored(victim=f"cifar-mlp-{number}", run_id=str(number)) for number in range(40)])
    shown = view(write_report(results), viewport={"width": 1280, "height": 800})
    shown.locator("#overview summary").click()
    shown.locator(".heat tbody td").last.evaluate("cell => cell.scrollIntoView({behavior: 'instant'})")
    assert shown.locator(".heat tbody th").first.bounding_box()["x"] >= 0  # type: ignore[index]


def test_a_link_lands_on_its_network_among_many(
    view: Callable[..., Page], results: Path, scored: Callable[..., RunRecord]
) -> None:
    write_tables(results, [scored(victim=f"cifar-mlp-{number}", run_id=str(number)) for number in range(30)])
    shown = view(write_report(results), viewport={"width": 1280, "height": 600})
    last = shown.locator("section.network").last
    shown.evaluate("place => { location.hash = place }", last.get_attribute("id"))

    top = last.bounding_box()["y"]  # type: ignore[index]
    assert 0 <= top < 50, "networks out of sight are laid out when they come into sight, and then have other heights"


def test_one_network_is_counted_in_the_singular(
    view: Callable[..., Page], results: Path, scored: Callable[..., RunRecord]
) -> None:
    write_tables(results, [scored("one")])
    assert view(write_report(results)).locator(".filters output").inner_text() == "1 network"


def test_filters_leave_the_networks_and_pictures_that_are_asked_for(view: Callable[..., Page], built: Path) -> None:
    shown = view(built / "report.html")
    networks, told = shown.locator("section.network:visible h2"), shown.locator(".filters output")
    assert (networks.all_text_contents(), told.inner_text()) == (["faces-mlp-20", "digits-mlp-20"], "2 networks")

    shown.select_option("select[name=attack]", "first-layer")
    assert (networks.all_text_contents(), told.inner_text()) == (["faces-mlp-20"], "1 of 2 networks")
    assert [text.split()[0] for text in shown.locator(".gallery:visible h3").all_text_contents()] == ["first-layer"]

    shown.select_option("select[name=attacker]", "the weights alone")
    assert told.inner_text() == "1 of 2 networks"
    shown.select_option("select[name=family]", shown.locator("section.network").last.get_attribute("data-family"))
    assert told.inner_text() == "0 of 2 networks", "first-layer was not run on digits"
    shown.locator("nav summary").last.click()
    for _ in range(2):  # the second time the address names the network already
        shown.locator("nav a", has_text="digits-mlp-20").click()
        shown.wait_for_function("document.querySelectorAll('section.network:not([hidden])').length === 2")
        shown.select_option("select[name=attack]", "first-layer")
        assert told.inner_text() == "1 of 2 networks"


def test_the_name_of_an_attack_on_a_board_leads_to_its_section(view: Callable[..., Page], built: Path) -> None:
    shown = view(built / "report.html")
    first_layer = shown.locator(".profile", has=shown.locator("h3", has_text="first-layer"))
    assert not first_layer.locator("dl").is_visible()
    shown.locator(".board a.attack", has_text="first-layer").first.click()
    assert first_layer.locator("dl").is_visible()
    assert first_layer.bounding_box()["y"] < 800  # type: ignore[index]

    shown.reload()
    assert shown.locator(".profile[open]").count() == 1, "the address unfolds it, too"


def test_each_kind_of_network_has_a_heading_that_goes_with_its_networks(
    view: Callable[..., Page], results: Path, scored: Callable[..., RunRecord]
) -> None:
    kinds = {"kkt": "two classes", "first-layer": "several classes"}
    write_tables(results, [scored(name, victim=name, family=kind, run_id=name) for name, kind in kinds.items()])
    shown = view(write_report(results))
    headings = shown.locator("h2.family:visible")
    assert sorted(headings.all_text_contents()) == ["several classes", "two classes"]
    assert shown.locator("nav a[href^='#victim']:visible").count() == 0, "of many networks the list would fill a screen"

    shown.select_option("select[name=attack]", "first-layer")
    assert headings.all_text_contents() == ["several classes"]


def test_definitions_of_one_name_have_a_section_each(
    view: Callable[..., Page], results: Path, scored: Callable[..., RunRecord]
) -> None:
    rows = [scored(f"attack-{key}", run_id=key, victim_key=key * 16, victim_sha=key * 64) for key in "ab"]
    write_tables(results, rows)
    shown = view(write_report(results))
    assert shown.locator("section.network h2").all_text_contents() == [
        "faces-mlp-20, definition aaaaaa", "faces-mlp-20, definition bbbbbb",
    ]  # fmt: skip
    assert shown.locator("section.network").first.locator(".board tbody tr").count() == 1


def test_on_paper_the_sections_of_attacks_are_unfolded(view: Callable[..., Page], built: Path) -> None:
    shown = view(built / "report.html")
    folded = shown.locator(".profile dl, .recipe dl").all()
    assert len(folded) >= 4
    assert not any(one.is_visible() for one in folded)
    shown.emulate_media(media="print")
    assert all(one.is_visible() for one in folded)


def test_it_prints(view: Callable[..., Page], built: Path, tmp_path: Path) -> None:
    assert view(built / "report.html").pdf(path=tmp_path / "page.pdf").startswith(b"%PDF")
