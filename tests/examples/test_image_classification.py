"""The image example: data sets, folders of images, models, pictures, and quick runs of the script."""

import importlib
import json
import os
import pathlib
import sys

import keras
import numpy as np
import pytest
from click import testing
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
if not EXAMPLES.is_dir():
    pytest.skip("The examples are not beside the tests.", allow_module_level=True)
pytest.importorskip("rich")
pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")
sys.path.insert(0, str(EXAMPLES))

from common import image_data  # noqa: E402
from common import image_folder  # noqa: E402
from common import image_models  # noqa: E402
from common import image_pictures  # noqa: E402
from common import image_training  # noqa: E402
from keras_attention import tflite  # noqa: E402

MODELS = [
    *(pytest.param("mobile_cnn", name, id=str(name)) for name in (None, *image_models.ATTENTIONS)),
    pytest.param("vit_tiny", None, id="vit_tiny"),
    pytest.param("swin_tiny", None, id="swin_tiny"),
]


def save(path, mode="RGB", size=(11, 13), value=90, **options):
    """An image of one colour, darker to the right."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ramp = np.broadcast_to(np.linspace(value, value // 2, size[0]).astype("uint8"), size[::-1])
    Image.fromarray(ramp).convert(mode).save(path, **options)
    return path


@pytest.fixture
def folder(tmp_path):
    """Two classes of three grey images each."""
    for name in ("ants", "bees"):
        for number in range(3):
            save(tmp_path / "data" / name / f"{number}.png", "L", value=60 + 20 * number)
    return tmp_path / "data"


class TestDigits:
    def test_split_is_fixed_and_stratified(self):
        images = image_data.load("digits")
        assert images.train.shape == (1437, 8, 8, 1)
        assert images.test.shape == (360, 8, 8, 1)
        assert images.train.dtype == np.uint8
        assert (images.train.min(), images.train.max()) == (0, 255)
        shares = np.bincount(images.test_labels) / np.bincount(
            np.concatenate([images.train_labels, images.test_labels])
        )
        np.testing.assert_allclose(shares, 0.2, atol=0.01)
        # Seed 0 of scikit-learn, whatever else was random before: these digits are the test.
        assert images.test_labels[:10].tolist() == image_data.load("digits").test_labels[:10].tolist()
        assert "seed 0: 1437 for training, 360 for the test" in images.split

    def test_no_image_is_in_both_parts(self):
        train, test = image_data.holdout(image_data.load("digits").train_labels)
        assert len(np.intersect1d(train, test)) == 0
        assert len(train) + len(test) == 1437

    def test_size_is_for_folders(self):
        with pytest.raises(
            ValueError, match=r"--image-size is for a folder of images\. Received: 32 with --data digits"
        ):
            image_data.load("digits", 32)


class TestDownloads:
    @pytest.mark.parametrize("name", sorted(image_data.DOWNLOADED))
    def test_without_a_network(self, name, monkeypatch):
        def fail():
            raise Exception("URL fetch failure on https://example.org: None -- no network")  # as Keras does

        monkeypatch.setattr(getattr(keras.datasets, name), "load_data", fail)
        with pytest.raises(
            OSError, match=f"--data {name} can't be downloaded: URL fetch.*take --data digits.*FOLDER"
        ):
            image_data.load(name)

    def test_arrays_of_keras(self, monkeypatch):
        def load_data():
            part = (np.full((5, 32, 32, 3), 7, "uint8"), np.arange(5, dtype="uint8")[:, None])
            return part, part

        monkeypatch.setattr(keras.datasets.cifar10, "load_data", load_data)
        images = image_data.load("cifar10")
        assert images.train.shape == (5, 32, 32, 3)
        assert images.train_labels.tolist() == [0, 1, 2, 3, 4]
        assert images.classes[4] == "deer"
        assert images.split == "as published: 5 for training, 5 for the test"

    def test_grey_images_get_a_channel(self, monkeypatch):
        part = (np.zeros((5, 28, 28), "uint8"), np.arange(5))
        monkeypatch.setattr(keras.datasets.mnist, "load_data", lambda: (part, part))
        assert image_data.load("mnist").test.shape == (5, 28, 28, 1)


class TestFolder:
    def test_grey(self, folder):
        found = image_folder.read(str(folder))
        assert found.classes == ("ants", "bees")
        assert found.images.shape == (6, 13, 11, 1)  # height, width
        assert found.images.dtype == np.uint8
        assert found.labels.tolist() == [0, 0, 0, 1, 1, 1]
        assert found.images[:3, 0, 0, 0].tolist() == [60, 80, 100]
        assert found.notes == ()

    def test_split_of_a_folder(self, folder):
        images = image_data.load(str(folder))
        assert sorted(images.test_labels.tolist()) == [0, 1]
        assert len(images.train) == 4

    @pytest.mark.parametrize(
        ("name", "mode", "expected"),
        [
            ("a.jpg", "RGB", (90, 90, 90)),
            ("a.JPEG", "L", (90, 90, 90)),
            ("a.png", "RGBA", (90, 90, 90)),
            ("a.png", "LA", (90, 90, 90)),
            ("a.png", "P", (90, 90, 90)),
            ("a.jpg", "CMYK", (90, 90, 90)),
            ("a.png", "1", (0, 0, 0)),
            ("a.bmp", "RGB", (90, 90, 90)),
        ],
    )
    def test_modes_beside_colour(self, folder, name, mode, expected):
        save(folder / "ants" / name, mode, value=90)
        Image.new("RGB", (11, 13), (200, 10, 10)).save(folder / "bees" / "colour.png")
        images = image_folder.read(str(folder)).images
        assert images.shape == (8, 13, 11, 3)
        near = [np.abs(image[0, 0].astype(int) - expected).max() <= 3 for image in images]
        assert any(near)

    def test_alpha_lies_over_white(self, folder):
        Image.new("RGBA", (11, 13), (0, 0, 0, 51)).save(folder / "ants" / "a.png")
        images = image_folder.read(str(folder)).images
        assert images.shape[-1] == 3
        assert (images[3] == 204).all()  # four fifths of white

    def test_sixteen_bits_become_eight(self, folder):
        Image.fromarray(np.full((13, 11), 257 * 130, "uint16")).save(folder / "ants" / "a.png")
        assert (image_folder.read(str(folder)).images[3] == 130).all()

    def test_rotation_of_a_camera(self, folder):
        exif = Image.Exif()
        exif[0x0112] = 6  # lies on its side
        save(folder / "ants" / "a.jpg", "L", size=(13, 11), exif=exif)
        assert image_folder.read(str(folder)).images.shape == (7, 13, 11, 1)

    def test_sizes(self, folder):
        save(folder / "bees" / "large.jpg", "L", size=(40, 30))
        with pytest.raises(
            ValueError, match=r"different sizes, such as 11 x 13 and 40 x 30\..*--image-size 64"
        ):
            image_folder.read(str(folder))
        assert image_folder.read(str(folder), 17).images.shape == (7, 17, 17, 1)

    @pytest.mark.parametrize("size", [(5, 9), (300, 9)])
    def test_extreme_size(self, tmp_path, size):
        for name in ("a/1.png", "a/2.png", "b/1.png", "b/2.png"):
            save(tmp_path / name, size=size)
        with pytest.raises(ValueError, match=f"a size of {size[0]} x {size[1]}; 8 to 256 are .*--image-size"):
            image_folder.read(str(tmp_path))

    def test_broken_files_are_named_and_left_out(self, folder):
        (folder / "ants" / "text.png").write_text("no image")
        (folder / "ants" / "empty.jpg").touch()
        whole = (folder / "bees" / "0.png").read_bytes()
        (folder / "bees" / "half.png").write_bytes(whole[: len(whole) // 2])
        (folder / "bees" / "gone.png").symlink_to(folder / "nowhere.png")
        found = image_folder.read(str(folder))
        assert len(found.images) == 6
        assert len(found.notes) == 1
        assert found.notes[0].startswith("4 of 10 images can't be read and are left out: ")
        for name in ("ants/text.png", "ants/empty.jpg", "bees/half.png", "bees/gone.png"):
            assert name in found.notes[0]

    def test_long_lists_are_cut(self, folder):
        for number in range(9):
            (folder / "ants" / f"x{number}.png").touch()
        assert "ants/x4.png" in image_folder.read(str(folder)).notes[0]
        assert image_folder.read(str(folder)).notes[0].endswith("and 4 more")

    def test_other_files_are_ignored_by_name(self, folder):
        (folder / "notes.txt").touch()
        (folder / "bees" / "list.csv").touch()
        (folder / "bees" / "inside.png").mkdir()
        (folder / ".hidden").mkdir()
        (folder / "ants" / ".DS_Store").touch()
        found = image_folder.read(str(folder))
        assert found.notes == (
            "3 entries are no images of a class and are ignored: bees/inside.png, bees/list.csv, notes.txt",
        )
        assert found.classes == ("ants", "bees")

    def test_links_are_followed(self, folder, tmp_path):
        (folder / "bees" / "link.png").symlink_to(folder / "ants" / "1.png")
        (folder / "wasps").symlink_to(folder / "ants", target_is_directory=True)
        found = image_folder.read(str(folder))
        assert found.classes == ("ants", "bees", "wasps")
        assert np.bincount(found.labels).tolist() == [3, 4, 3]

    def test_wrong_folders(self, folder, tmp_path):
        (folder / "empty").mkdir()
        single = tmp_path / "single"
        save(single / "only" / "a.png")
        no_classes = tmp_path / "no_classes"
        save(no_classes / "a.png")
        few = tmp_path / "few"
        for name in ("a/1.png", "a/2.png", "b/1.png"):
            save(few / name)
        (few / "b" / "2.png").touch()
        broken = tmp_path / "broken"
        for name in ("a/1.png", "b/1.png"):
            save(broken / name).write_text("no image")
        cases = {
            str(folder): "Class 'empty' of --data .* holds no image",
            str(single): "one subfolder of images per class, two at least. Received: 1 subfolder$",
            str(no_classes): "Received: 0 subfolders",
            str(few): r"Class 'b' .* two images that can be read.* Received: 1. Can't be read: b/2.png",
            str(broken): "None of the 2 images of --data .* can be read: a/1.png .*b/1.png",
            "no_folder": "must be digits, .*, cifar10 or a folder. There is no folder 'no_folder'",
        }
        for source, message in cases.items():
            with pytest.raises((ValueError, OSError), match=message):
                image_folder.read(source)


class TestModels:
    @pytest.mark.parametrize(("name", "attention"), MODELS)
    @pytest.mark.parametrize("shape", [(8, 8, 1), (29, 37, 3)])
    def test_shapes(self, name, attention, shape, rng):
        recipe = image_training.Recipe(name, attention)
        images = rng.integers(0, 256, (3, *shape)).astype("uint8")
        model = image_training.build(recipe, shape, 7, input_dtype="uint8")
        (outputs,) = image_training.answers(model, images)
        assert (model.inputs[0].name, model.output_names) == ("image", ["label"])
        assert model.inputs[0].dtype == "uint8"
        assert outputs.shape == (3, 7)
        np.testing.assert_allclose(outputs.sum(axis=-1), 1, rtol=1e-5)
        assert np.ptp(outputs, axis=0).max() > 1e-6

    def test_logits(self, rng):
        images = rng.integers(0, 256, (5, 8, 8, 1)).astype("uint8")
        model = image_models.mobile_cnn((8, 8, 1), 7, "se", logits=True)
        probabilities = image_models.mobile_cnn((8, 8, 1), 7, "se")
        probabilities.set_weights(model.get_weights())
        (logits,), (expected,) = (image_training.answers(each, images) for each in (model, probabilities))
        odds = np.exp(logits)
        np.testing.assert_allclose(odds / odds.sum(axis=-1, keepdims=True), expected, rtol=1e-4)
        assert not np.allclose(logits.sum(axis=-1), 1)

    def test_unknown_attention(self):
        with pytest.raises(
            ValueError, match=r"`attention` must be None or one of .*Received: attention='abc'"
        ):
            image_models.mobile_cnn((8, 8, 1), 7, "abc")

    def test_augmentation_is_for_training_only(self, rng):
        images = rng.integers(0, 256, (3, 8, 8, 1)).astype("float32")
        change = image_training.augmenting_layers(image_training.Augmentation(shift=0.3, flip=True))
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(change(images, training=False)), images)
        assert not np.array_equal(keras.ops.convert_to_numpy(change(images, training=True)), images)

    def test_mixed_precision_gives_a_float32_model(self, rng):
        images = rng.integers(0, 256, (16, 8, 8, 1)).astype("uint8")
        recipe = image_training.Recipe(
            attention="cbam", width=8, epochs=1, batch_size=8, mixed_precision=True
        )
        before = keras.config.dtype_policy().name
        model = image_training.train(images, np.arange(16) % 4, 4, recipe)
        assert keras.config.dtype_policy().name == before
        assert {layer.compute_dtype for layer in model.layers} == {"float32"}
        assert np.isfinite(image_training.answers(model, images)[0]).all()


@pytest.mark.parametrize(
    ("model", "num_images", "epochs", "expected"),
    [
        ("mobile_cnn", 1437, None, (60, 256, 6e-3)),
        ("vit_tiny", 1437, None, (100, 64, 3e-3)),
        ("swin_tiny", 50_000, None, (5, 64, 3e-3)),
        ("mobile_cnn", 31, None, (100, 8, 6e-3)),
        ("mobile_cnn", 700, 7, (7, 140, 6e-3)),
    ],
)
def test_recipes(model, num_images, epochs, expected):
    recipe = image_training.make_recipe(model, num_images, epochs=epochs, seed=3)
    assert (recipe.epochs, recipe.batch_size, recipe.learning_rate) == expected
    assert (recipe.model, recipe.seed) == (model, 3)


class TestPictures:
    def test_rollout_by_hand(self):
        # One block, two patches, one head: half of the uniform start stays, the other half goes as attended.
        scores = np.array([[[[1.0, 0.0], [1.0, 0.0]]]])
        np.testing.assert_allclose(image_pictures.rollout([scores]), [[0.75, 0.25]])
        # Two: of the 0.25 that the later one leaves to the second patch, the earlier one sends half away.
        np.testing.assert_allclose(image_pictures.rollout([scores, scores]), [[0.875, 0.125]])

    def test_windows_lie_where_they_were_cut(self):
        # 4 x 6 cells, windows of 2 x 3, rolled by (1, 2): each window gets a number of its own.
        scores = np.zeros((1, 4, 6, 6))
        for window in range(4):
            scores[0, window, :, 0] = window + 1.0  # all look at the first cell of their window
        found = image_pictures.window_map(scores, (4, 6), (2, 3), (1, 2))[0]
        expected = np.zeros((4, 6))
        for window, (row, column) in enumerate([(0, 0), (0, 3), (2, 0), (2, 3)]):
            expected[(row + 1) % 4, (column + 2) % 6] = 6 * (window + 1.0)
        np.testing.assert_allclose(found, expected)

    @pytest.mark.parametrize(("name", "attention"), MODELS)
    def test_picture(self, name, attention, rng, tmp_path):
        shape = (11, 13, 3)
        images = rng.integers(0, 256, (6, *shape)).astype("uint8")
        model = image_training.build(image_training.Recipe(name, attention), shape, 3)
        path = image_pictures.draw(
            model, images, np.array([0, 1, 1, 0, 1, 0]), ("a", "b", "c"), tmp_path / "x.png"
        )
        if path is None:
            assert (name, attention) == ("mobile_cnn", None)
            assert list(tmp_path.iterdir()) == []
            return
        pixels = np.asarray(Image.open(path).convert("RGB"))
        assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 100
        looks = image_pictures.looks(model, images)
        assert all(np.ptp(look.maps if look.channels is None else look.channels) > 0 for look in looks)
        assert any(look.maps is not None for look in looks) == (attention not in ("se", "eca", "channel"))


@pytest.fixture(scope="module")
def script():
    """The script as a module: one process for all runs."""
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    return importlib.import_module("image_classification").main


def run(script, *arguments):
    return testing.CliRunner().invoke(script, [str(argument) for argument in arguments])


class TestScript:
    @pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # TF 2.21 with NumPy 2
    def test_quick_run_writes_all_files_and_a_failing_one_touches_none(self, script, tmp_path, monkeypatch):
        done = run(script, "--quick", "--precision", "int8_full", "--attention-output", "--out", tmp_path)
        assert done.exit_code == 0, done.output
        names = {
            "model.keras",
            "model_int8_full.tflite",
            "model_int8_full.manifest.json",
            "report.html",
            "report.json",
            "attention.png",
            "metrics.json",
        }
        assert {path.name for path in tmp_path.iterdir()} == names
        report = json.loads((tmp_path / "report.json").read_text())
        assert report["inputs"] == ["image: uint8[1, 8, 8, 1], scale 1, zero point 0"]
        assert report["outputs"][0].startswith("label: uint8[1, 10]")
        assert report["outputs"][1].startswith("attention_map: uint8[1, 8, 8]")
        assert report["by_output"][0]["agreement"] >= 0.9
        assert report["manifest"]["attention"] == ["attention_map"]
        assert report["manifest"]["labels"] == {"label": list("0123456789")}
        metrics = json.loads((tmp_path / "metrics.json").read_text())
        assert metrics["test"]["all"] > 0.5
        assert metrics["recipe"]["attention"] == "cbam"
        assert "360 test images" in done.output

        def fail(*_, **__):
            raise tflite.ConversionError("Layer 'x' can't be converted.")

        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        trained = keras.saving.load_model(tmp_path / "model.keras")
        monkeypatch.setattr(image_training, "train", lambda *_, **__: trained)
        monkeypatch.setattr(tflite, "convert", fail)
        failed = run(script, "--quick", "--precision", "int8_full", "--out", tmp_path)
        assert failed.exit_code == 1
        assert "Error: model_int8_full.tflite was not written. Layer 'x' can't" in failed.output
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before

    def test_errors_are_one_line(self, script, folder, tmp_path):
        blocked = tmp_path / "file"
        blocked.touch()
        (folder / "empty").mkdir()
        cases = [
            (
                ("--attention", "se", "--attention-output"),
                2,
                "--attention-output needs --attention cbam or spatial: a map of places.",
            ),
            (
                ("--model", "vit_tiny", "--attention", "se"),
                2,
                "--attention is for mobile_cnn; vit_tiny has its own.",
            ),
            (("--attention", "none_such"), 2, "'none_such' is not one of"),
            (
                ("--precision", "int8_full", "--input-dtype", "float32"),
                2,
                "--precision int8_full has no floats: leave --input-dtype at uint8.",
            ),
            (("--data", folder), 1, "Error: Class 'empty' of --data"),
            (("--data", "digits", "--image-size", 16), 1, "Error: --image-size is for a folder of images."),
            (("--data", "digits", "--out", blocked / "deep"), 1, "Error: "),
        ]
        for arguments, code, message in cases:
            done = run(script, *arguments)
            assert done.exit_code == code, done.output
            assert message in done.output
            assert "Traceback" not in done.output
