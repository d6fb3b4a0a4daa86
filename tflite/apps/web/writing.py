"""`tflite.web`: from .tflite files to a page."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from keras_attention.tflite.apps import describing
from keras_attention.tflite.apps import folders
from keras_attention.tflite.apps.web import page
from keras_attention.tflite.apps.web import recordings as recording_files
from keras_attention.tflite.apps.web import runtime_package


@dataclass(frozen=True)
class WebPage:
    """A written page.

    Attributes:
        index: its index.html.
        size_bytes: of all its files.
        remarks: what the user should know of the models, one sentence each.
    """

    index: Path
    size_bytes: int
    remarks: tuple[str, ...]


def web(
    models: str | Path | Sequence[str | Path] | Mapping[str, str | Path],
    folder: str | Path,
    *,
    title: str | None = None,
    recordings: Sequence[str | Path] = (),
    runtime: str | Path | None = None,
    single_file: bool = False,
    overwrite: bool = False,
) -> WebPage:
    """Write a page that runs .tflite files in the browser, with LiteRT.js and without any request elsewhere.

    The page checks itself against the golden pairs in the files' manifests.

    Args:
        models: the .tflite files, each with the manifest beside or in it. They become tabs, called as the
            files are, or by the names of a mapping.
        folder: where to write. Files of an earlier page there are replaced.
        title: heading of the page. Defaults to the names of the models.
        recordings: CSV files to scrub through, their columns named as the features.
        runtime: what `npm pack` wrote, where npm can't be used here. Defaults to the copy in the user's
            cache, which npm fetches once.
        single_file: write everything into index.html, which then opens from disk too.
        overwrite: replace files of others in the folder.

    Raises:
        FileNotFoundError: a file, or npm, is missing.
        FileExistsError: the folder holds files of others by the same names.
        ConversionError: a .tflite file or its manifest is damaged.
        ValueError: the page can't run a file, a recording fits no model, or `runtime` is another version.
        OSError: npm can't fetch the runtime, or the folder can't be written.
    """
    paths = _named(models)
    found = {name: describing.describe(path) for name, path in paths.items()}
    windows = [
        tensor.names
        for description in found.values()
        for signature in description.signatures
        for tensor in signature.inputs
        if tensor.kind == "window"
    ]
    contents = page.files(
        {name: (description, description.path.read_bytes()) for name, description in found.items()},
        recording_files.read(recordings, windows),
        runtime_package.read(runtime),
        title or ", ".join(paths),
        single_file=single_file,
    )
    folders.write(Path(folder), contents, owner="page", last=("index.html", "sw.js"), overwrite=overwrite)
    remarks = tuple(
        f"{name}: {remark}" for name, description in found.items() for remark in description.remarks
    )
    return WebPage(Path(folder) / "index.html", sum(map(len, contents.values())), remarks)


def _named(models: str | Path | Sequence[str | Path] | Mapping[str, str | Path]) -> dict[str, Path]:
    """Return the files by name; where two are called alike, their folders tell them apart."""
    if isinstance(models, Mapping):
        named = {str(name): Path(path) for name, path in models.items()}
    else:
        paths = [Path(models)] if isinstance(models, str | Path) else [Path(path) for path in models]
        stems = [path.stem for path in paths]
        named = {}
        for path in paths:
            name = path.stem if stems.count(path.stem) == 1 else f"{path.resolve().parent.name}/{path.stem}"
            if name in named:
                raise ValueError(
                    f"Two `models` are called {name!r}. Give them names: {{'NAME': {str(path)!r}}}"
                )
            named[name] = path
    if not named:
        raise ValueError(f"`models` must name at least one .tflite file. Received: {models!r}")
    return named
