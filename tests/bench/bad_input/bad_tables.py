"""Tables and stored runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scene import Scene, Words, case

from bench.store.records import SCHEMA_VERSION


@case("does not exist")
def compare_missing_file(scene: Scene) -> Words:
    return scene.compare(scene.root / "absent.csv")


@case("holds no runs.csv and no leaderboard.csv; name a results folder or a table")
def compare_empty_folder(scene: Scene) -> Words:
    (scene.root / "empty").mkdir()
    return scene.compare(scene.root / "empty")


@case("is no CSV file that can be read")
def compare_empty_file(scene: Scene) -> Words:
    return scene.compare(scene.file("empty.csv", ""))


@case("garbage.csv")
def compare_binary_garbage(scene: Scene) -> Words:
    return scene.compare(scene.file("garbage.csv", np.random.default_rng(0).bytes(4096)))


@case("is neither a runs.csv nor a leaderboard.csv: it lacks the column")
def compare_other_schema(scene: Scene) -> Words:
    return scene.compare(scene.file("other.csv", "a,b\n1,2\n"))


def leaderboard(scene: Scene, old: str, new: str) -> Words:
    """A comparison with a leaderboard in which some text is replaced."""
    path = scene.runs_csv("new", scene.record(n_good=33, good_images="f")).with_name("leaderboard.csv")
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    return scene.compare(path)


@case("; update the program")
def compare_a_newer_leaderboard(scene: Scene) -> Words:
    return leaderboard(scene, f",{SCHEMA_VERSION},", f",{SCHEMA_VERSION + 1},")


@case("it lacks the column seeds")
def compare_a_leaderboard_without_seeds(scene: Scene) -> Words:
    return leaderboard(scene, ",seeds,", ",sods,")


@case("holds text in a column of numbers")
def compare_a_leaderboard_of_words(scene: Scene) -> Words:
    return leaderboard(scene, ",33,", ",splendid,")


@case("holds -33 in the column n_good; expected a number of 0 or more")
def compare_a_leaderboard_with_negative_counts(scene: Scene) -> Words:
    return leaderboard(scene, ",33,", ",-33,")


@case("holds inf in the column n_good; expected a number of 0 or more")
def compare_a_leaderboard_with_infinity(scene: Scene) -> Words:
    return leaderboard(scene, ",33,", ",inf,")


@case("good_images of kkt on faces-mlp-4: 'xyz' is not 1 lower-case hex digits")
def compare_a_leaderboard_whose_images_are_no_bits(scene: Scene) -> Words:
    return leaderboard(scene, ",0:f,", ",0:xyz,")


@case("has 1 rows of cells that it has already")
def compare_a_leaderboard_with_a_row_twice(scene: Scene) -> Words:
    path = scene.runs_csv("new").with_name("leaderboard.csv")
    path.write_text(path.read_text() + path.read_text().splitlines()[1] + "\n")
    return scene.compare(path)


@case("; update the program")
def compare_newer_schema(scene: Scene) -> Words:
    return scene.compare(scene.runs_csv("new", replace=(f"\n{SCHEMA_VERSION},", f"\n{SCHEMA_VERSION + 1},")))


@case("holds text in a column of numbers")
def compare_words_for_numbers(scene: Scene) -> Words:
    return scene.compare(scene.runs_csv("new", replace=(",0.123457,", ",splendid,")))


@case("is no attack, victim, metric, protocol or column, and no run")
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


@case("holds -4 in the column n; expected a whole number of 1 or more")
def compare_bits_for_a_negative_number_of_images(scene: Scene) -> Words:
    return scene.compare(scene.runs_csv("new", scene.record(good_images="f"), replace=(",faces,4,", ",faces,-4,")))


@case("holds 0 in the column n; expected a whole number of 1 or more")
def compare_no_images(scene: Scene) -> Words:
    return scene.compare(scene.runs_csv("new", replace=(",faces,4,", ",faces,0,")))


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


def cut(scene: Scene, name: str, at: str) -> Path:
    """A runs.csv of two runs whose second one ends in the middle of a cell that holds `at`."""
    path = scene.runs_csv(name, scene.record(), scene.record(seed=1, cpu="zz"))
    text = path.read_text()
    path.write_text(text[: text.rindex(at) + 2])
    return path


@case("is cut short: row 2 has fewer cells than the header")
def compare_a_truncated_file(scene: Scene) -> Words:
    return scene.compare(cut(scene, "new", "zz"))


@case("is cut short: row 2 has fewer cells than the header")
def compare_a_file_truncated_before_its_images(scene: Scene) -> Words:
    return scene.compare(cut(scene, "new", "0123456789"))


@case("is cut short: row 2")
def report_a_truncated_file(scene: Scene) -> Words:
    cut(scene, "results", "kkt")
    return ["report", "--results-dir", scene.root / "results"]


@case("holds inf in the column ssim_mean; expected a finite number")
def compare_infinity(scene: Scene) -> Words:
    return scene.compare(scene.runs_csv("new", replace=(",0.123457,", ",inf,")))


@case("holds -3 in the column n_good; expected a whole number of 0 or more")
def compare_negative_counts(scene: Scene) -> Words:
    return scene.compare(scene.runs_csv("new", scene.record(n_good=33), replace=(",33,", ",-3,")))


@case("holds 0.5 in the column n_good; expected a whole number of 0 or more")
def compare_half_a_count(scene: Scene) -> Words:
    return scene.compare(scene.runs_csv("new", scene.record(n_good=33), replace=(",33,", ",0.5,")))


@case("holds 1e+12 in the column n")
def compare_more_images_than_there_are(scene: Scene) -> Words:
    return scene.compare(scene.runs_csv("new", replace=(",faces,4,", ",faces,1000000000000,")))


@case("holds an empty cell in the column seed")
def compare_a_run_without_a_seed(scene: Scene) -> Words:
    return scene.compare(scene.runs_csv("new", scene.record(seed=77), replace=(",77,", ",,")))


@case("holds an empty cell in the column victim_seed")
def compare_a_run_without_a_victim_seed(scene: Scene) -> Words:
    return scene.compare(scene.runs_csv("new", scene.record(victim_seed=77), replace=(",77,", ",,")))


@case("has the column 'n_good' twice")
def compare_a_column_twice(scene: Scene) -> Words:
    return scene.compare(scene.runs_csv("new", replace=(",n_good,", ",n_good,n_good,")))


@case("has more than 3 rows; keep those that are meant")
def compare_too_many_rows(scene: Scene) -> Words:
    scene.monkeypatch.setattr("bench.publish.board_file.MOST_ROWS", 3)
    return scene.compare(scene.runs_csv("new", *(scene.record(seed=seed) for seed in range(4))))


@case("is no JSON object")
def compare_nested_parameters(scene: Scene) -> Words:
    return scene.compare(scene.runs_csv("new", replace=("{}", "[" * 100_000)))


@case("cannot be read (it is nested too deeply)")
def show_a_nested_run(scene: Scene) -> Words:
    scene.file("results/runs/kkt-one/run.json", '{"a":' + "[" * 100_000)
    return ["show", "kkt-one", "--results-dir", scene.root / "results"]


@case("results/runs.csv away, and `python -m bench run --only-cached --results-dir")
def damaged_table_beside_run_folders(scene: Scene) -> Words:
    scene.file("results/runs/tiny/run.json", "{}")
    scene.file("results/runs.csv", 'attack,victim\nkkt,"fa"ces\n')
    return ["report", "--results-dir", scene.root / "results"]


@case("leaderboard.csv away, and `python -m bench run --only-cached --results-dir")
def damaged_leaderboard_beside_run_folders(scene: Scene) -> Words:
    scene.file("new/runs/tiny/run.json", "{}")
    return scene.compare(scene.file("new/leaderboard.csv", 'attack,victim\nkkt,"fa"ces\n'))


@case("runs.csv is missing; `python -m bench run --only-cached --results-dir")
def report_of_run_folders_without_a_table(scene: Scene) -> Words:
    scene.file("results/runs/tiny/run.json", "{}")
    return ["report", "--results-dir", scene.root / "results"]
