"""Tables and stored runs."""

from __future__ import annotations

import numpy as np
from scene import Scene, Words, case

from bench.records import SCHEMA_VERSION


@case("does not exist")
def compare_missing_file(scene: Scene) -> Words:
    return scene.compare(scene.root / "absent.csv")


@case("is no CSV file that can be read")
def compare_folder(scene: Scene) -> Words:
    return scene.compare(scene.root)


@case("is no CSV file that can be read")
def compare_empty_file(scene: Scene) -> Words:
    return scene.compare(scene.file("empty.csv", ""))


@case("garbage.csv")
def compare_binary_garbage(scene: Scene) -> Words:
    return scene.compare(scene.file("garbage.csv", np.random.default_rng(0).bytes(4096)))


@case("lacks the column")
def compare_other_schema(scene: Scene) -> Words:
    return scene.compare(scene.file("other.csv", "a,b\n1,2\n"))


@case("lacks the column")
def compare_leaderboard(scene: Scene) -> Words:
    return scene.compare(scene.runs_csv("new").with_name("leaderboard.csv"))


@case("; update the program")
def compare_newer_schema(scene: Scene) -> Words:
    return scene.compare(scene.runs_csv("new", replace=(f"\n{SCHEMA_VERSION},", f"\n{SCHEMA_VERSION + 1},")))


@case("holds text in a column of numbers")
def compare_words_for_numbers(scene: Scene) -> Words:
    return scene.compare(scene.runs_csv("new", replace=(",0.123457,", ",splendid,")))


@case("is no attack, victim, metric or protocol, and no run")
def show_unknown(scene: Scene) -> Words:
    return ["show", "xyzzy", "--results-dir", scene.root]


@case("2 runs start with 'kkt-'")
def show_ambiguous_run(scene: Scene) -> Words:
    for name in ("kkt-one", "kkt-two"):
        scene.file(f"results/runs/{name}/run.json", "{}")
    return ["show", "kkt-", "--results-dir", scene.root / "results"]


@case("cannot be read")
def show_damaged_run(scene: Scene) -> Words:
    scene.file("results/runs/kkt-one/run.json", "{")
    return ["show", "kkt-one", "--results-dir", scene.root / "results"]


@case("old.py does not import: ModuleNotFoundError")
def attack_of_a_broken_file(scene: Scene) -> Words:
    return [*scene.plugin("old.py", "import no_such_module_anywhere\n"), "--attack", "old"]


@case("is no CSV file that can be read")
def compare_ragged_rows(scene: Scene) -> Words:
    path = scene.runs_csv("new")
    path.write_text(path.read_text() + "1,2" * 400 + "\n")
    return scene.compare(path)


@case("is no CSV file that can be read")
def compare_utf_16(scene: Scene) -> Words:
    path = scene.runs_csv("new")
    path.write_bytes(path.read_text().encode("utf-16"))
    return scene.compare(path)


@case("is no CSV file that can be read")
def compare_open_quote(scene: Scene) -> Words:
    return scene.compare(scene.runs_csv("new", replace=("{}", '"{}')))


@case("good_images of the run kkt-faces-mlp-4-s0-0123456789")
def compare_images_that_are_no_bits(scene: Scene) -> Words:
    return scene.compare(scene.runs_csv("new", scene.record(good_images="f"), replace=(",f,", ",xyz,")))


@case("good_images of the run kkt-faces-mlp-4-s0-0123456789")
def compare_bits_for_other_images(scene: Scene) -> Words:
    return scene.compare(scene.runs_csv("new", scene.record(good_images="f"), replace=(",f,", ",ffff,")))


@case("good_images of the run kkt-faces-mlp-4-s0-0123456789")
def compare_bits_for_a_negative_number_of_images(scene: Scene) -> Words:
    return scene.compare(scene.runs_csv("new", scene.record(good_images="f"), replace=(",faces,4,", ",faces,-4,")))


@case("has schema '2.5'; expected 1 to")
def compare_half_a_schema(scene: Scene) -> Words:
    path = scene.runs_csv("new")
    head, _, row = path.read_text().partition("\n")
    path.write_text(f"{head}\n2.5{row[1:]}")
    return scene.compare(path)


@case("has the status 'splendid'")
def compare_unknown_status(scene: Scene) -> Words:
    return scene.compare(scene.runs_csv("new", replace=(",ok,", ",splendid,")))


@case("holds text in a column of numbers")
def report_words_for_numbers(scene: Scene) -> Words:
    scene.runs_csv("results", replace=(",0.123457,", ",splendid,"))
    return ["report", "--results-dir", scene.root / "results"]


@case("cannot be read (it holds no record)")
def show_a_list_for_a_run(scene: Scene) -> Words:
    scene.file("results/runs/kkt-one/run.json", "[]")
    return ["show", "kkt-one", "--results-dir", scene.root / "results"]


@case("cannot be read")
def show_bytes_for_a_run(scene: Scene) -> Words:
    scene.file("results/runs/kkt-one/run.json", b"\xff\xfe\x00")
    return ["show", "kkt-one", "--results-dir", scene.root / "results"]


@case("no stored run")
def score_a_run_in_the_folder_of_another(scene: Scene) -> Words:
    scene.file("results/runs/kkt-one/run.json", scene.record(run_id="../../elsewhere").model_dump_json())
    return ["score", "--results-dir", scene.root / "results"]
