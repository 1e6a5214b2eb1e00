"""Files that a verb is asked to write."""

from __future__ import annotations

from scene import Scene, Words, case


def report_over(scene: Scene, name: str, form: str = "csv") -> Words:
    root = scene.runs_csv("results").parent
    return ["report", "--format", form, "--results-dir", root, "--output", root / name]


@case("name another one with --output")
def report_over_the_runs(scene: Scene) -> Words:
    return report_over(scene, "runs.csv")


@case("name another one with --output")
def report_over_the_leaderboard(scene: Scene) -> Words:
    return report_over(scene, "../results/leaderboard.md", "markdown")


@case("name another one with --output")
def report_over_a_record(scene: Scene) -> Words:
    return report_over(scene, "runs/kkt-one/run.json")


@case("name another one with --output")
def report_over_a_file_that_somebody_wrote(scene: Scene) -> Words:
    scene.file("results/claims.toml", "")
    return report_over(scene, "claims.toml")


@case("name another one with --output")
def report_over_the_report_of_others(scene: Scene) -> Words:
    scene.runs_csv("others")
    scene.file("others/report.html", "")
    return report_over(scene, "../others/report.html", "html")


@case("name another one with --picture")
def list_over_a_picture_of_the_results(scene: Scene) -> Words:
    scene.runs_csv("results")
    return ["list", "--picture", scene.file("results/found.png", "")]


@case("name another one with --output")
def report_as_a_table_over_the_page(scene: Scene) -> Words:
    scene.file("results/report.html", "")
    return report_over(scene, "report.html", "csv")


@case("name another one with --output")
def report_in_the_place_of_a_table(scene: Scene) -> Words:
    words = report_over(scene, "leaderboard.csv")
    (scene.root / "results" / "leaderboard.csv").unlink()
    return words


@case("is there and is no html report; name another file with --output")
def report_over_a_file_beside_the_results(scene: Scene) -> Words:
    scene.file("own.py", "weights = 3")
    return report_over(scene, "../own.py", "html")


@case("is there and is no csv report; name another file with --output")
def report_as_a_table_over_a_file_beside_the_results(scene: Scene) -> Words:
    scene.file("mine.csv", "victim,rank\nmine,1\n")
    return report_over(scene, "../mine.csv", "csv")


@case("lies in a folder to be merged")
def merge_into_a_source(scene: Scene) -> Words:
    folders = [scene.runs_csv(name, scene.record(attack=name)).parent for name in ("one", "two")]
    return ["merge", *folders, "--output", scene.root / "one" / "both"]
