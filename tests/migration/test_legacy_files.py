"""Files of Keras 2 with layers of `attention` and keras-self-attention: same outputs, without these packages.

The files in tests/files/legacy/models.zip were made by those packages, see make.py there.
"""

import json
import sys
import zipfile
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest
from moved import assert_same
from moved import classes
from moved import randomize

from keras_attention import AttentionPooling
from keras_attention import load_legacy_model

ARCHIVE = Path(__file__).resolve().parent.parent / "files" / "legacy" / "models.zip"
EXPECTED = {
    "self_attention": ["InputLayer", "BahdanauAttention*", "LuongAttention*", "PairMask*"],
    "masked": ["AttentionPooling*", "BahdanauAttention*", "LuongAttention*", "SetMask*", "Bidirectional"],
    "sequential": ["GRU", "PairMask*", "BahdanauAttention*", "AttentionPooling*", "Dense"],
    "many_to_one": ["LSTM", "AttentionPooling*", "Functional"],
    "padded_many_to_one": ["AttentionPooling*", "ScaledDotProductAttention*", "SetMask*"],
    "hierarchical": ["TimeDistributed", "AttentionPooling*"],
    "version_four": ["InputLayer", "AttentionPooling*"],
}
pytestmark = pytest.mark.filterwarnings("ignore:The .* has attention_regularizer_weight:UserWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("legacy")
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(folder)
    return folder


def answers(folder, name):
    with np.load(folder / f"{name}.npz") as file:
        return file["inputs"], [file[f"output_{index}"] for index in range(len(file.files) - 1)]


@pytest.mark.parametrize("ending", ["h5", "keras"])
@pytest.mark.parametrize("name", EXPECTED)
def test_outputs(name, ending, folder):
    model = load_legacy_model(folder / f"{name}.{ending}")
    inputs, outputs = answers(folder, name)
    assert_same(model(inputs), outputs)
    assert set(EXPECTED[name]) <= set(classes(model))
    assert not {"keras_self_attention", "attention", "tf_keras"} & set(sys.modules)


@pytest.mark.parametrize("name", ["masked", "many_to_one"])
def test_the_model_is_one_of_keras_3(name, folder, tmp_path, rng):
    """It is saved, loaded without custom objects, and trained."""
    model = load_legacy_model(folder / f"{name}.h5")
    inputs, outputs = answers(folder, name)
    model.save(tmp_path / "new.keras")
    model = keras.saving.load_model(tmp_path / "new.keras")
    assert_same(model(inputs), outputs)
    randomize(model, rng)  # sequences of these files are nearly constant, and so are some losses
    before = [weight.copy() for weight in model.get_weights()]
    model.compile(keras.optimizers.SGD(1.0), ["mse"] * len(outputs))
    model.fit(inputs, [np.zeros_like(output) for output in outputs], verbose=0)
    changed = [np.abs(a - b).max() > 0 for a, b in zip(before, model.get_weights(), strict=True)]
    assert all(changed), [w.path for w, c in zip(model.weights, changed, strict=True) if not c]


def test_other_lengths(folder):
    """The length is unknown in that model: masks follow the data, and more padding changes nothing."""
    model = load_legacy_model(folder / "masked.h5")
    words, _ = answers(folder, "masked")
    shorter, longer = model(words[1:, :4]), model(words[1:, :6])
    assert shorter[4].shape == (2, 4) and longer[4].shape == (2, 6)
    assert_same(shorter[4], np.asarray(longer[4])[:, :4])


@pytest.mark.parametrize("weights", ["version_four_weights.h5", "version_four.weights.h5"])
def test_weights_and_architecture(weights, folder):
    model = load_legacy_model(folder / weights, architecture=folder / "version_four.json")
    inputs, outputs = answers(folder, "version_four")
    assert_same(model(inputs), outputs)


def test_what_a_regularizer_did_is_said(folder):
    with pytest.warns(
        UserWarning, match="'attention' has attention_regularizer_weight=0.0001, a loss of training"
    ):
        load_legacy_model(folder / "sequential.h5")


def test_options_are_carried(folder):
    model = load_legacy_model(folder / "self_attention.h5")
    layer = model.get_layer("regularized")
    assert type(layer.kernel_regularizer) is keras.regularizers.L2
    assert type(layer.bias_constraint) is keras.constraints.NonNeg
    assert type(layer.kernel_initializer) is keras.initializers.GlorotNormal
    assert [
        model.get_layer(f"additive_{name}_pairs").get_config()[key]
        for name, key in (
            ("even_width", "before"),
            ("even_width", "after"),
            ("history_width", "before"),
            ("history_width", "after"),
        )
    ] == [2, 1, 1, 0]


def edited(folder, tmp_path, edit, name="sequential"):
    """A copy of an .h5 file whose config is edited."""
    path = tmp_path / "edited.h5"
    path.write_bytes((folder / f"{name}.h5").read_bytes())
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        edit(config["config"]["layers"])
        file.attrs["model_config"] = json.dumps(config)
    return path


def change(index, **options):
    return lambda layers: layers[index]["config"].update(options)


def rename(index, name):
    return lambda layers: layers[index].update(class_name=name)


def wrap(layers):
    layers[3] = {"class_name": "Holder", "config": {"name": "holder", "layer": layers[3]}}


class Holder(keras.layers.Wrapper):
    def call(self, inputs):
        return self.layer(inputs)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            change(2, attention_activation="sigmoid"),
            "The `SeqSelfAttention` layer 'attention' cannot be moved: no layer of ours puts an activation "
            "on the scores before their softmax. Received: attention_activation='sigmoid'",
        ),
        (change(1, time_major=True), "The `GRU` layer 'gru' cannot be moved: Keras 3 has no `time_major`."),
        (
            rename(2, "ResidualScaledDotProductAttention"),
            "The `ResidualScaledDotProductAttention` layer 'attention' cannot be moved: no layer of ours",
        ),
        (
            rename(4, "Capsule"),
            "cannot read the other layers of 'edited.h5'; pass classes and functions of your own as "
            "`custom_objects`. Unknown layer: 'Capsule'",
        ),
        (
            wrap,
            "The `SeqWeightedAttention` layer 'weighted' is a part of the `Holder` layer 'holder', ",
        ),
    ],
    ids=["activation", "time major", "residual", "unknown layer", "inside another layer"],
)
def test_what_is_refused(edit, message, folder, tmp_path):
    with pytest.raises(ValueError) as caught:
        load_legacy_model(edited(folder, tmp_path, edit), custom_objects={"Holder": Holder})
    assert message in str(caught.value)


