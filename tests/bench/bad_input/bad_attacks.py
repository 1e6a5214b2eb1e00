"""Attacks that do something else than attack: each is a failure row."""

from __future__ import annotations

ATTACK = """
import torch
from attacks.base import *


class Params(AttackParams):
    count: int = 3


class Poor(Attack):
    name, summary, Params = "poor", "poor", Params
    needs = frozenset({{Knowledge.ARCHITECTURE, Knowledge.WEIGHTS}})
    {attributes}

    def reconstruct(self, view, ctx):
        images = torch.zeros(3, *view.architecture.input_shape)
        {body}
"""

FAILS: dict[str, tuple[str, str, str]] = {
    "returns_nothing": ("", "return None", "returned NoneType, expected a Reconstruction"),
    "returns_a_list": ("", "return [images]", "returned list, expected a Reconstruction"),
    "returns_a_tensor": ("", "return images", "returned Tensor, expected a Reconstruction"),
    "vectors": ("", "return Reconstruction(images.flatten(1))", "candidates are (3, 144)"),
    "one_image": ("", "return Reconstruction(images[0])", "candidates are (1, 12, 12)"),
    "another_size": ("", "return Reconstruction(images[..., 1:])", "candidates are (3, 1, 12, 11)"),
    "another_colour": ("", "return Reconstruction(images.expand(3, 3, 12, 12))", "(3, 3, 12, 12)"),
    "no_images": ("", "return Reconstruction(images[:0])", "m > 0"),
    "not_numbers": ("", "return Reconstruction(images / 0)", "finite"),
    "numpy": (
        "",
        "return Reconstruction(images.numpy())",
        "candidates are a ndarray; expected a tensor (m,",
    ),
    "nowhere": ("", "return Reconstruction(images.to('meta'))", "meta, which holds no values"),
    "complex": ("", "return Reconstruction(images * 1j)", "candidates are torch.complex64"),
    "bytes": ("", "return Reconstruction(images.byte())", "candidates are torch.uint8"),
    "confidence_too_short": (
        "",
        "return Reconstruction(images, confidence=torch.ones(2))",
        "confidence are (2,); expected a tensor (3,)",
    ),
    "confidence_of_words": (
        "",
        "return Reconstruction(images, confidence='high')",
        "confidence are a str; expected",
    ),
    "labels_of_words": (
        "",
        "return Reconstruction(images, labels=['cat'])",
        "labels are a list; expected",
    ),
    "resolved_is_no_json": ("", "return Reconstruction(images, resolved={'shape': images})", "resolved is no JSON"),
    "loss_of_words": ("", "return Reconstruction(images, loss='small')", "loss is a str; expected a number"),
    "flags_are_one_text": ("", "return Reconstruction(images, flags='slow')", "flags are no texts"),
    "raises": ("", "raise RuntimeError('the wheel came off\\nand rolled away')", "the wheel came off"),
    "raises_without_words": ("", "raise RuntimeError", "RuntimeError"),
    "raises_markup": ("", "raise RuntimeError('[red]<script>alert(1)</script>')", "[red]<script>alert(1)</script>"),
    "asserts": ("", "assert False", "AssertionError"),
    "runs_in_circles": ("", "return self.reconstruct(view, ctx)", "RecursionError"),
    "runs_out_of_memory": ("", "images = torch.zeros(10**15)", ""),
    "leaves": ("", "raise SystemExit(0)", "SystemExit: 0"),
    "peeks": ("", "view.labels", "'labels', which its `needs` do not declare"),
    "changes_the_weights": (
        "",
        "next(iter(view._facts[Knowledge.WEIGHTS].values())).zero_(); return Reconstruction(images)",
        "changed the victim's weights",
    ),
    "wants_an_unknown_item": ("needs = frozenset({'gold'})", "return Reconstruction(images)", "has no gold to tell"),
    "cannot_say_what_it_knows": (
        "knowledge = property(lambda self: 1 / 0)",
        "return Reconstruction(images)",
        "division",
    ),
    "cannot_say_whom_it_takes": ("supports = lambda self, victim: 1 / 0", "pass", "division by zero"),
    "cannot_be_made": ("def __init__(self, params): raise OSError('no')", "pass", "OSError: no"),
    "unknown_protocol": ("protocol = 'mine'", "return Reconstruction(images)", "no scoring protocol is called 'mine'"),
    "a_step_of_words": ("", "ctx.report('one', 'two')", ""),
    "a_figure_of_words": ("", "ctx.progress(1, 2, loss='small')", "'str'"),
}
"""Name: (attributes of the class, body of `reconstruct`, what the row's reason must say)."""
