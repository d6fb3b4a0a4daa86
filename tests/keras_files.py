"""Float files of Keras models, named as the child process names them, made in this process."""

import tempfile
import warnings
from pathlib import Path

from keras_attention.tflite import graph as graphs
from keras_attention.tflite import layer_names
from keras_attention.tflite import ordering
from keras_attention.tflite import rewriting
from keras_attention.tflite import saved_model
from keras_attention.tflite.lowering import all_layers
from keras_attention.tflite.model_signature import read_signature


def float_file(model, samples=None, batch_size=1):
    """The bytes of the float file of a model."""
    signature = read_signature(model, samples, None, batch_size)
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as name:
        warnings.simplefilter("ignore")  # TensorFlow's own, which a user sees in no process of his
        outputs, _ = saved_model.export_saved_model(model, signature, Path(name), 512)
        content = saved_model.convert_saved_model(Path(name))
    graph = graphs.read_graph(content)
    graphs.set_interface(graph, signature.names(), outputs)
    rewriting.keep_sliced_axes(graph)
    rewriting.separate_outputs(graph)
    ordering.save_memory(graph)
    layer_names.name_tensors(graph, layer_names.of_model(all_layers(model)[1:]))
    return graphs.write_graph(graph)
