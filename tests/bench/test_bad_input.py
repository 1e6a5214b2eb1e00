"""What a user gets wrong: one line that names the cause, exit status 2, no traceback, nothing half-written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError

import numpy as np
import pytest
import torch

from bench.leaderboard import write_tables
from bench.records import RunRecord

Words = list[object]


@dataclass
class Scene:
    """What a case may build on."""

    root: Path
    plugins: Path
    monkeypatch: pytest.MonkeyPatch
    record: Callable[..., RunRecord]

    def run(self, *words: object, victim: str = "faces-mlp-4-tiny", attack: str = "tiny") -> Words:
        """A run that would work but for `words`."""
        name, folder, results = ("--attack", "--plugin-dir", "--results-dir")
        plain = {name: attack, "--victim": victim, folder: self.plugins, results: self.root / "results"}
        given = [word for option, value in plain.items() if option not in words for word in (option, value)]
        return ["run", *given, *words]

    def file(self, name: str, content: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def plugin(self, name: str, content: str, victim: str = "faces-mlp-4-tiny") -> Words:
        """A run with the tiny attacks and another plug-in file."""
        self.file("plugins/tiny.py", (self.plugins / "tiny.py").read_bytes())
        self.file(f"plugins/{name}", content)
        return self.run("--plugin-dir", self.root / "plugins", victim=victim)

    def victim(self, dataset: object, n: int = 4) -> Words:
        """A run on a victim with data of one's own."""
        return self.plugin(
            "own.py",
            "from victims.spec import *\n"
            f"VICTIMS = (VictimSpec(name='own-mlp-{n}', dataset={str(dataset)!r}, n={n},"
            " architecture=MLPSpec(hidden=(8,)), training=NormalizedDescent(steps=5)),)\n",
            victim=f"own-mlp-{n}",
        )

    def data(self, n: int = 4, drop: str = "", **changes: Any) -> Words:
        """A run on an .npz file that holds a dataset but for `changes`."""
        rng = np.random.default_rng(0)
        whole = {
            "train_images": rng.integers(0, 256, (8, 12, 12), dtype=np.uint8),
            "train_labels": np.arange(8) % 2,
            "test_images": rng.integers(0, 256, (4, 12, 12), dtype=np.uint8),
            "test_labels": np.arange(4) % 2,
        }
        arrays = {name: value for name, value in (whole | changes).items() if name != drop}
        np.savez(self.root / "data.npz", **arrays)
        return self.victim(self.root / "data.npz", n)

    def runs_csv(self, name: str, *records: RunRecord, replace: tuple[str, str] | None = None) -> Path:
        write_tables(self.root / name, list(records) or [self.record()])
        path = self.root / name / "runs.csv"
        if replace:
            assert replace[0] in path.read_text()
            path.write_text(path.read_text().replace(*replace))
        return path

    def compare(self, bad: Path) -> Words:
        return ["compare", self.runs_csv("good"), bad]


CASES: dict[str, tuple[Callable[[Scene], Words], str]] = {}
"""Name: (builder of the command line, what the message must say)."""


def case(words: str) -> Callable[[Callable[[Scene], Words]], Callable[[Scene], Words]]:
    def add(build: Callable[[Scene], Words]) -> Callable[[Scene], Words]:
        CASES[build.__name__] = build, words
        return build

    return add


def simple(name: str, words: str, *line: object) -> None:
    CASES[name] = (lambda scene: scene.run(*line)), words


