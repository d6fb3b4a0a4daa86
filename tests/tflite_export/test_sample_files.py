"""Samples in files and folders: the same as the arrays that were written into them."""

import keras
import numpy as np
import pytest

from keras_attention.tflite.data import gathered as limits
from keras_attention.tflite.model_signature import ModelSignature
from keras_attention.tflite.model_signature import TensorSpec
from keras_attention.tflite.samples import check_samples
from keras_attention.tflite.samples import gather

COUNT = 13
WINDOW = TensorSpec("window", (5, 3), "float32")
ONE = ModelSignature((WINDOW,), 0)
VECTOR = ModelSignature((TensorSpec("features", (3,), "float32"),), 0)
TWO = ModelSignature((TensorSpec("a", (5, 3), "float32"), TensorSpec("b", (2,), "float32")), [0, 1])
RNG = np.random.default_rng(20261130)
WINDOWS = np.round(RNG.normal(size=(COUNT, 5, 3)), 3).astype(np.float32)


def check(path, signature=ONE, argument="calibration"):
    return check_samples(argument, path, signature, spread=False)


def write_csv(path, rows, header=None):
    lines = [",".join(f"{value:.3f}" for value in row) for row in rows]
    path.write_text("\n".join([header, *lines] if header else lines) + "\n")
    return path


def image_signature(height=7, width=5, channels=3, dtype="float32"):
    return ModelSignature((TensorSpec("image", (height, width, channels), dtype),), 0)


# --- NumPy's own


def test_npz_and_npy(tmp_path):
    np.save(tmp_path / "a.npy", WINDOWS)
    np.savez(tmp_path / "b.npz", anything=WINDOWS, targets=np.arange(COUNT))
    np.savez(tmp_path / "c.npz", b=WINDOWS[:, 0, :2], a=WINDOWS)
    np.testing.assert_array_equal(check(tmp_path / "a.npy").inputs["window"], WINDOWS)
    both = check(str(tmp_path / "b.npz"))
    np.testing.assert_array_equal(both.inputs["window"], WINDOWS)
    np.testing.assert_array_equal(both.targets, np.arange(COUNT))
    two = check(tmp_path / "c.npz", TWO)
    np.testing.assert_array_equal(two.inputs["a"], WINDOWS)
    np.testing.assert_array_equal(two.inputs["b"], WINDOWS[:, 0, :2])


# --- .csv


@pytest.mark.parametrize("header", [None, "ax,ay,az", '"ax","ay","az"'])
def test_one_csv_is_cut_into_windows(tmp_path, header):
    path = write_csv(tmp_path / "recording.csv", WINDOWS.reshape(-1, 3), header)
    samples = check(path)
    np.testing.assert_allclose(samples.inputs["window"], WINDOWS, atol=1e-6)
    assert samples.remarks == ()
    np.testing.assert_allclose(check(path, VECTOR).inputs["features"], WINDOWS.reshape(-1, 3), atol=1e-6)


def test_rows_that_fill_no_window_are_told(tmp_path):
    samples = check(write_csv(tmp_path / "recording.csv", WINDOWS.reshape(-1, 3)[:-2]))
    np.testing.assert_allclose(samples.inputs["window"], WINDOWS[:-1], atol=1e-6)
    (remark,) = samples.remarks
    assert "'recording.csv'" in remark and "fill no window" in remark


def test_a_long_csv_is_read_in_parts(tmp_path):
    rows = np.arange(3 * 9001).reshape(-1, 3) % 1009
    np.savetxt(tmp_path / "long.csv", rows, "%d", ",", encoding="utf-8-sig")
    samples = check(tmp_path / "long.csv", argument="evaluation")
    np.testing.assert_array_equal(samples.inputs["window"], rows[:9000].reshape(-1, 5, 3))


