"""Samples that can't be real are refused, odd ones remarked on, and real ones left in peace."""

import importlib.metadata

import keras
import numpy as np
import pytest
import sklearn.datasets
from keras import layers

from keras_attention.tflite import convert
from keras_attention.tflite.data.normalization import read_statistics
from keras_attention.tflite.data.plausibility import check_plausible
from keras_attention.tflite.data.plausibility import noise_kind
from keras_attention.tflite.data.summary import outlier_remarks
from keras_attention.tflite.data.summary import summarize
from keras_attention.tflite.model_signature import read_signature


def watch_windows():
    """Real windows of six axes, in g and rad/s, cut from the recordings that ship with seglearn."""
    path = importlib.metadata.distribution("seglearn").locate_file("seglearn/data/watch_dataset.npy")
    recordings = np.load(path, allow_pickle=True).item()["X"]
    windows = [r[start : start + 128] for r in recordings for start in range(0, len(r) - 127, 257)]
    return np.stack(windows).astype(np.float32)


def digits():
    return sklearn.datasets.load_digits().images[..., None].astype(np.float32)


def sines(count=40, scale=1.0, seed=0):
    """Smooth signals, which nobody takes for noise: (count, 31, 3)."""
    rng = np.random.default_rng(seed)
    phase, rate = rng.uniform(0, 6, (count, 1, 3)), rng.uniform(0.1, 0.4, (count, 1, 3))
    return (scale * np.sin(phase + rate * np.arange(31)[:, None])).astype(np.float32)


def normalized(values, *, nested=False):
    norm = layers.Normalization(name="norm")
    norm.adapt(values)
    inputs = keras.Input(values.shape[1:], name="signal")
    x = keras.Sequential([keras.Input(values.shape[1:]), norm])(inputs) if nested else norm(inputs)
    return keras.Model(inputs, layers.Dense(2)(layers.Flatten()(x)))


def statistics_of(model):
    return read_statistics(model, read_signature(model))


REAL = {
    "watch": watch_windows,
    "watch_standardized": lambda: (w := watch_windows(), (w - w.mean((0, 1))) / w.std((0, 1)))[1],
    "digits": digits,
    "digits_0_to_1": lambda: digits() / 16,
    "digits_standardized": lambda: (d := digits(), (d - d.mean()) / d.std())[1],
}


@pytest.mark.parametrize("name", REAL)
def test_real_data_is_left_in_peace(name):
    values = REAL[name]()
    assert len(values) > 500
    half = len(values) // 2
    known = statistics_of(normalized(values)) if name == "watch" else {}
    assert check_plausible({"signal": values[:half]}, {"signal": values[half:]}, known) == []
    assert check_plausible({"signal": values[::20]}, None, known) == []
    assert noise_kind(values[:20]) is None


NOISE = {
    "standard normal": lambda rng, shape: rng.standard_normal(shape),
    "uniform": lambda rng, shape: rng.random(shape),
    "uniform, -1 to 1": lambda rng, shape: rng.uniform(-1, 1, shape),
    "uniform, codes": lambda rng, shape: rng.integers(0, 256, shape),
}


@pytest.mark.parametrize("kind", NOISE)
@pytest.mark.parametrize("shape", [(101, 11), (31, 17, 3), (23, 13, 11, 3)])
def test_noise_is_remarked_on_and_never_refused(kind, shape):
    for seed in range(5):
        values = NOISE[kind](np.random.default_rng(seed), shape).astype(np.float32)
        assert noise_kind(values) == kind.split(",")[0]
    (remark,) = check_plausible({"x": values}, None, {})
    assert "looks like random numbers" in remark and "recordings" in remark


def test_the_name_of_a_distribution_alone_makes_no_noise():
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.standard_normal((50, 100)), 1)
    assert noise_kind((walk - walk.mean()) / walk.std()) is None, "neighbours alike"
    features = rng.standard_normal((100, 20)) * 0.7 + 0.714 * rng.standard_normal(20)
    assert noise_kind((features - features.mean()) / features.std()) is None, "features differ"
    assert noise_kind(rng.standard_normal((10, 7))) is None, "too few to tell"


# --- against a Normalization layer


