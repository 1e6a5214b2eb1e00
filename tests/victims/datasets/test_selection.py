"""The papers' selection: the first of each class, less their mean, and a balanced test set."""

from __future__ import annotations

import numpy as np
import pytest

from victims.datasets import GROUPS, RawDataset, select
from victims.errors import UserError


def planted(labels: list[int], test_labels: list[int] | None = None, name: str = "planted") -> RawDataset:
    """Images of 1x2x2 pixels, each of them its own position / 100; test images count on from 0.5."""
    test = test_labels or []

    def images(first: float, count: int) -> np.ndarray:
        return np.broadcast_to(
            (first + np.arange(count, dtype=np.float32) / 100)[:, None, None, None], (count, 1, 2, 2)
        )

    return RawDataset(name, images(0, len(labels)), np.array(labels), images(0.5, len(test)), np.array(test, dtype=int))


def test_select_takes_the_first_of_each_class_in_the_order_of_the_distribution() -> None:
    split = select(planted([7, 7, 7, 3, 7, 3, 3, 7, 3], [3, 7, 3]), n=4)

    assert split.indices.tolist() == [0, 1, 3, 5]
    assert split.labels.tolist() == [1, 1, 0, 0]  # two labels: the smaller one is class 0
    np.testing.assert_allclose(split.images[:, 0, 0, 0], [0, 0.01, 0.03, 0.05], atol=1e-7)
    assert split.inputs.dtype == split.mean.dtype == np.float32
    assert split.labels.dtype == np.int64


def test_select_subtracts_the_mean_of_the_selected_images_from_training_and_test() -> None:
    split = select(planted([0, 1, 0, 1, 0, 1], [1, 0]), n=4)

    np.testing.assert_allclose(split.mean, np.full((1, 2, 2), 0.015), rtol=1e-6)
    np.testing.assert_allclose(split.inputs.mean(axis=0), 0, atol=1e-8)
    np.testing.assert_allclose(split.test_inputs[:, 0, 0, 0], [0.485, 0.495], rtol=1e-6)


def test_select_balances_the_test_set_and_keeps_its_order() -> None:
    split = select(planted([0, 1], [1, 1, 0, 1, 0, 0]), n=2, test_n=5)

    assert split.test_labels.tolist() == [1, 1, 0, 0]
    positions = (split.test_inputs + split.mean)[:, 0, 0, 0]
    np.testing.assert_allclose(positions, [0.5, 0.51, 0.52, 0.54], rtol=1e-6)


def test_select_without_a_test_set_tests_on_training_images_that_were_not_selected() -> None:
    raw = planted([0, 0, 1, 1, 0, 1, 0])
    split = select(raw, n=4)

    positions = np.rint((split.test_inputs + split.mean)[:, 0, 0, 0] * 100).astype(int).tolist()
    assert positions == [4, 5]
    assert not set(positions) & set(split.indices.tolist())
    assert select(raw, n=6).test_inputs.shape == (0, 1, 2, 2)  # nothing is left of class 1
    assert select(raw, n=4, test_n=0).test_labels.shape == (0,)


def test_spare_images_are_neither_learnt_nor_tested_on() -> None:
    assert select(planted([7, 7, 7, 3, 7, 3, 3, 7, 3], [3, 7, 3]), n=4).spare.tolist() == [2, 4, 6, 7, 8]
    assert select(planted([0, 0, 1, 1, 0, 1, 0]), n=4, test_n=2).spare.tolist() == [6]
    assert select(planted([0, 1, 2, 0, 1, 2]), n=2, groups=((0,), (1,)), test_n=0).spare.tolist() == [3, 4]


def test_what_a_twin_is_tested_on_is_no_image_of_its_victim() -> None:
    """The images that it is told of beside its own are those that it is tested on."""
    raw = planted([0, 0, 0, 0, 1, 1, 1, 1])
    twin = select(raw, n=2, test_n=2, skip_first=True)
    assert (select(raw, n=2, test_n=2).indices.tolist(), twin.indices.tolist()) == ([0, 4], [1, 5])
    assert np.rint((twin.test_inputs + twin.mean)[:, 0, 0, 0] * 100).tolist() == [2, 6]
    assert twin.spare.tolist() == [3, 7]
    assert select(planted([0, 0, 1, 1]), n=2, skip_first=True).test_inputs.shape == (0, 1, 2, 2)
    assert select(planted([0, 0, 1, 1], [1, 0]), n=2, skip_first=True).test_labels.tolist() == [1, 0]


def test_select_leaves_out_labels_of_no_group_and_knows_many_classes() -> None:
    split = select(planted([2, 9, 0, 1, 2, 9, 1, 0]), n=6, groups=((1,), (0,), (2,)))

    assert split.indices.tolist() == [0, 2, 3, 4, 6, 7]
    assert split.labels.tolist() == [2, 1, 0, 2, 0, 1]


def test_select_takes_even_against_odd_labels_of_an_unknown_dataset() -> None:
    assert select(planted([4, 1, 3, 2]), n=4).labels.tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("name", sorted(GROUPS))
def test_groups_name_each_label_once(name: str) -> None:
    labels = [label for group in GROUPS[name] for label in group]
    assert len(GROUPS[name]) == 2
    assert sorted(labels) == list(range({"faces": 2, "cifar100": 100}.get(name, 10)))


@pytest.mark.parametrize(
    ("labels", "arguments", "says"),
    [
        ([0, 1, 0, 1], {"n": 3}, "multiple of 2"),
        ([0, 1, 0, 1], {"n": 0}, "multiple of 2"),
        ([0, 1, 0, 1], {"n": -2}, "multiple of 2"),
        ([0, 1, 2], {"n": 2, "groups": ((0,), (1,), (2,))}, "multiple of 3"),
        ([0, 0, 0, 1], {"n": 4}, "have 3, 1; the largest possible n is 2"),
        ([0, 0, 0, 0], {"n": 2}, "have 4, 0; the largest possible n is 0"),
        ([0, 1, 0, 1], {"n": 2, "groups": ((0, 1),)}, "at least two"),
        ([0, 1, 0, 1], {"n": 2, "groups": ((0, 1), (1,))}, "twice"),
        ([0, 1, 0, 1], {"n": 2, "test_n": -1}, "test_n = -1"),
    ],
)
def test_select_refuses_what_it_cannot_give(labels: list[int], arguments: dict, says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        select(planted(labels), **arguments)
    assert "planted" in str(caught.value)
    assert "\n" not in str(caught.value)
