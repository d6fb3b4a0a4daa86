"""The activity example: data, windows, augmentation, models, pictures, and quick runs of the script."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
if not EXAMPLES.is_dir():
    pytest.skip("The examples are not beside the tests.", allow_module_level=True)
pytest.importorskip("rich")
pytest.importorskip("matplotlib")
sys.path.insert(0, str(EXAMPLES))

from common import activity_augmentation  # noqa: E402
from common import activity_models  # noqa: E402
from common import activity_training  # noqa: E402
from common import attention_pictures  # noqa: E402
from common import files  # noqa: E402
from common import watch_data  # noqa: E402

UNCHANGED = activity_augmentation.Augmentation(0, 0, 0, 0, 0, 0, 0)


@pytest.fixture(scope="module")
def recordings():
    try:
        return watch_data.load()
    except FileNotFoundError as error:
        pytest.skip(str(error))


@pytest.fixture
def windows(rng_windows):
    return rng_windows.normal(size=(5, watch_data.WINDOW, 6)).astype("float32")


@pytest.fixture
def rng_windows():
    return np.random.default_rng(7)


@pytest.fixture(params=sorted(activity_models.BUILDERS))
def model(request):
    keras.utils.set_random_seed(1)
    return activity_models.BUILDERS[request.param](np.arange(6.0), np.arange(1.0, 7.0))


class TestData:
    def test_counts(self, recordings):
        assert len(recordings) == 140
        assert sum(len(recording.signal) for recording in recordings) == 244_102
        combinations = {(recording.subject, recording.side, recording.label) for recording in recordings}
        assert combinations == {
            (subject, side, label)
            for subject in range(1, 11)
            for side in ("left", "right")
            for label in range(7)
        }
        assert [recording.number for recording in recordings] == list(range(140))

    def test_units(self, recordings):
        signal = np.concatenate([recording.signal for recording in recordings])
        assert signal.dtype == np.float32
        assert np.isfinite(signal).all()
        # Gravity is there: the arm moves, but on average the acceleration is near 1 g.
        assert 1 < np.linalg.norm(signal[:, :3], axis=1).mean() < 1.3

    def test_side_is_the_sign_of_gravity_along_the_forearm(self, recordings):
        hanging = [recording for recording in recordings if watch_data.EXERCISES[recording.label] == "PEN"]
        assert len(hanging) == 20
        for recording in hanging:
            assert (recording.signal[:, 0].mean() > 0) == (recording.side == "left")

    def test_unknown_file_is_not_unpickled(self, tmp_path):
        path = tmp_path / "watch_dataset.npy"
        path.write_bytes(b"not the recordings")
        with pytest.raises(ValueError, match="SHA-256"):
            watch_data.load(path)


class TestWindows:
    def test_each_window_is_a_piece_of_one_recording(self, recordings):
        cut = watch_data.cut(recordings[:9])
        assert cut.inputs.shape == (len(cut), watch_data.WINDOW, 6)
        assert len(set(cut.recordings)) == 9
        for window, number, start, label, subject in zip(
            cut.inputs, cut.recordings, cut.starts, cut.labels, cut.subjects, strict=True
        ):
            recording = recordings[number]
            np.testing.assert_array_equal(window, recording.signal[start : start + watch_data.WINDOW])
            assert (label, subject) == (recording.label, recording.subject)

    def test_number_of_windows(self, recordings):
        expected = sum(
            (len(recording.signal) - watch_data.WINDOW) // watch_data.STEP + 1 for recording in recordings
        )
        assert len(watch_data.cut(recordings)) == expected

    @pytest.mark.parametrize("arguments", [{"window": 0}, {"step": 0}])
    def test_bad_sizes(self, recordings, arguments):
        with pytest.raises(ValueError, match=r"Received: window=\d+, step=\d+"):
            watch_data.cut(recordings, **arguments)

    def test_window_longer_than_all_recordings(self, recordings):
        with pytest.raises(ValueError, match="Received: window=5000"):
            watch_data.cut(recordings, window=5000)


class TestSplits:
    def test_folds_hold_out_every_subject_once(self, recordings):
        held_out = []
        for train, test in watch_data.subject_folds(recordings):
            train_subjects = {recording.subject for recording in train}
            test_subjects = {recording.subject for recording in test}
            assert not train_subjects & test_subjects
            assert len(train) == 112
            assert len(test) == 28
            held_out += sorted(test_subjects)
        assert held_out == list(range(1, 11))

    @pytest.mark.parametrize("num_folds", [1, 11])
    def test_bad_number_of_folds(self, recordings, num_folds):
        with pytest.raises(ValueError, match=f"Received: num_folds={num_folds}, subjects=10"):
            next(watch_data.subject_folds(recordings, num_folds))

    def test_time_split_is_disjoint_and_complete(self, recordings):
        train, test = watch_data.time_split(recordings, 0.25)
        for recording, first, last in zip(recordings, train, test, strict=True):
            np.testing.assert_array_equal(np.concatenate([first.signal, last.signal]), recording.signal)
            assert len(first.signal) == int(0.75 * len(recording.signal))
            assert first.number == last.number == recording.number

    def test_time_folds_test_every_sample_once_and_train_on_no_tested_one(self, recordings):
        few = recordings[:3]
        folds = list(watch_data.time_folds(few, 5))
        for index, recording in enumerate(few):
            tested = [test[index].signal for _, test in folds]
            np.testing.assert_array_equal(np.concatenate(tested), recording.signal)
        for train, test in folds:
            for recording in few:
                parts = [part.signal for part in (*train, *test) if part.number == recording.number]
                assert sum(map(len, parts)) == len(recording.signal)
                assert len(parts) in (2, 3)

    def test_bad_number_of_time_folds(self, recordings):
        with pytest.raises(ValueError, match="Received: num_folds=1"):
            next(watch_data.time_folds(recordings, 1))

    def test_bad_fraction(self, recordings):
        with pytest.raises(ValueError, match="Received: test_fraction=1"):
            watch_data.time_split(recordings, 1)

    def test_statistics(self, recordings):
        mean, variance = watch_data.statistics(recordings[:3])
        samples = np.concatenate([recording.signal for recording in recordings[:3]])
        np.testing.assert_allclose(mean, samples.mean(axis=0), atol=1e-4)
        np.testing.assert_allclose(variance, samples.var(axis=0), rtol=1e-4)


class TestAugmentation:
    def test_mirror_twice_is_identity(self, windows):
        mirrored = activity_augmentation.mirror(windows)
        assert not np.array_equal(mirrored, windows)
        np.testing.assert_array_equal(activity_augmentation.mirror(mirrored), windows)

    def test_mirror_agrees_with_physics(self, rng_windows):
        # A pseudovector is the cross product of two vectors: reflecting both must reflect their product.
        first, second = rng_windows.normal(size=(2, 4, 3))
        reflect = activity_augmentation.MIRROR[:3]
        product = np.cross(first, second)
        np.testing.assert_allclose(
            np.cross(reflect * first, reflect * second),
            activity_augmentation.MIRROR[3:] * product,
            rtol=1e-12,
        )

    def test_rotation_keeps_norms_and_angles(self, windows, rng_windows):
        turned = activity_augmentation.rotate(windows, rng_windows.normal(size=(5, 3)))
        assert np.abs(turned - windows).max() > 0.1
        for sensor in (slice(0, 3), slice(3, 6)):
            np.testing.assert_allclose(
                np.linalg.norm(turned[..., sensor], axis=-1),
                np.linalg.norm(windows[..., sensor], axis=-1),
                rtol=1e-4,
            )
        # One rotation for both sensors: the angle between them stays.
        np.testing.assert_allclose(
            (turned[..., :3] * turned[..., 3:]).sum(axis=-1),
            (windows[..., :3] * windows[..., 3:]).sum(axis=-1),
            atol=1e-4,
        )

    def test_rotation_by_a_quarter_turn(self):
        # About z, x becomes y and y becomes -x.
        matrix = activity_augmentation.rotation_matrices(np.array([[0, 0, np.pi / 2], [0, 0, 0]]))
        np.testing.assert_allclose(matrix[0], [[0, -1, 0], [1, 0, 0], [0, 0, 1]], atol=1e-12)
        np.testing.assert_array_equal(matrix[1], np.eye(3))

    def test_unchanged_windows_come_from_the_recordings(self, recordings):
        batches = activity_augmentation.RandomWindows(recordings[:2], augmentation=UNCHANGED, batch_size=8)
        inputs, labels = batches[0]
        assert inputs.shape == (8, watch_data.WINDOW, 6)
        for window, label in zip(inputs, labels.argmax(axis=-1), strict=True):
            found = []
            for recording in recordings[:2]:
                views = np.lib.stride_tricks.sliding_window_view(recording.signal, watch_data.WINDOW, axis=0)
                distance = np.abs(views - window.T).max(axis=(1, 2))
                found += [recording.label] * int((distance < 1e-4).sum())
            assert found == [label]

    def test_batches_are_repeatable_and_differ(self, recordings):
        def batches(seed):
            return activity_augmentation.RandomWindows(recordings[:4], batch_size=6, seed=seed)

        inputs, labels = batches(3)[1]
        assert inputs.dtype == labels.dtype == np.float32
        assert np.isfinite(inputs).all()
        np.testing.assert_allclose(labels.sum(axis=-1), 1, rtol=1e-6)
        np.testing.assert_array_equal(inputs, batches(3)[1][0])
        assert not np.array_equal(inputs, batches(4)[1][0])
        later = batches(3)
        later.on_epoch_end()
        assert not np.array_equal(inputs, later[1][0])

    def test_tempo_scales_the_angular_rate(self):
        # A constant rate stays constant under resampling, so its gain is the tempo itself.
        steady = watch_data.Recording(0, np.ones((900, 6), "float32"), 0, 1, "left")
        option = dataclasses.replace(UNCHANGED, tempo=0.5)
        inputs, _ = activity_augmentation.RandomWindows((steady,), augmentation=option, batch_size=50)[0]
        np.testing.assert_allclose(inputs[..., :3], 1, rtol=1e-6)
        tempo = inputs[:, 0, 3]
        assert np.exp(-0.5) <= tempo.min() < 0.8
        assert 1.25 < tempo.max() <= np.exp(0.5)

    def test_too_short_recording(self, recordings):
        short = dataclasses.replace(recordings[0], signal=recordings[0].signal[:100])
        with pytest.raises(ValueError, match="shortest recording=100"):
            activity_augmentation.RandomWindows((short,))


class TestModels:
    def test_shapes_and_names(self, model, windows):
        assert model.inputs[0].name == "window"
        assert model.output_names == ["exercise"]
        assert model.input_shape == (None, 128, 6)
        outputs = activity_training.probabilities(model, windows, batch_size=2)
        assert outputs.shape == (5, 7)
        np.testing.assert_allclose(outputs.sum(axis=-1), 1, rtol=1e-5)

    def test_attention_rows_sum_to_one_and_outputs_stay(self, model, windows):
        outputs, scores = activity_models.with_attention(model)(windows)
        outputs, scores = keras.ops.convert_to_numpy(outputs), keras.ops.convert_to_numpy(scores)
        length = watch_data.WINDOW // activity_models.STRIDE
        assert scores.shape == ((5, 4, length, length) if model.name == "transformer" else (5, length))
        np.testing.assert_allclose(scores.sum(axis=-1), 1, rtol=1e-5)
        np.testing.assert_allclose(outputs, activity_training.probabilities(model, windows), atol=1e-5)

    @pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # TF 2.21 with NumPy 2
    def test_attention_of_a_saved_model(self, model, windows, tmp_path):
        path = files.write_atomically(tmp_path / "model.keras", model.save)
        loaded = keras.saving.load_model(path)
        for expected, actual in zip(
            activity_models.with_attention(model)(windows),
            activity_models.with_attention(loaded)(windows),
            strict=True,
        ):
            np.testing.assert_allclose(
                keras.ops.convert_to_numpy(actual), keras.ops.convert_to_numpy(expected), atol=1e-6
            )

    def test_normalization_is_inside(self, model, windows):
        # Shifting the data and the mean that the model was told of together changes nothing.
        shifted = activity_models.BUILDERS[model.name](np.arange(6.0) + 3, np.arange(1.0, 7.0))
        weights = [w for w in model.weights if not w.path.startswith("normalization/")]
        for target, source in zip(
            [w for w in shifted.weights if not w.path.startswith("normalization/")], weights, strict=True
        ):
            target.assign(source)
        np.testing.assert_allclose(
            activity_training.probabilities(shifted, windows + 3),
            activity_training.probabilities(model, windows),
            atol=1e-5,
        )

    def test_model_without_attention(self):
        plain = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)], name="plain")
        with pytest.raises(ValueError, match="Received: model=plain"):
            activity_models.with_attention(plain)


class TestAccuracy:
    def test_windows_recordings_and_subjects(self):
        windows = watch_data.Windows(
            inputs=np.zeros((5, 128, 6), "float32"),
            labels=np.array([0, 0, 0, 1, 1]),
            subjects=np.array([4, 4, 4, 5, 5]),
            recordings=np.array([0, 0, 0, 1, 1]),
            starts=np.arange(5),
        )
        outputs = np.eye(7)[[0, 0, 2, 3, 3]]
        result = activity_training.accuracy(windows, outputs)
        assert result.windows == pytest.approx(2 / 5)
        assert result.recordings == pytest.approx(1 / 2)
        assert result.subjects == {4: pytest.approx(2 / 3), 5: 0.0}


class TestPictures:
    @pytest.mark.parametrize("shape", [(3, 2, 32, 32), (3, 32)])
    def test_picture_is_written(self, recordings, shape, rng_windows, tmp_path):
        cut = watch_data.cut(recordings[:1])
        windows = watch_data.Windows(*(value[:3] for value in dataclasses.astuple(cut)))
        scores = rng_windows.dirichlet(np.ones(32), size=shape[:-1])
        outputs = np.eye(7)[[0, 1, 2]]
        shown = attention_pictures.view(windows, 1, outputs, scores, heading="model, subject")
        assert shown.weights.sum() == pytest.approx(1)
        true = watch_data.EXERCISE_NAMES[recordings[0].label]
        assert f"true: {true}, predicted: abduction (100%)" in shown.title
        path = attention_pictures.draw(shown, tmp_path / "attention.png")
        assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        assert [entry.name for entry in tmp_path.iterdir()] == ["attention.png"]

    def test_scores_of_unknown_rank(self, recordings):
        with pytest.raises(ValueError, match=r"scores.shape=\(1, 2, 3\)"):
            attention_pictures.view(
                watch_data.cut(recordings[:1]), 0, np.ones((1, 7)), np.ones((1, 2, 3)), heading="model"
            )


class TestFiles:
    def test_failed_write_leaves_the_old_file(self, tmp_path):
        path = files.write_json(tmp_path / "deep" / "a.json", {"a": 1})

        def fail(temporary):
            temporary.write_text("half")
            raise RuntimeError("disk full")

        with pytest.raises(RuntimeError, match="disk full"):
            files.write_atomically(path, fail)
        assert json.loads(path.read_text()) == {"a": 1}
        assert list(path.parent.iterdir()) == [path]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs the script in its own process, which finds the package of this checkout without installation."""
    package = tmp_path_factory.mktemp("path") / "keras_attention"
    package.mkdir()
    for source in (ROOT / "keras_attention").iterdir():
        (package / source.name).symlink_to(source)
    (package / "tflite").symlink_to(ROOT / "tflite")

    def run(*arguments):
        return subprocess.run(
            [sys.executable, str(EXAMPLES / "activity_recognition.py"), *arguments],
            capture_output=True,
            text=True,
            timeout=500,
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": str(package.parent),
                "CUDA_VISIBLE_DEVICES": "-1",
                "COLUMNS": "110",
            },
        )

    return run


