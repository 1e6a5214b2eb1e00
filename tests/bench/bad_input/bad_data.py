"""Images and labels."""

from __future__ import annotations

import zipfile
from urllib.error import URLError

import numpy as np
from scene import Scene, Words, case


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


@case("is not a readable .npz file (it is no zip archive); write it again")
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


@case("no readable file")
def dataset_outside_the_data_folder(scene: Scene) -> Words:
    return scene.victim("../../etc/passwd")


@case("is not a readable .npz file")
def npz_of_objects(scene: Scene) -> Words:
    return scene.data(train_images=np.array([{"code": 1}] * 8, dtype=object))


@case("is not a readable .npz file")
def npz_that_claims_to_be_huge(scene: Scene) -> Words:
    words = scene.data(drop="train_images")
    with zipfile.ZipFile(scene.root / "data.npz", "a") as archive:
        header = "{'descr': '|u1', 'fortran_order': False, 'shape': (1000000000000, 99, 99), }".ljust(117) + "\n"
        archive.writestr("train_images.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
    return words


@case("no array train_images")
def npz_whose_names_leave_the_folder(scene: Scene) -> Words:
    words = scene.data(drop="train_images")
    with zipfile.ZipFile(scene.root / "data.npz", "a") as archive:
        archive.writestr("../../train_images.npy", b"")
    return words


@case("is not a readable .npz file")
def npz_with_an_altered_byte(scene: Scene) -> Words:
    words = scene.data()
    path = scene.root / "data.npz"
    content = bytearray(path.read_bytes())
    content[400] ^= 1
    path.write_bytes(content)
    return words


@case("train_images has the shape ()")
def npz_is_a_zip_of_texts(scene: Scene) -> Words:
    words = scene.victim(scene.root / "data.npz")
    with zipfile.ZipFile(scene.root / "data.npz", "w") as archive:
        for name in ("train_images", "train_labels", "test_images", "test_labels"):
            archive.writestr(f"{name}.npy", "images")
    return words


@case("train_labels contains -1")
def npz_with_negative_labels(scene: Scene) -> Words:
    return scene.data(train_labels=-(np.arange(8) % 2))


@case("train_labels has the shape (8, 1)")
def npz_with_a_column_of_labels(scene: Scene) -> Words:
    return scene.data(train_labels=np.arange(8)[:, None] % 2)


@case("train_images has the shape (8, 12, 12, 4)")
def npz_with_four_channels(scene: Scene) -> Words:
    return scene.data(train_images=np.zeros((8, 12, 12, 4), np.uint8))


@case("train_images has the shape (8, 0, 12, 1)")
def npz_of_images_without_height(scene: Scene) -> Words:
    return scene.data(train_images=np.zeros((8, 0, 12), np.uint8))


@case("train_images has the type int64")
def npz_of_integers(scene: Scene) -> Words:
    return scene.data(train_images=np.zeros((8, 12, 12), np.int64))


@case("ranges from -inf")
def npz_with_infinity(scene: Scene) -> Words:
    return scene.data(train_images=np.full((8, 12, 12), -np.inf))


@case("train_images is empty")
def npz_without_images(scene: Scene) -> Words:
    return scene.data(train_images=np.zeros((0, 12, 12), np.uint8), train_labels=np.zeros(0, int))


@case("does not fit into images of 12 x 12 pixels")
def kernel_larger_than_the_image(scene: Scene) -> Words:
    words = scene.data()
    scene.plugin(
        "own.py",
        "from victims.spec import *\n"
        f"VICTIMS = (VictimSpec(name='own-mlp-4', dataset={str(scene.root / 'data.npz')!r}, n=4,"
        " architecture=ConvSpec(kernel=13), training=DecayedDescent(steps=5)),)\n",
    )
    return words


@case("no user whose home is ~nouser/x; change --data-dir or BENCH_DATA_DIR")
def data_dir_of_nobody(scene: Scene) -> Words:
    scene.monkeypatch.setenv("BENCH_DATA_DIR", "~nouser/x")
    return scene.run(victim="mnist-mlp-100")


@case("no user whose home is ~nouser/own.npz")
def npz_of_nobody(scene: Scene) -> Words:
    return scene.victim("~nouser/own.npz")


@case("all train_images are the same; expected images that differ")
def npz_of_one_image(scene: Scene) -> Words:
    return scene.data(train_images=np.full((8, 12, 12), 7, np.uint8))


@case("the 4 images of")
def npz_whose_first_images_are_the_same(scene: Scene) -> Words:
    images = np.full((8, 12, 12), 7, np.uint8)
    images[-1] = 8
    return scene.data(train_images=images)


@case("its training ended in weights that are not finite; lower its learning rate")
def victim_that_diverges(scene: Scene) -> Words:
    scene.data()
    return scene.plugin(
        "own.py",
        "from victims.spec import *\n"
        f"VICTIMS = (VictimSpec(name='own-mlp-4', dataset={str(scene.root / 'data.npz')!r}, n=4,"
        " architecture=MLPSpec(hidden=(8,)), training=GradientDescent(epochs=50, lr=1e300)),)\n",
        victim="own-mlp-4",
    )
