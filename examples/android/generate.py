"""Write the modules exercise/ and digit/ of the Android app from the models that the examples trained.

    python examples/android/generate.py EXERCISE/model.keras DIGIT/model.keras

A .keras file gets its attention as a second output and becomes an int8 .tflite file; a .tflite file is taken
as it is.
"""

import argparse
import pathlib
import sys
import tempfile

from keras_attention import tflite

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
PACKAGE = "io.github.kerasattention"


def main() -> None:
    """Write both modules."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("exercise", type=pathlib.Path, help="of examples/activity_recognition.py")
    parser.add_argument("digit", type=pathlib.Path, help="of examples/image_classification.py")
    parser.add_argument("--out", type=pathlib.Path, default=HERE, help="folder of the Gradle project")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, path, convert in (
            ("Exercise", arguments.exercise, convert_exercise),
            ("Digit", arguments.digit, convert_digit),
        ):
            if path.suffix == ".keras":
                path = convert(path, pathlib.Path(folder) / f"{name}.tflite")
            module = arguments.out / name.lower()
            sources = tflite.android(path, module, class_name=name, package=f"{PACKAGE}.{name.lower()}")
            print(
                f"{module}: {len(sources.files)} files, {sources.golden_pairs} golden pairs", *sources.remarks
            )


def convert_exercise(path: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
    """The activity model with its attention over time, in int8."""
    import keras

    from common import attention_outputs
    from common import watch_data

    windows = watch_data.cut(watch_data.load()).inputs
    manifest = {
        "labels": {"exercise": list(watch_data.EXERCISES)},
        "features": list(watch_data.AXES),
        "units": list(watch_data.UNITS),
        "sampling_rate_hz": watch_data.RATE,
        "window_length": watch_data.WINDOW,
        "attention": [attention_outputs.NAME],
    }
    model = attention_outputs.over_time(keras.saving.load_model(path))
    calibration = windows[:: max(1, len(windows) // 512)]
    tflite.convert(model, target, precision="int8", calibration=calibration, manifest=manifest)
    return target


def convert_digit(path: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
    """The model of images with its attention over places, in int8."""
    import keras

    from common import attention_outputs
    from common import image_data

    images = image_data.load("digits")
    model = attention_outputs.over_places(keras.saving.load_model(path))
    manifest = {
        "labels": {model.output_names[0]: list(images.classes)},
        "attention": [attention_outputs.NAME],
    }
    tflite.convert(model, target, precision="int8", calibration=images.train[::3], manifest=manifest)
    return target


if __name__ == "__main__":
    main()