class TestScript:
    def test_bad_option(self, run, tmp_path):
        done = run("--folds", "1", "--out", str(tmp_path))
        assert done.returncode == 2
        assert "--folds" in done.stderr

    @pytest.mark.parametrize("name", sorted(activity_models.BUILDERS))
    def test_quick_run_writes_all_files(self, run, recordings, name, tmp_path):
        done = run("--quick", "--model", name, "--attention-output", "--out", str(tmp_path))
        assert done.returncode == 0, done.stdout + done.stderr
        assert {path.name for path in tmp_path.iterdir()} == {
            "model.keras",
            "model_int8.tflite",
            "model_int8.manifest.json",
            "report.html",
            "report.json",
            "attention.png",
            "metrics.json",
        }
        report = json.loads((tmp_path / "report.json").read_text())
        assert report["precision"] == "int8"
        agreement = {row["output"]: row["agreement"] for row in report["by_output"]}
        assert agreement.keys() == {"exercise", "attention_map"} and agreement["exercise"] >= 0.9
        assert report["manifest"]["attention"] == ["attention_map"]
        assert report["manifest"]["units"] == {"window": list(watch_data.UNITS)}
        assert report["fully_delegated"] is True
        metrics = json.loads((tmp_path / "metrics.json").read_text())
        assert metrics["test"]["subjects"].keys() == {"9", "10"}
        assert metrics["test"]["windows"] > 1 / 7
        assert "agreement with Keras" in done.stdout
