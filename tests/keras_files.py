"""Float files of Keras models, named as the child process names them, made in this process."""

import tempfile
import warnings
from pathlib import Path

from keras_attention.tflite import layer_names
from keras_attention.tflite import saved_model
from keras_attention.tflite import tensorflow_converter
from keras_attention.tflite.jobs import convert as conversion_job
from keras_attention.tflite.lowering import all_layers
from keras_attention.tflite.model_signature import read_signature


def float_file(model, samples=None, batch_size=1):
    """The bytes of the float file of a model."""
    signature = read_signature(model, samples, None, batch_size)
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as name:
        warnings.simplefilter("ignore")  # TensorFlow's own, which a user sees in no process of his
        outputs, _ = saved_model.export_saved_model(model, signature, Path(name), 512)
        content = tensorflow_converter.convert_saved_model(Path(name))
    layers = layer_names.of_model(all_layers(model)[1:])
    return conversion_job.prepare(content, signature.names(), outputs, layers)