def test_layers_of_keras_with_the_same_names_stay(folder, tmp_path):
    """`Attention` of Keras 2 itself is no layer of the package `attention`."""

    def edit(layers):
        layers[2] = {"class_name": "Attention", "config": {"name": "attention", "use_scale": False}}

    with pytest.raises(ValueError, match=r"Keras 3.* cannot read the other layers"):
        load_legacy_model(edited(folder, tmp_path, edit))


class Attention(keras.layers.Layer):
    """A class of one's own with the name and an option of that of the package."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units

    def build(self, input_shape):
        self.luong_w = self.add_weight(shape=(input_shape[-1], input_shape[-1]), name="luong_w")
        self.w_c = self.add_weight(shape=(2 * input_shape[-1], self.units), name="w_c")

    def call(self, inputs):
        return inputs[:, 0, : self.units]

    def get_config(self):
        return {**super().get_config(), "units": self.units}


def test_classes_of_the_user_are_theirs(folder):
    path = folder / "version_four.h5"
    assert type(load_legacy_model(path).layers[-1]) is AttentionPooling
    with pytest.raises(ValueError, match=r"'version_four.h5' holds no `SeqSelfAttention`"):
        load_legacy_model(path, custom_objects={"Attention": Attention})


def test_mixed_precision(folder, tmp_path):
    policy = {"class_name": "Policy", "config": {"name": "mixed_float16"}}
    model = load_legacy_model(edited(folder, tmp_path, change(2, dtype=policy)))
    assert model.get_layer("attention").dtype_policy.name == "mixed_float16"


def test_layers_in_another_order_are_not_mixed_up(folder, tmp_path):
    def edit(layers):
        layers[1], layers[2] = layers[2], layers[1]

    with pytest.raises(ValueError, match=r"orders the layers of 'edited\.h5' otherwise than Keras 2"):
        load_legacy_model(edited(folder, tmp_path, edit, "self_attention"))


def other_zip(path, folder):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("photo.txt", "3")


def plain_model(path, folder):
    inputs = keras.Input((3,))
    keras.Model(inputs, keras.layers.Dense(2)(inputs)).save(path)


def cut(path, folder):
    path.write_bytes((folder / "masked.h5").read_bytes()[:9000])


def broken_config(path, folder):
    path.write_bytes((folder / "masked.h5").read_bytes())
    with h5py.File(path, "r+") as file:
        file.attrs["model_config"] = "{"


def only_weights(path, folder):
    path.write_bytes((folder / "version_four_weights.h5").read_bytes())


@pytest.mark.parametrize(
    ("name", "write", "message"),
    [
        ("text.h5", lambda path, folder: path.write_text("hello"), "is neither an .h5 nor a .keras file"),
        ("other.keras", other_zip, "other.keras' is no file of `model.save`"),
        ("plain.keras", plain_model, "'plain.keras' holds no `SeqSelfAttention`, `SeqWeightedAttention` and"),
        ("cut.h5", cut, "cut.h5' is damaged"),
        ("broken.h5", broken_config, "broken.h5' holds no config of a model: it is damaged"),
        (
            "weights.h5",
            only_weights,
            "'weights.h5' holds weights and no model: save the text of `model.to_json()`",
        ),
    ],
)
def test_files_that_are_something_else(name, write, message, folder, tmp_path):
    write(tmp_path / name, folder)
    with pytest.raises(ValueError) as caught:
        load_legacy_model(tmp_path / name)
    assert message in str(caught.value)


def test_a_file_that_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no file .*nothing\.h5"):
        load_legacy_model(tmp_path / "nothing.h5")
    with pytest.raises(ValueError, match="is a folder, such as a SavedModel, which holds no layers"):
        load_legacy_model(tmp_path)
