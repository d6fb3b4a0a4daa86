"""`android`: sources that match one .tflite file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_attention.tflite import files
from keras_attention.tflite.apps import folders
from keras_attention.tflite.apps.android import golden_asset
from keras_attention.tflite.apps.android import names
from keras_attention.tflite.apps.android import rendering
from keras_attention.tflite.apps.android import views
from keras_attention.tflite.apps.describing import describe
from keras_attention.tflite.apps.description import Description

LANGUAGES = ("kotlin", "java")
_COMMENTS = {".kt": "// ", ".java": "// ", ".py": "# ", ".md": "<!-- "}
_SUFFIXES = {"kotlin": ".kt", "java": ".java"}
_SUPPORT = {
    "kotlin": (
        "Golden",
        "ModelAssets",
        "ModelRuntime",
        "ParityCheck",
        "Results",
        "SampleWindow",
        "TensorSpec",
    ),
    "java": (
        "ClassLabel",
        "Classes",
        "Difference",
        "FloatTensor",
        "Golden",
        "GoldenAnswer",
        "GoldenColumn",
        "GoldenInput",
        "GoldenSample",
        "GoldenSeries",
        "GoldenSteps",
        "GoldenTensor",
        "GoldenWindow",
        "LongTensor",
        "ModelAssets",
        "ModelRuntime",
        "ParityCheck",
        "ParityException",
        "ParityReport",
        "Processor",
        "RuntimeOpener",
        "SampleWindow",
        "Shapes",
        "SignatureSpec",
        "TensorSpec",
    ),
}
_RUNTIMES = {"compiledModel": "CompiledModelRuntime", "interpreter": "InterpreterRuntime"}
VERSIONS = {"compiled_model": "2.3.0", "interpreter": "1.4.2"}
"""Of com.google.ai.edge.litert:litert, for the two runtimes."""


@dataclass(frozen=True)
class AndroidSources:
    """What `android` wrote.

    Attributes:
        folder: of the module.
        files: all files written.
        class_name: of the model's class.
        golden_pairs: how many the app replays at its start.
        remarks: what the user should know, one sentence each.
    """

    folder: Path
    files: tuple[Path, ...]
    class_name: str
    golden_pairs: int
    remarks: tuple[str, ...]


def android(
    path: str | Path,
    folder: str | Path,
    *,
    package: str = "com.example.app",
    language: views.Language = "kotlin",
    class_name: str | None = None,
    manifest: str | Path | None = None,
    overwrite: bool = False,
) -> AndroidSources:
    """Write an Android module whose code matches this .tflite file, and checks that it does: docs/android.md.

    Args:
        path: the .tflite file.
        folder: of the module, made if it isn't there.
        package: of the classes.
        language: "kotlin" or "java".
        class_name: of the model's class. Defaults to the file's name.
        manifest: its .manifest.json. Defaults to the one beside the file, else the one in it.
        overwrite: also replace files that were changed since they were generated, or written by others. What
            an earlier run wrote for this class, and this one doesn't, is removed where it is unchanged.

    Raises:
        ValueError: a name can't be used, or there is no code for one of the file's tensors.
        FileExistsError: `folder` has files that were not generated.
        ConversionError: the file or its manifest is damaged.
    """
    if language not in LANGUAGES:
        raise ValueError(f"`language` must be one of {LANGUAGES}. Received: {language!r}")
    names.check_package(package)
    if class_name is not None:
        names.check_class_name(class_name)
    description = describe(path, manifest)
    name = class_name or names.class_name(description.path.stem)
    contents, starters, count = generate(description, name, package, language)
    folder = Path(folder)
    kept = [folder / path for path in starters if (folder / path).exists()]
    folders.write(folder, contents, owner=name, overwrite=overwrite)
    new = {path: content for path, content in starters.items() if folder / path not in kept}
    for path, content in new.items():
        files.write_whole(folder / path, content)
    remarks = list(description.remarks)
    if not count:
        remarks.append("The app can't check its answers: there are no golden pairs to replay.")
    remarks += [f"{path.name} is left as it was; {name}.md says what it needs." for path in kept]
    if description.sampling_rate_hz is None and any(
        view.is_window for view in views.signatures(description, name, language)[0].inputs
    ):
        remarks.append("There is no class that cuts windows, since the manifest has no sampling_rate_hz.")
    return AndroidSources(
        folder, tuple(folder / path for path in [*contents, *new]), name, count, tuple(remarks)
    )


def generate(
    description: Description, name: str, package: str, language: views.Language
) -> tuple[dict[str, bytes], dict[str, bytes], int]:
    """Return the files by path, those that the user goes on with, and the number of golden pairs in them."""
    signatures = views.signatures(description, name, language)
    golden, count = golden_asset.content(description)
    asset = names.asset_name(name)
    values: dict[str, Any] = {
        "package": package,
        "language": language,
        "name": name,
        "file_name": description.file_name,
        "about": str(description.entries.get("description", "")),
        "asset": f"{asset}.tflite",
        "golden_asset": f"{asset}.golden",
        "signatures": signatures,
        "first": signatures[0],
        "pairs": count,
        "rate": description.sampling_rate_hz,
        "versions": VERSIONS,
        "remarks": description.remarks,
    }
    templates = rendering.environment(language)
    suffix = _SUFFIXES[language]
    main, test, runtimes = (
        f"src/{part}/{language}/{package.replace('.', '/')}" for part in ("main", "test", "{}")
    )
    texts = {f"{main}/{support}{suffix}": f"{support}{suffix}" for support in _SUPPORT[language]}
    texts[f"{main}/{name}{suffix}"] = f"Model{suffix}"
    texts[f"{main}/{name}Parity{suffix}"] = f"ModelParity{suffix}"
    for flavor, runtime in _RUNTIMES.items():
        texts[f"{runtimes.format(flavor)}/{runtime}{suffix}"] = f"{runtime}{suffix}"
    texts[f"{test}/HostRuntime{suffix}"] = f"HostRuntime{suffix}"
    texts[f"{test}/{name}ParityTest{suffix}"] = f"ModelParityTest{suffix}"
    texts["src/test/python/host_runtime.py"] = "host_runtime.py"
    texts[f"{name}.md"] = "Model.md"
    contents = {
        target: _marked(target, rendering.render(templates, template, **values))
        for target, template in texts.items()
    }
    for window in signatures[0].windows:
        target = f"{main}/{window.class_name}{suffix}"
        text = rendering.render(templates, f"Window{suffix}", **values, window=window)
        contents[target] = _marked(target, text)
    contents[f"src/main/assets/{asset}.tflite"] = description.path.read_bytes()
    contents[f"src/main/assets/{asset}.golden"] = golden
    gradle = rendering.render(templates, "build.gradle.kts", **values)
    return contents, {"build.gradle.kts": gradle.encode()}, count


def _marked(name: str, text: str) -> bytes:
    """Return the content of a text file whose first line says that it was generated."""
    start = _COMMENTS[Path(name).suffix]
    end = " -->" if start.startswith("<") else ""
    return f"{start}Generated by keras-attention android{end}\n{text}".encode()
