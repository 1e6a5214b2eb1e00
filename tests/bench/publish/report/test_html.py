"""The page, read as a browser would: what it says, what it shows, that it loads nothing and runs no one's script."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from markupsafe import escape
from matplotlib.image import imread
from safetensors.numpy import load_file

from bench.publish.leaderboard import write_tables
from bench.publish.published import published
from bench.publish.report import html, write_report
from bench.publish.report.figures.frames import with_own_runs
from bench.publish.report.profiles import recipe
from bench.store.records import RunRecord, Status

Scored = Callable[..., RunRecord]
EVIL = "<script>alert(1)</script>"
NASTY = [EVIL, '"><img src=x onerror=alert(1)>', "{{ 7 * 7 }}", "</style>", "a & b", "$x$", "'", "-->", "é\u202e☃"]


class Parsed(HTMLParser):
    """Elements, attributes and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.lasttag == "script" and self.cdata_elem == "script":
            self.scripts[-1] += data
        else:
            self.text += f"{data} "

    def all(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        return [found for name, found in self.elements if name == tag and attributes.items() <= found.items()]


def test_many_cells_show_their_best_picture_the_leading_one_all_and_controls_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown() -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        page = with_own_runs(write_report(folder).read_text())
        galleries = page[page.index('class="gallery') :]
        for run, group in re.findall(r'<figure data-run="(\S+) [^"]*" data-group="(\w+)"', galleries):
            found.setdefault(run, set()).add(group)
        return found

    few = shown()
    monkeypatch.setattr(html, "MOST_PICTURES", 3)
    many = shown()
    kkt = next(run for run in many if run.startswith("kkt-faces"))
    behind = next(run for run in many if run.startswith("first-layer"))
    assert (many[kkt], many[behind]) == ({"best", "median", "worst"}, {"best"})
    assert {run.partition("-")[0] for run in few.keys() - many.keys()} == {"random"}


def test_it_says_what_is_in_the_folder(page: str) -> None:
    text = " ".join(Parsed(page).text.split())

    assert "8 runs 5 attacks 2 victims 1 failed 1 skipped" in text
    assert "20 training images of faces · test accuracy 75.0%" in text
    assert "python -m bench run -a kkt -v faces-mlp-20 --seeds 0-2" in text
    assert "OutOfMemoryError: no <more> memory" in text
    assert "runs/slow-faces-mlp-20-s0-0123456789/log.txt" in text
    assert "Difference Engine" in text
    assert "13 good of 20, one to one, seed 2, of 3 runs that of median n_good" in text
    assert "told less: not class balance" in text
    assert "1 failed" in text


def test_the_first_picture_tells_the_count_that_ranks(
    results: Path, scored: Scored, stored: Callable[..., None]
) -> None:
    """One to one where a row has that count; under its protocol where it has none, as the informed adversary's."""
    for more, told in (
        ({}, "11 good of 20, one to one. Here"),
        ({"n_good_unique": None, "null_n_good_unique": None}, "12 good of 20 under buzaglo2023. Here"),
    ):
        shutil.rmtree(results, ignore_errors=True)
        run = scored(n_good=12, **more)
        stored(results, run)
        write_tables(results, [run])
        assert told in " ".join(Parsed(write_report(results).read_text()).text.split())


def test_it_shows_figures_and_pictures(page: str) -> None:
    parsed = Parsed(page)

    assert len(parsed.all("table", **{"class": "board"})) == 3
    figures = [one for one in parsed.all("svg") if one.get("class") != "frames"]
    assert len(figures) == 1 + 1 + 4 * 3, "the gains, time for the victim of several attacks, three for each cell"
    assert all(figure["role"] == "img" and figure["aria-label"] for figure in figures)
    assert len(parsed.all("img")) == 4 * 6 + 2 + 2 * 3, (
        "those of each cell, the best of the one that leads, three of each attack"
    )


def test_pictures_are_the_stored_pixels(built: Path, page: str) -> None:
    tensors = load_file(next((built / "runs").glob("kkt-faces-mlp-20-s2-*")) / "examples.safetensors")
    best = np.stack([tensors[name][0] for name in ("reconstruction", "truth", "nearest_held_out")])
    uris = [str(image["src"]) for image in Parsed(page).all("img")]
    shown = [imread(io.BytesIO(base64.b64decode(uri.partition(",")[2])), format="webp") for uri in uris]

    expected = np.zeros((3 * 8 + 2, 8, 4), np.uint8)
    for place, image in enumerate(best.transpose(0, 2, 3, 1)):
        expected[9 * place : 9 * place + 8] = np.dstack([image, np.full((8, 8), 255)])
    assert any(np.array_equal(image, expected) for image in shown)


def test_it_loads_nothing(page: str) -> None:
    loading = ("src", "srcset", "href", "xlink:href", "data", "action", "poster")
    links = [str(value) for _, given in Parsed(page).elements for name, value in given.items() if name in loading]

    assert links
    assert all(link.startswith(("data:", "#")) for link in links)
    assert not re.search(r"@import|url\((?!#)", page)


def test_its_policy_admits_its_own_script_alone(page: str) -> None:
    parsed = Parsed(page)
    (policy,) = [str(meta["content"]) for meta in parsed.all("meta") if meta.get("http-equiv")]
    (script,) = parsed.scripts
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()

    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}'" in policy
    assert not any(name.startswith("on") for _, attributes in parsed.elements for name in attributes)


