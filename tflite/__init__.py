"""Keras models to verified .tflite files. Installed as `keras_attention.tflite`."""

from typing import TYPE_CHECKING

from keras_attention import lazy

if __name__ != "keras_attention.tflite":
    raise ImportError(
        f"The folder tflite/ of this checkout was imported as {__name__!r}. Install the project "
        "(pip install -e .) and import keras_attention.tflite; the name `tflite` belongs to another package."
    )

if TYPE_CHECKING:
    from keras_attention.tflite.apps.android.sources import AndroidSources
    from keras_attention.tflite.apps.android.sources import android
    from keras_attention.tflite.apps.web.writing import WebPage
    from keras_attention.tflite.apps.web.writing import web
    from keras_attention.tflite.arm64.checking import check_arm64
    from keras_attention.tflite.arm64.result import Arm64Check
    from keras_attention.tflite.benchmark_results import Benchmark
    from keras_attention.tflite.benchmark_results import FileTimes
    from keras_attention.tflite.benchmark_results import OperatorTime
    from keras_attention.tflite.benchmarking import benchmark
    from keras_attention.tflite.conversion import convert
    from keras_attention.tflite.errors import ConversionError
    from keras_attention.tflite.errors import FidelityError
    from keras_attention.tflite.finishing import Conversion
    from keras_attention.tflite.inspection import Inspection
    from keras_attention.tflite.inspection import inspect
    from keras_attention.tflite.linting.finding import Finding
    from keras_attention.tflite.linting.running import check
    from keras_attention.tflite.loading import load_model
    from keras_attention.tflite.micro.checking import MicroCheck
    from keras_attention.tflite.micro.checking import MicroOutput
    from keras_attention.tflite.micro.checking import check_micro
    from keras_attention.tflite.quantizing import quantize
    from keras_attention.tflite.report import Report
    from keras_attention.tflite.signatures import SignaturesConversion
    from keras_attention.tflite.signatures import convert_signatures
    from keras_attention.tflite.verification import Verification
    from keras_attention.tflite.verification import verify

__all__ = [
    "AndroidSources",
    "Arm64Check",
    "Benchmark",
    "Conversion",
    "ConversionError",
    "FidelityError",
    "FileTimes",
    "Finding",
    "Inspection",
    "MicroCheck",
    "MicroOutput",
    "OperatorTime",
    "Report",
    "SignaturesConversion",
    "Verification",
    "WebPage",
    "android",
    "benchmark",
    "check",
    "check_arm64",
    "check_micro",
    "convert",
    "convert_signatures",
    "inspect",
    "load_model",
    "quantize",
    "verify",
    "web",
]

_MODULES = {
    "AndroidSources": "apps.android.sources",
    "Arm64Check": "arm64.result",
    "Benchmark": "benchmark_results",
    "Conversion": "finishing",
    "ConversionError": "errors",
    "FidelityError": "errors",
    "FileTimes": "benchmark_results",
    "Finding": "linting.finding",
    "Inspection": "inspection",
    "MicroCheck": "micro.checking",
    "MicroOutput": "micro.checking",
    "OperatorTime": "benchmark_results",
    "Report": "report",
    "SignaturesConversion": "signatures",
    "Verification": "verification",
    "WebPage": "apps.web.writing",
    "android": "apps.android.sources",
    "benchmark": "benchmarking",
    "check": "linting.running",
    "check_arm64": "arm64.checking",
    "check_micro": "micro.checking",
    "convert": "conversion",
    "convert_signatures": "signatures",
    "inspect": "inspection",
    "load_model": "loading",
    "quantize": "quantizing",
    "verify": "verification",
    "web": "apps.web.writing",
}

if not TYPE_CHECKING:  # a type checker would take any name for one that exists
    __getattr__ = lazy.getter(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