simple("unknown_attack", "did you mean kkt", "--attack", "ktk")
simple("unknown_attack_far", "there are:", "--attack", "xyzzy")
simple("unknown_attack_glob", "no attack is called 'zz*'", "--attack", "zz*")
simple("empty_attack", "no attack is called ''", "--attack", "")
simple("unknown_victim", "did you mean faces-mlp", "--victim", "face-mlp-100")
simple("one_victim_of_two_unknown", "no victim is called 'nobody'", "-v", "faces-mlp-20", "-v", "nobody")
simple("unknown_variant", "no variant 'papre'; there are: many", "--variant", "papre")
simple("unknown_option", "No such option: --nope", "--nope")
simple("option_without_value", "--seeds", "--seeds")
simple("surplus_argument", "unexpected extra argument", "surplus")
simple("set_without_equals", "write --set key=value", "--set", "count")
simple("set_unknown_key", "did you mean count", "--set", "conut=3")
simple("set_unknown_key_far", "there are: count", "--set", "xyzzy=3")
simple("set_without_key", "no such parameter", "--set", "=3")
simple("set_wrong_type", "valid integer", "--set", "count=many")
simple("set_fraction", "valid integer", "--set", "count=2.5")
simple("set_list", "valid integer", "--set", "count=[1,2]")
simple("set_endless_number", "--set count", "--set", f"count={'9' * 5000}")
simple("set_negative", "greater than 0", "--attack", "kkt", "--set", "steps=-1")
simple("set_zero", "greater than 0", "--attack", "kkt", "--set", "lr=0")
simple("set_not_a_number", "--set lr=nan", "--attack", "kkt", "--set", "lr=NaN")
simple("set_no_choice", "'row-space' or 'published'", "--attack", "kkt", "--set", "method=magic")
simple("set_for_one_of_two_attacks", "first-layer has no such parameter", "-a", "first-layer", "--set", "count=3")
simple("seeds_word", "--seeds 'many'", "--seeds", "many")
simple("seeds_empty", "--seeds ''", "--seeds", "")
simple("seeds_negative", "--seeds '-1'", "--seeds=-1")
simple("seeds_backwards", "--seeds '5-3'", "--seeds", "5-3")
simple("seeds_gap", "--seeds '1,,2'", "--seeds", "1,,2")
simple("seeds_fraction", "--seeds '1.5'", "--seeds", "1.5")
simple("seeds_endless", "--seeds '0-99999999999'", "--seeds", "0-99999999999")
simple("seeds_too_large", "--seeds '99999999999999999999999'", "--seeds", "99999999999999999999999")
simple("device_nonsense", "--device 'abacus' is no device", "--device", "abacus")
simple("device_index", "--device 'cuda:x' is no device", "--device", "cuda:x")
simple("plugin_dir_missing", "the plug-in folder /no/such/folder does not exist", "--plugin-dir", "/no/such/folder")
simple("data_dir_missing", "the data folder /no/such/folder does not exist", "--data-dir", "/no/such/folder")


@case("this machine has no CUDA device")
def device_absent(scene: Scene) -> Words:
    scene.monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    return scene.run("--device", "cuda")


@case("No such command 'fly'")
def unknown_verb(scene: Scene) -> Words:
    return ["fly"]


@case("Missing argument")
def missing_argument(scene: Scene) -> Words:
    return ["compare", scene.root / "runs.csv"]


@case("does not exist or is not yours to enter")
def data_dir_of_the_environment_missing(scene: Scene) -> Words:
    scene.monkeypatch.setenv("BENCH_DATA_DIR", "/no/such/folder")
    return scene.run(victim="mnist-mlp-100")


@case("could not be downloaded (<urlopen error no route to host>)")
def no_data_and_no_network(scene: Scene) -> Words:
    import torchvision.datasets

    def unreachable(*args: object, **options: object) -> None:
        raise URLError("no route to host")

    scene.monkeypatch.setattr(torchvision.datasets, "CIFAR10", unreachable)
    return scene.run(victim="cifar-mlp-10")


@case("no readable file")
def no_such_dataset(scene: Scene) -> Words:
    return scene.victim("imagenet")


@case("no readable file")
def no_such_npz(scene: Scene) -> Words:
    return scene.victim(scene.root / "absent.npz")


@case("is not a readable .npz file")
def npz_is_text(scene: Scene) -> Words:
    return scene.victim(scene.file("data.npz", "these are no images"))


@case("is not a readable .npz file")
def npz_is_empty(scene: Scene) -> Words:
    return scene.victim(scene.file("data.npz", b""))


@case("is not a readable .npz file")
def npz_is_truncated(scene: Scene) -> Words:
    words = scene.data()
    path = scene.root / "data.npz"
    path.write_bytes(path.read_bytes()[:1000])
    return words


@case("is not a readable .npz file")
def npz_in_the_data_folder_is_damaged(scene: Scene) -> Words:
    folder = scene.file("data/cifar10.npz", "these are no images").parent
    return scene.run("--data-dir", folder, victim="cifar-mlp-10")


@case("no array test_labels")
def npz_lacks_an_array(scene: Scene) -> Words:
    return scene.data(drop="test_labels")


@case("train_images has the shape (8, 144)")
def npz_of_vectors(scene: Scene) -> Words:
    return scene.data(train_images=np.zeros((8, 144), np.uint8))


@case("train_images has the type complex64")
def npz_of_complex_numbers(scene: Scene) -> Words:
    return scene.data(train_images=np.zeros((8, 12, 12), np.complex64))


@case("contains NaN")
def npz_with_nan(scene: Scene) -> Words:
    return scene.data(train_images=np.full((8, 12, 12), np.nan))


@case("ranges from 0 to 255")
def npz_of_large_floats(scene: Scene) -> Words:
    return scene.data(train_images=np.linspace(0, 255, 8 * 144).reshape(8, 12, 12))


@case("all train_labels are 0")
def npz_of_one_class(scene: Scene) -> Words:
    return scene.data(train_labels=np.zeros(8, int))


@case("8 train_images but 7 train_labels")
def npz_with_a_label_too_few(scene: Scene) -> Words:
    return scene.data(train_labels=np.arange(7) % 2)