def test_csv_folder(tmp_path):
    for index, window in enumerate(WINDOWS):
        write_csv(tmp_path / f"{index:02}.csv", window, "ax,ay,az")
    (tmp_path / ".hidden.csv").write_text("no")
    (tmp_path / "notes.txt").write_text("no")
    samples = check(tmp_path)
    np.testing.assert_allclose(samples.inputs["window"], WINDOWS, atol=1e-6)
    assert samples.targets is None and samples.remarks == ()


def test_csv_folder_of_classes(tmp_path):
    for index, window in enumerate(WINDOWS):
        folder = tmp_path / ("walk", "run", "sit")[index % 3]
        folder.mkdir(exist_ok=True)
        write_csv(folder / f"{index:02}.csv", window)
    samples = check(tmp_path)
    order = [index for name in (1, 2, 0) for index in range(COUNT) if index % 3 == name]
    np.testing.assert_allclose(samples.inputs["window"], WINDOWS[order], atol=1e-6)
    np.testing.assert_array_equal(samples.targets, [0] * 4 + [1] * 4 + [2] * 5)
    assert samples.remarks == (
        "`calibration`: targets are the subfolders in sorted order: 0 = run, 1 = sit, 2 = walk.",
    )


def test_an_open_length_is_that_of_the_files(tmp_path):
    for index, window in enumerate(WINDOWS):
        write_csv(tmp_path / f"{index:02}.csv", window)
    found = gather("calibration", tmp_path, (TensorSpec("window", (None, 3), "float32"),))
    assert found.inputs["window"].shape == (COUNT, 5, 3)