@pytest.mark.parametrize("nested", [False, True])
def test_statistics_are_found(nested):
    data = sines() * [1.0, 10.0, 100.0] + [5.0, 0.0, -7.0]
    (statistics,) = statistics_of(normalized(data, nested=nested)).values()
    assert statistics.layer == "norm"
    np.testing.assert_allclose(statistics.mean.ravel(), data.mean((0, 1)), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(statistics.std.ravel(), data.std((0, 1)), rtol=1e-4)


def test_statistics_of_the_right_input():
    norm = layers.Normalization(mean=[3.0], variance=[4.0])
    zebra, apple = keras.Input((5,), name="zebra"), keras.Input((7,), name="apple")
    model = keras.Model({"zebra": zebra, "apple": apple}, layers.Concatenate()([zebra, norm(apple)]))
    assert list(statistics_of(model)) == ["apple"]
    never_adapted = keras.Sequential([keras.Input((3,)), layers.Normalization()])
    inverted = keras.Sequential(
        [keras.Input((3,)), layers.Normalization(mean=2.0, variance=9.0, invert=True)]
    )
    assert statistics_of(never_adapted) == statistics_of(inverted) == {}


@pytest.mark.parametrize(
    ("change", "numbers"),
    [
        (lambda v: (v - v.mean((0, 1))) / v.std((0, 1)), "channel 0 has mean .* deviation 1, .*mean 500"),
        (lambda v: v / 1000, "mean 500 .*3 of 3 channels"),
        (lambda v: v * 1000, "in 3 of 3"),
        (lambda v: v + 1000, "has mean 1.5e.03"),
    ],
    ids=["scaled_twice", "too_small", "too_large", "shifted"],
)
def test_data_far_from_the_statistics_is_refused(change, numbers):
    data = sines() * 30 + 500
    known = statistics_of(normalized(data))
    changed = change(data)
    with pytest.raises(ValueError, match=r"`calibration`, input 'signal'.*layer 'norm'.*units and order"):
        check_plausible({"signal": changed}, None, known)
    with pytest.raises(ValueError, match=numbers):
        check_plausible({"signal": changed}, None, known)
    (remark,) = check_plausible(None, {"signal": changed}, known)
    assert remark.startswith("`evaluation`, input 'signal'")


def test_one_odd_channel_and_other_conditions_are_not_refused():
    data = sines() * 30 + 500
    known = statistics_of(normalized(data))
    broken_sensor = data.copy()
    broken_sensor[..., 1] = 0.0
    for values in (data, broken_sensor, data * 1.2, data[:1], data + 40):
        assert not [r for r in check_plausible({"signal": values}, None, known) if "norm" in r]


# --- calibration against evaluation


@pytest.mark.parametrize("factor", [1 / 255, 1 / 12, 12, 255])
def test_another_scale_is_refused(factor):
    with pytest.raises(ValueError, match=r"`calibration`, input 'x'.*`evaluation`.*ratio above 10"):
        check_plausible({"x": sines() * np.float32(factor)}, {"x": sines(seed=1)}, {})


def test_nearly_the_same_scale_is_not_refused():
    assert check_plausible({"x": sines() * 8}, {"x": sines(seed=1)}, {}) == []
    (remark,) = check_plausible({"x": sines()}, {"x": sines(seed=1) * 2}, {})
    assert "% of the values of `evaluation` lie outside its range, -1 to 1" in remark
    one_quiet_sample = {"x": sines(1) / 100}
    assert check_plausible({"x": sines()}, one_quiet_sample, {}) == []


# --- what is remarked on


def test_few_equal_and_copied_samples():
    (few,) = check_plausible({"x": sines(7)}, None, {})
    assert "`calibration` holds 7 samples" in few
    (equal,) = check_plausible({"x": np.repeat(sines(1), 30, axis=0)}, None, {})
    assert "all 30 samples are equal" in equal
    (copies,) = check_plausible({"x": np.concatenate([sines(30), sines(30)[:10]])}, None, {})
    assert "10 of 40 samples are copies" in copies
    tokens = np.zeros((30, 5), np.int32)
    assert check_plausible({"tokens": tokens}, None, {}) == [], "integers may well repeat"


def test_an_outlier_is_named():
    values = sines()
    values[17, 3, 1] = -1e30
    (remark,) = outlier_remarks("calibration", {"x": values})
    assert "`calibration`, input 'x': the value -1e+30 of sample 17" in remark
    assert outlier_remarks("calibration", {"x": sines()}) == []


def test_summary():
    values = np.arange(-50, 51, dtype=np.float32).reshape(101, 1)
    values[0] = 1000.0
    summary = summarize({"x": values})["x"]
    assert list(summary) == ["min", "max", "mean", "std", "p0.01", "p99.99", "outliers"]
    assert (summary["min"], summary["max"]) == (-49.0, 1000.0)
    assert summary["mean"] == pytest.approx(values.mean()) and summary["std"] == pytest.approx(values.std())
    assert summary["outliers"] == 1 / 101
    assert summary["p99.99"] == pytest.approx(np.percentile(values, 99.99))
    huge = summarize({"x": np.float32([[1e30], [-1e38], [3.0]])})["x"]
    assert all(np.isfinite(list(huge.values())))


# --- through the front door


def test_uint8_codes_for_a_model_of_floats():
    inputs = keras.Input((4,), name="features")
    model = keras.Model(inputs, layers.Dense(3)(inputs))
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 256, (64, 4)).astype(np.uint8)
    with pytest.raises(ValueError, match=r"`calibration`, input 'features'.*uint8 codes"):
        convert(model, calibration=codes, evaluation=rng.normal(size=(32, 4)), verbose=0)


@pytest.mark.slow
def test_uint8_images_from_a_generator_and_what_the_report_says():
    inputs = keras.Input((12, 13, 3), name="image")
    x = layers.Conv2D(8, 3, activation="relu")(layers.Rescaling(1 / 255.0)(inputs))
    model = keras.Model(inputs, layers.Dense(4)(layers.GlobalAveragePooling2D()(x)))
    images = np.clip(128 + 100 * np.kron(sines(30)[:, :12, :, None], np.ones((13, 1)))[:, :, :39], 0, 255)
    images = images.reshape(-1, 12, 13, 3).astype(np.uint8)
    result = convert(
        model,
        calibration=lambda: ([image[None]] for image in images),
        evaluation=iter(images[:11].astype(np.float32)),
        verbose=0,
    )
    assert result.report.samples == 11 and result.report.calibration["samples"] == len(images)
    shown = result.report.calibration["inputs"]["image"]
    assert (shown["min"], shown["max"]) == (images.min(), images.max())
    assert not [remark for remark in result.report.remarks if "calibration" in remark]