def named(scored: Scored, names: list[str]) -> list[RunRecord]:
    """A run that ended well and one that failed for each name, which stands wherever a text may stand."""
    texts = ("victim", "dataset", "knowledge", "variant", "protocol", "metric_suite", "flags", "device", "cpu", "gpu")
    texts += ("torch", "bench_version", "git_commit", "lpips_status", "kl_status")
    found = []
    for name in names:
        told = dict.fromkeys(texts, name)
        found.append(scored(name, run_id="a", params_json=json.dumps({name: name}), **told))
        found.append(scored(name, seed=1, run_id="b", status=Status.ERROR, reason=name, **told))
    return found


def test_of_an_attack_of_a_plug_in_it_says_what_describes_it(results: Path, scored: Scored) -> None:
    write_tables(results, [scored("mine"), scored("kkt")])
    text = " ".join(Parsed(write_report(results).read_text()).text.split())
    told = "not known here; if it is a plug-in, python -m bench report --plugin-dir FOLDER describes it"
    assert text.count(told) == 1
    assert f"mine · {told}" in text


def test_a_plug_in_is_described_as_the_program_s_own_are(
    bench: Callable[..., Any], plugins: Path, results: Path, scored: Scored, tmp_path: Path
) -> None:
    """Its summary and parameters, its victim's recipe; and the next report knows nothing of it."""
    run = scored("tiny", victim="faces-mlp-4-tiny", params_json='{"count": 3}')
    write_tables(results, [run])
    (folder := tmp_path / "mine").mkdir()
    shutil.copy(plugins / "tiny.py", folder)
    (folder / "halting.py").write_text("raise ValueError('the wheel came off')")
    told = []
    for words in (("--plugin-dir", folder), ()):
        ended = bench("report", "--results-dir", results, *words)
        assert ended.status == 0
        assert ("halting.py: ValueError: the wheel came off" in ended.err) == bool(words)
        told.append(" ".join(Parsed((results / "report.html").read_text()).text.split()))
    for text in ("tiny · zeros [as many] as asked for", "How it is trained, as described today"):
        assert [text in page for page in told] == [True, False]
    assert ["--set count=3" in page for page in told] == [False, True]  # of an unknown attack all may differ


def test_every_name_is_text(tmp_path: Path, scored: Scored) -> None:
    # a flag with a space is a remark, one without is a chip
    names_of_words = [f"{'a ' * (' ' in name)}name{place}" for place, name in enumerate(NASTY)]
    for root, names in (("nasty", NASTY), ("plain", names_of_words)):
        write_tables(tmp_path / root, named(scored, names))
    nasty, plain = (Parsed(write_report(tmp_path / root).read_text()) for root in ("nasty", "plain"))

    assert all(nasty.text.count(name) >= 15 for name in NASTY)
    assert sorted(tag for tag, _ in nasty.elements) == sorted(tag for tag, _ in plain.elements)
    assert len(nasty.scripts) == 1


def test_tables_alone_make_a_page_without_pictures(folder: Path) -> None:
    shutil.rmtree(folder / "runs")
    parsed = Parsed(write_report(folder).read_text())

    assert len(parsed.all("table", **{"class": "board"})) == 3
    assert parsed.all("img") == []
    assert len(parsed.all("svg")) == 1 + 1


def test_a_folder_gives_the_same_page_again(folder: Path, page: str) -> None:
    assert write_report(folder).read_text() == page