def test_many_files_are_chosen_evenly_before_reading(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MAX_CALIBRATION_SAMPLES", 4)
    for index, window in enumerate(WINDOWS):
        write_csv(tmp_path / f"{index:02}.csv", window)
    samples = check(tmp_path)
    np.testing.assert_allclose(samples.inputs["window"], WINDOWS[[0, 4, 8, 12]], atol=1e-6)
    assert samples.remarks == ("`calibration`: 4 of 13 files, evenly spread, are used.",)


# --- images


def save_images(folder, count=5, height=7, width=5, channels=3, suffix="png"):
    images = np.random.default_rng(7).integers(0, 256, (count, height, width, channels), dtype=np.uint8)
    for index, image in enumerate(images):
        keras.utils.save_img(folder / f"{index}.{suffix}", image, scale=False, data_format="channels_last")
    return images


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("suffix", ["png", "bmp"])  # webp and jpg lose something
def test_images_come_as_they_were_saved(tmp_path, dtype, suffix):
    images = save_images(tmp_path, suffix=suffix)
    samples = check(tmp_path, image_signature(dtype=dtype))
    np.testing.assert_array_equal(samples.inputs["image"], images)
    assert samples.inputs["image"].dtype == dtype
    assert [("0 to 255" in remark) for remark in samples.remarks] == [True] * (dtype == "float32")


@pytest.mark.parametrize("suffix", ["jpg", "webp"])
def test_gray_and_another_size(tmp_path, suffix):
    save_images(tmp_path, suffix=suffix, height=31, width=29)
    samples = check(tmp_path, image_signature(channels=1))
    assert samples.inputs["image"].shape == (5, 7, 5, 1)
    expected = keras.utils.load_img(
        tmp_path / f"3.{suffix}", color_mode="grayscale", target_size=(7, 5), interpolation="bilinear"
    )
    np.testing.assert_array_equal(samples.inputs["image"][3, :, :, 0], np.asarray(expected))


def test_subfolders_of_images_are_classes(tmp_path):
    (tmp_path / "dog").mkdir()
    (tmp_path / "cat").mkdir()
    (tmp_path / "empty").mkdir()
    dogs, cats = save_images(tmp_path / "dog", 3), save_images(tmp_path / "cat", 2)
    samples = check(tmp_path, image_signature(), "evaluation")
    np.testing.assert_array_equal(samples.inputs["image"], np.concatenate([cats, dogs]))
    np.testing.assert_array_equal(samples.targets, [0, 0, 1, 1, 1])


# --- what is refused


def broken_image(folder):
    (folder / "0.png").write_bytes(b"\x89PNG no image")
    return folder


def mixed_folder(folder):
    write_csv(folder / "0.csv", WINDOWS[0])
    save_images(folder, 1)
    return folder


def files_and_classes(folder):
    (folder / "walk").mkdir()
    write_csv(folder / "walk" / "0.csv", WINDOWS[0])
    return write_csv(folder / "0.csv", WINDOWS[0]).parent


def other_columns(folder):
    write_csv(folder / "0.csv", WINDOWS[0], "ax,ay,az")
    return write_csv(folder / "1.csv", WINDOWS[0], "ay,ax,az").parent


def text_file(content, name="a.csv"):
    def write(folder):
        (folder / name).write_text(content)
        return folder / name

    return write


def pickled(folder):
    np.save(folder / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    return folder / "a.npy"


def truncated(folder):
    np.savez(folder / "a.npz", window=WINDOWS)
    (folder / "a.npz").write_bytes((folder / "a.npz").read_bytes()[:-50])
    return folder / "a.npz"


REFUSED = {
    "missing": (lambda folder: folder / "gone.npz", ONE, FileNotFoundError, "No such file.*gone.npz"),
    "other_kind": (text_file("x", "a.parquet"), ONE, ValueError, ".npz, .npy or .csv.*a.parquet"),
    "empty_folder": (lambda folder: folder, ONE, ValueError, "must hold .csv files or images.*0 other files"),
    "mixed_folder": (mixed_folder, ONE, ValueError, "Received: both"),
    "files_and_classes": (
        files_and_classes,
        ONE,
        ValueError,
        "either files, or one subfolder for each class",
    ),
    "other_columns": (other_columns, ONE, ValueError, "columns of .*1.csv' are not those of '0.csv'"),
    "not_numbers": (
        text_file("1,2,3\n1,x,3\n"),
        ONE,
        ValueError,
        "must hold numbers, separated by commas.*'x'",
    ),
    "empty_cell": (text_file("1,2,3\n1,,3\n"), ONE, ValueError, "must hold numbers"),
    "semicolons": (text_file("1;2;3\n1;2;3\n"), ONE, ValueError, "separated by commas"),
    "too_many_columns": (text_file("1,2,3,4\n" * 5), ONE, ValueError, "3 features.*Received: 4 columns"),
    "too_short": (text_file("1,2,3\n" * 4), ONE, ValueError, "has 4 rows, fewer than one window"),
    "only_a_header": (text_file("a,b,c\n"), ONE, ValueError, "has 0 rows"),
    "no_text": (
        lambda f: (f / "a.csv").write_bytes(b"\xff\xfe\x00") and f / "a.csv",
        ONE,
        ValueError,
        "no text",
    ),
    "csv_for_images": (text_file("1,2,3\n"), image_signature(), ValueError, r"rows and columns.*\(7, 5, 3\)"),
    "csv_for_two_inputs": (text_file("1,2,3\n"), TWO, ValueError, r"\['a', 'b'\].*an .npz file"),
    "broken_image": (broken_image, image_signature(), ValueError, "image .*0.png' can't be read"),
    "images_for_windows": (broken_image, VECTOR, ValueError, "folder of images, but input 'features'"),
    "pickled": (pickled, ONE, ValueError, "can't be read"),
    "truncated": (truncated, ONE, ValueError, "can't be read"),
    "text_as_npz": (text_file("1,2,3", "a.npz"), ONE, ValueError, "pickled objects"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path, name):
    make, signature, kind, message = REFUSED[name]
    with pytest.raises(kind, match="(?s)`calibration`.*" + message):
        check(make(tmp_path), signature)


def test_a_subclassed_model_takes_no_csv(tmp_path):
    path = write_csv(tmp_path / "a.csv", WINDOWS[0])
    with pytest.raises(ValueError, match=r"subclassed model doesn't say the shape.*.npz"):
        gather("calibration", path, None)
