"""Words of the command line."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import torch
from scene import CASES, Scene, Words, case, simple

simple("unknown_attack", "did you mean kkt", "--attack", "ktk")
simple("unknown_attack_far", "there are:", "--attack", "xyzzy")
simple("unknown_attack_glob", "no attack is called 'zz*'", "--attack", "zz*")
simple("empty_attack", "no attack is called ''", "--attack", "")
simple("unknown_victim", "did you mean faces-mlp", "--victim", "face-mlp-100")
simple("one_victim_of_two_unknown", "no victim is called 'nobody'", "-v", "faces-mlp-20", "-v", "nobody")
simple("unknown_variant", "no variant 'papre'; there are: many", "--variant", "papre")
simple("unknown_option", "; `python -m bench run --help` says what there is", "--nope")
simple("option_without_value", "--seeds", "--seeds")
simple("option_twice", "'--seeds': it takes one value and is given 2 times", "--seeds", "0", "--seeds", "1")
simple("surplus_argument", "unexpected extra argument(s) (surplus); `python -m bench run --help`", "surplus")
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
simple("seeds_without_an_end", "--seeds '3-' is no list of seeds", "--seeds", "3-")
simple("seeds_backwards_behind_others", "--seeds '0,5-3'", "--seeds", "0,5-3")
simple("seeds_gap", "--seeds '1,,2'", "--seeds", "1,,2")
simple("seeds_fraction", "--seeds '1.5'", "--seeds", "1.5")
simple("seeds_endless", "--seeds '0-99999999999'", "--seeds", "0-99999999999")
simple("seeds_too_large", "--seeds '99999999999999999999999'", "--seeds", "99999999999999999999999")
simple("defence_unknown", "did you mean noise=1e-3?", "--defence", "nose=1")
simple("defence_unknown_far", "there are: noise, round", "--defence", "xyzzy")
simple("defence_empty", "no defence is called ''", "--defence", "")
simple("defence_without_strength", "its strength is missing; write for instance noise=1e-3", "--defence", "noise")
simple("defence_with_one_too_many", "has no strength; write random-seed", "--defence", "random-seed=3")
simple("defence_word", "valid number", "--defence", "noise=much")
simple("defence_not_a_number", "finite number", "--defence", "noise=nan")
simple("defence_infinite", "finite number", "--defence", "early-stop=inf")
simple("defence_negative", "greater than 0", "--defence", "clip-outputs=-1")
simple("defence_out_of_range", "less than or equal to 10", "--defence", "noise=11")
simple("defence_no_choice", "'float16', 'bfloat16' or 'int8'", "--defence", "round=float8")
simple("defence_fraction", "valid integer", "--defence", "forget-start=2.5")
simple("defence_twice", "the defence noise is given twice", "--defence", "noise=1", "--defence", "noise=2")
simple("defence_of_no_such_recipe", "see the victims whose name has -wd", "--defence", "decay=0.1")
simple("defence_in_a_name", "no defence is called 'x'", "-v", "faces-mlp-20+x")
simple("defence_no_such_answer", "'probabilities' or 'labels'", "--defence", "answers=colours")
simple("too_few_queries", "greater than or equal to 200", "--attack", "kernel-query", "--set", "queries=10")
simple("pixels_backwards", "the range of a pixel is (low, high)", "--attack", "kernel-query", "--set", "pixels=[1,0]")
simple("device_nonsense", "--device 'abacus' is no device", "--device", "abacus")
simple("device_index", "--device 'cuda:x' is no device", "--device", "cuda:x")
simple("plugin_dir_missing", "the plug-in folder /no/such/folder does not exist", "--plugin-dir", "/no/such/folder")
simple("plugin_dir_no_python", "/dev/null is no .py file; give --plugin-dir", "--plugin-dir", "/dev/null")
simple("data_dir_missing", "the data folder /no/such/folder does not exist", "--data-dir", "/no/such/folder")


@case("this machine has no CUDA device")
def device_absent(scene: Scene) -> Words:
    scene.monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    return scene.run("--device", "cuda")


@case("No such command 'fly'; `python -m bench --help` says what there is")
def unknown_verb(scene: Scene) -> Words:
    return ["fly"]


@case("--missing is of one study; name it, `python -m bench study` lists them")
def option_of_no_study(scene: Scene) -> Words:
    return ["study", "--missing", "--results-dir", scene.root / "results"]


@case("Missing argument 'PATH'; `python -m bench compare --help` says what there is")
def missing_argument(scene: Scene) -> Words:
    return ["compare", scene.root / "runs.csv"]


@case("cannot write to the results folder")
def results_under_a_file(scene: Scene) -> Words:
    return scene.run("--results-dir", scene.file("file", "") / "results")


@case("cannot write to the results folder")
def results_is_a_file(scene: Scene) -> Words:
    return scene.run("--results-dir", scene.file("file", ""))


@case("is no runs.csv of schema")
def results_of_another_schema(scene: Scene) -> Words:
    scene.file("results/runs.csv", "attack,victim\nkkt,faces\n")
    return scene.run()


@case("is no CSV file that can be read")
def results_with_an_empty_table(scene: Scene) -> Words:
    scene.file("results/runs.csv", "")
    return scene.run()


@case("cannot write to its folder")
def cache_under_a_file(scene: Scene) -> Words:
    scene.monkeypatch.setenv("BENCH_CACHE_DIR", str(scene.file("file", "") / "cache"))
    return scene.run()


simple("budget_word", "--budget 'soon' is no budget", "--budget", "soon")
simple("budget_zero", "--budget '0s' is no budget", "--budget", "0s")
simple("budget_of_half_a_step", "--budget '0.5steps' is no budget", "--budget", "0.5steps")
simple("budget_without_unit", "--budget '10' is no budget", "--budget", "10")
simple("ray_address_without_ray", "--ray-address is for runs on a cluster", "--ray-address", "here:6379")
simple("cpus_without_ray", "give --executor ray too, or leave --cpus out", "--cpus", "2")
simple("gpus_without_ray", "--gpus is for runs on a cluster", "--executor", "local", "--gpus", "0.5")
simple("memory_word", "--memory 'lots' is no amount", "--memory", "lots")
simple("memory_zero", "--memory '0g' is no amount", "--memory", "0g")
simple("jobs_negative", "--jobs", "--jobs", "-1")
simple("jobs_word", "--jobs", "--jobs", "many")
simple("controls_unknown", "'--controls': 'some' is not one of 'all', 'quick'", "--controls", "some")
simple("data_dir_file", "is a file; give --data-dir the folder that holds it", "--data-dir", __file__)
simple("set_pair_in_words", "write a list, such as pixels=[-1.0,1.0]", "--attack", "inversion", "--set", "pixels=0,16")
simple("set_pair_of_one", "pixels=[0]: Field required; write a list", "--attack", "inversion", "--set", "pixels=[0]")
simple("set_list_of_words", "write a list, such as layers=[1,1]", "--attack", "reconn", "--set", 'layers=["a"]')
simple("attack_open_bracket", "no attack is called '['", "--attack", "[")
simple("attack_other_case", "did you mean kkt?", "--attack", "Kkt")
simple("attack_path", "no attack is called 'attacks/kkt.py'", "--attack", "attacks/kkt.py")
simple("victim_newline", "no victim is called 'a\\nb'", "--victim", "a\nb")
simple("device_empty", "--device '' is no device", "--device", "")
simple("set_null", "valid integer", "--set", "count=null")
simple("set_object", "valid integer", "--set", 'count={"a": 1}')
simple("set_infinite", "finite number", "--attack", "kkt", "--set", "steps=Infinity")
simple("set_precision", "'float32' or 'float64'", "--attack", "kkt", "--set", "dtype=float16")
simple("set_start", "--set init='stars'", "--attack", "bilevel", "--set", "init=stars")
simple("set_share_above_1", "less than or equal to 1", "--attack", "bilevel", "--set", "mixture=[2,0]")
simple("set_pair_of_three", "--set mixture", "--attack", "bilevel", "--set", "mixture=[0.1,0.2,0.3]")
simple("set_range_backwards", "a range is (low, high)", "--attack", "inversion", "--set", "lr_range=[1,0.1]")
simple("set_against_its_variant", "greater than 0", "--attack", "inversion", "--variant", "miface", "--set", "lr=-1")
simple("variant_of_another_attack", "first-layer has no variant 'many'", "-a", "first-layer", "--variant", "many")
simple("plugin_dir_is_no_python", "does not exist; give --plugin-dir", "--plugin-dir", __file__[:-3])

NINES = "9" * 9000
simple("set_nested", "is nested too deeply", "--set", f"count={'[' * 100_000}")
simple("set_twice", "--set count is given twice; give one value", "--set", "count=1", "--set", "count=2")
simple("set_beyond_floats", "finite number", "--attack", "kkt", "--set", "lr=1e400")
simple("set_endless_text", "…: Input should be a valid integer", "--set", f"count={'many' * 100_000}")
simple("set_steers_the_terminal", "\\x1b[31m\\u202e", "--set", "count=\x1b[31m\u202e")
simple("budget_endless_seconds", "is no budget", "--budget", f"{NINES}s")
simple("budget_endless_steps", "is no budget", "--budget", f"{NINES}steps")
simple("budget_of_ages", "at most 1e+09 seconds or steps", "--budget", "999999999h")
simple("budget_of_too_many_steps", "at most 1e+09 seconds or steps", "--budget", "1000000001steps")
simple("budget_exponent", "is no budget", "--budget", "1e400s")
simple("budget_superscript", "is no budget", "--budget", "²steps")
simple("memory_endless", "is no amount of memory", "--memory", f"{NINES}g")
simple("memory_above_all", "is no amount of memory", "--memory", "999999999999t")
simple("memory_superscript", "is no amount of memory", "--memory", "²g")
simple("seeds_of_endless_digits", "…", "--seeds", NINES)
simple("device_superscript", "--device 'cuda:²' is no device", "--device", "cuda:²")
simple("device_endless_index", "is no device", "--device", f"cuda:{NINES}")
simple("jobs_too_many", "--jobs", "--jobs", "1000000000")
simple("results_dir_empty", "it is empty; name a folder", "--results-dir", "")
simple("results_dir_address", "is an address; name a folder", "--results-dir", "s3://bucket/results")
simple("data_dir_empty", "it is empty; name a folder", "--data-dir", "")
simple("copy_to_empty", "--copy-to is empty", "--copy-to", "")
simple("set_true_for_a_number", "--set count=true: count takes no true or false", "--set", "count=true")
simple(
    "victim_and_retraining",
    "write faces-mlp-4-tiny, and `run` takes --victim-seeds 1",
    "--victim",
    "faces-mlp-4-tiny@1",
)
simple("plugin_dir_empty", "it is empty; name a folder", "--plugin-dir", "")

SIMPLE_VERBS: dict[str, tuple[str, Words]] = {
    "score_nothing": ("no stored run", ["score"]),
    "score_unknown_protocol": ("did you mean assigned?", ["score", "--protocol", "asigned"]),
    "tune_seed": ("less than or equal to 4294967295", ["tune", "--seed", "4294967296"]),
    "report_nothing": ("no runs in", ["report"]),
    "report_format": ("--format", ["report", "--format", "pdf"]),
    "study_unknown": ("no study is called 'xyzzy'", ["study", "xyzzy"]),
    "list_data_dir": ("the data folder /no/such/folder does not exist", ["list", "--data-dir", "/no/such/folder"]),
    "list_surplus": ("unexpected extra argument", ["list", "everything"]),
    "check_missing": ("absent.py does not exist; name the file", ["check", "absent.py"]),
    "check_folder": ("is no .py file", ["check", "/"]),
    "report_nowhere": ("it is empty; name a folder", ["report", "--output", ""]),
    "new_kind": ("'attack', 'victim', 'model'", ["new", "dataset", "mine"]),
    "audit_missing": (
        "absent.py does not exist; name the file that defines VICTIMS with your model",
        ["audit", "absent.py"],
    ),
    "show_metric_in_part": ("did you mean ssim_wang", ["show", "ssim"]),
    "new_hides_python": ("inspect.py would hide the module inspect", ["new", "attack", "inspect"]),
    "new_hides_a_package": ("torch.py would hide the module torch", ["new", "attack", "torch"]),
    "new_taken": ("'kkt' is already taken by attacks/kkt", ["new", "attack", "kkt"]),
    "new_victim_taken": ("'cifar-mlp-500' is already taken by victims/zoo", ["new", "victim", "cifar-mlp-500"]),
    "list_picture_under_a_file": (
        "/dev/null is no folder; name another file",
        ["list", "--picture", "/dev/null/a.png"],
    ),
    "new_name": ("'my attack' is no name", ["new", "attack", "my attack"]),
}


def verb(line: Words) -> Callable[[Scene], Words]:
    takes_results = line[0] in ("score", "report", "study")
    return lambda scene: [*line, *(("--results-dir", scene.root / "none") if takes_results else ())]


CASES.update({name: (verb(line), words) for name, (words, line) in SIMPLE_VERBS.items()})


@case("is there already")
def new_over_an_old_file(scene: Scene) -> Words:
    return ["new", "victim", "mine", "--folder", scene.file("mine.py", "mine = 1\n").parent]


@case("mine.py (Not a directory); name another folder")
def new_under_a_file(scene: Scene) -> Words:
    return ["new", "attack", "mine", "--folder", scene.file("taken", "")]


@case("defines no Attack and no VICTIMS")
def check_file_without_attack(scene: Scene) -> Words:
    return ["check", scene.file("empty.py", "x = 1\n")]


@case("--set conut: tiny has no such parameter")
def check_with_an_unknown_parameter(scene: Scene) -> Words:
    return ["check", scene.plugins / "tiny.py", "--set", "conut=3"]


@case("cannot write")
def report_into_a_folder(scene: Scene) -> Words:
    scene.runs_csv("results")
    return ["report", "--results-dir", scene.root / "results", "--output", scene.root]


@case("cannot write to the results folder")
def results_whose_runs_are_a_file(scene: Scene) -> Words:
    scene.file("results/runs", "")
    return scene.run()


@case("is no CSV file that can be read")
def results_whose_table_is_a_folder(scene: Scene) -> Words:
    (scene.root / "results" / "runs.csv").mkdir(parents=True)
    return scene.run()


@case("cannot write to its folder")
def cache_whose_victims_are_a_file(scene: Scene) -> Words:
    scene.monkeypatch.setenv("BENCH_CACHE_DIR", str(scene.file("cache/victims", "").parent))
    return scene.run()


@case("it is empty; name a folder")
def dry_run_into_no_folder(scene: Scene) -> Words:
    return scene.run("--dry-run", "--results-dir", "")


@case("it is empty; name a folder")
def rerun_into_no_folder(scene: Scene) -> Words:
    return ["verify", "--rerun", "quick", "--rerun-dir", ""]


@case("--executor ray makes runs alone; take the sections of runs with --only")
def study_on_a_cluster(scene: Scene) -> Words:
    plan = "[[plan]]\nattack = ['tiny']\nvictim = ['faces-mlp-4-tiny']\n[[study]]\nstudy = ['width']\n"
    return scene.run("--executor", "ray", "--config", scene.file("plan.toml", plan))


@case("nested too deeply")
def config_nested(scene: Scene) -> Words:
    plan = f"[[plan]]\nattack = ['tiny']\nvictim = ['faces-mlp-4-tiny']\nset.count = {'[' * 100_000}\n"
    return scene.run("--config", scene.file("plan.toml", plan))


@case("cannot be written (No space left on device)")
def results_on_a_full_disk(scene: Scene) -> Words:
    def full(path: object, text: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    scene.monkeypatch.setattr("bench.publish.leaderboard.write_text", full)
    return scene.run()