def test_two_protocols_do_not_share_a_map_or_a_board(results: Path, scored: Scored) -> None:
    write_tables(results, [scored(), scored(protocol="balle2022", n_good=3), scored(metric_suite="9", n_good=4)])
    parsed = Parsed(write_report(results).read_text())

    assert len(parsed.all("table", **{"class": "heat"})) == len(parsed.all("table", **{"class": "board"})) == 3


def test_across_knowledge_says_so(folder: Path) -> None:
    text = Parsed(write_report(folder, across_knowledge=True).read_text()).text
    assert text.count("All attacks, whatever they were told") == 2
    assert "Told at most" not in text


def test_an_attack_that_needs_nothing_has_its_board(results: Path, scored: Scored) -> None:
    write_tables(results, [scored(knowledge="")])
    assert re.search(r"Told at most\s+nothing", Parsed(write_report(results).read_text()).text)


def test_a_sweep_of_many_cells_stays_small(folder: Path, records: list[RunRecord]) -> None:
    one = next((folder / "runs").glob("first-layer-*"))
    more = []
    for number in range(60):
        record = records[3].model_copy(update={"run_id": f"copy-{number}", "params_hash": f"{number:010}"})
        shutil.copytree(one, folder / "runs" / record.run_id, ignore=shutil.ignore_patterns("*.csv"))
        more.append(record)
    write_tables(folder, more)
    parsed = Parsed(write_report(folder).read_text())

    assert len(parsed.all("img")) <= 400
    assert len(parsed.all("img")) >= 64 * 3


def test_a_defended_victim_has_the_recipe_and_its_defences() -> None:
    told = recipe("faces-mlp-20+noise=0.1")

    assert told.pop("defended by") == "noise=0.1"
    assert told == recipe("faces-mlp-20") != {}
    assert recipe("faces-mlp-20+gone=0.1") == recipe("nobody") == {}


def test_a_picture_tells_which_training_it_is_of(
    results: Path, scored: Scored, stored: Callable[[Path, RunRecord], None]
) -> None:
    runs = [scored(n_good=good, victim_seed=seed, run_id=str(seed)) for seed, good in ((0, 16), (1, 12), (2, 9))]
    for run in runs:
        stored(results, run)
    write_tables(results, runs)
    text = " ".join(Parsed(write_report(results).read_text()).text.split())
    assert "11 good of 20, one to one, training faces-mlp-20@1, seed 0, of 3 runs that of median n_good" in text


def test_a_paper_s_number_stands_once_beside_all_of_ours(results: Path, scored: Scored) -> None:
    paper = published()[0]
    told = {"attack": paper.attack, "victim": paper.victim, paper.column: 155}
    told |= {name: 9 for name in ("n_good_haim_mean",) if name != paper.column}
    runs = [scored(params_hash=str(place), run_id=str(place), **told) for place in range(3)]
    write_tables(results, runs)
    whole = write_report(results).read_text()
    section = whole.partition('class="network"')[2]
    assert section.count(f'<a href="{paper.link}">{escape(paper.source)}</a>') == 1
    assert section.count("155 of ") == 3
    parsed = Parsed(whole)
    assert {"href": paper.link} in parsed.all("a"), "the attack's profile and the network's section lead to the paper"
    leading = [(tag, given["href"]) for tag, given in parsed.elements if str(given.get("href")).startswith("http")]
    assert {tag for tag, _ in leading} == {"a"}, "a link loads nothing until it is clicked"


def test_old_figures_that_show_classes_by_colour_have_a_key_below(folder: Path, page: str) -> None:
    assert "Colour and marker are the class" in page and "●" not in page
    shutil.rmtree(folder / "runs")
    old = page.replace("Colour and marker are the class", "Colour is the class")
    (folder / "report.html").write_text(old)
    made = write_report(folder).read_text()
    assert made.count("●") == 2 * old.count("<figcaption>SSIM against"), "two classes a figure"


def test_a_paper_s_accuracy_stands_beside_ours_in_another_form(results: Path, scored: Scored) -> None:
    write_tables(results, [scored("kkt", victim="cifar-mlp-500"), scored("kkt", victim="cifar-mlp-500-c10")])
    page = write_report(results).read_text()
    assert page.count("test accuracy 75.0%") == 2
    assert page.count('<span class="theirs">78% in its paper</span>') == 1