@case("train_labels has the type float64")
def npz_with_fractions_as_labels(scene: Scene) -> Words:
    return scene.data(train_labels=np.linspace(0, 1, 8))


@case("expected the same")
def npz_with_test_images_of_another_size(scene: Scene) -> Words:
    return scene.data(test_images=np.zeros((4, 9, 9), np.uint8))


@case("the largest possible n is 8")
def fewer_images_than_n(scene: Scene) -> Words:
    return scene.data(n=100)


@case("cannot be shared equally")
def odd_n(scene: Scene) -> Words:
    return scene.data(n=5)


@case("cannot write to the results folder")
def results_under_a_file(scene: Scene) -> Words:
    return scene.run("--results-dir", scene.file("file", "") / "results")


@case("cannot write to the results folder")
def results_is_a_file(scene: Scene) -> Words:
    return scene.run("--results-dir", scene.file("file", ""))


@case("is no runs.csv of schema 2")
def results_of_another_schema(scene: Scene) -> Words:
    scene.file("results/runs.csv", "attack,victim\nkkt,faces\n")
    return scene.run()


@case("is no CSV file that can be read")
def results_with_an_empty_table(scene: Scene) -> Words:
    scene.file("results/runs.csv", "")
    return scene.run()


@case("cannot write to the folder of trained victims")
def cache_under_a_file(scene: Scene) -> Words:
    scene.monkeypatch.setenv("BENCH_CACHE_DIR", str(scene.file("file", "") / "cache"))
    return scene.run()


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


@case("has schema 3, this program reads 2; update the program")
def compare_newer_schema(scene: Scene) -> Words:
    return scene.compare(scene.runs_csv("new", replace=("\n2,", "\n3,")))


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


STILL_RUNS: dict[str, tuple[str, str]] = {
    "raises": ("1 / 0\n", "ZeroDivisionError: division by zero"),
    "no_python": ("this is no Python\n", "SyntaxError"),
    "leaves": ("raise SystemExit(3)\n", "SystemExit: 3"),
    "no_spec": ("VICTIMS = ('faces',)\n", "which is no VictimSpec"),
    "bad_spec": (
        "from victims.spec import *\nVICTIMS = (VictimSpec(name='x', dataset='faces', n=-4),)\n",
        "greater than",
    ),
    "bad_name": ("from victims.spec import *\nVICTIMS = (VictimSpec(name='../x', dataset='faces', n=4),)\n", "'../x'"),
    "no_needs": (
        "from attacks.base import *\nclass A(Attack):\n  name = 'a'\n  def reconstruct(self, view, ctx): pass\n",
        "lacks the class attribute summary, needs, Params",
    ),
    "takes_a_shipped_name": (
        "from attacks.base import *\nclass A(Attack):\n  name, summary, needs, Params = 'kkt', '', {}, AttackParams\n"
        "  def reconstruct(self, view, ctx): pass\n",
        "'kkt' is already taken by attacks/kkt.py",
    ),
    "takes_a_shipped_victim": (
        "from victims.spec import *\nVICTIMS = (VictimSpec(name='faces-mlp-20', dataset='faces', n=4),)\n",
        "'faces-mlp-20' is already taken by victims/zoo/haim2022.py",
    ),
}
"""Name: (a plug-in file that is no good, what the message must say); the other files work."""


@pytest.fixture
def scene(tmp_path: Path, plugins: Path, monkeypatch: pytest.MonkeyPatch, record: Callable[..., RunRecord]) -> Scene:
    return Scene(tmp_path, plugins, monkeypatch, record)


def one_line(text: str) -> str:
    assert text.endswith("\n")
    assert text.count("\n") == 1
    assert "Traceback" not in text
    return text


@pytest.mark.parametrize(("build", "words"), CASES.values(), ids=CASES)
def test_a_mistake_is_one_line(
    bench: Callable[..., Any], scene: Scene, cache_dir: Path, build: Callable[[Scene], Words], words: str
) -> None:
    line = build(scene)
    before = set(scene.root.glob("results/runs/*"))
    ended = bench(*line)

    assert ended.status == 2
    assert words in one_line(ended.err)
    assert set(scene.root.glob("results/runs/*")) == before
    left = [path for folder in (scene.root, cache_dir) for path in folder.rglob(".*")]
    assert [path for path in left if path.name != ".work"] == []


@pytest.mark.parametrize(("content", "words"), STILL_RUNS.values(), ids=STILL_RUNS)
def test_a_plugin_that_is_no_good_costs_only_itself(
    bench: Callable[..., Any], scene: Scene, content: str, words: str
) -> None:
    ended = bench(*scene.plugin("poor.py", content))

    assert ended.status == 0
    assert "poor.py" in ended.err
    assert words in one_line(ended.err)
    assert len(list(scene.root.glob("results/runs/tiny-*/grid.png"))) == 1
