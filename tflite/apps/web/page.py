"""The files of a page, from the models' descriptions: in memory, as path -> bytes."""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import json
import re
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2

from keras_attention.tflite.apps.description import Description
from keras_attention.tflite.apps.web import page_data
from keras_attention.tflite.apps.web import runtime_package
from keras_attention.tflite.apps.web.recordings import Recording

DATA = "page.json"
_FOLDER = Path(__file__).parent / "page"
_SCRIPT = "litert/litert.js"
_MODULE = "litert/litert.wasm.gz"
_IMPORT = re.compile(r'from "\./')
_LEVEL = 6
_ONLY_OWN = "base-uri 'none'; form-action 'none'; img-src data: blob:; default-src 'none'"
"""Parts of the page's content security policy: with it, the browser itself refuses requests elsewhere."""


def files(
    models: Mapping[str, tuple[Description, bytes]],
    recordings: Sequence[Recording],
    runtime: runtime_package.Runtime,
    title: str,
    *,
    single_file: bool,
) -> dict[str, bytes]:
    """Return what to write: path in the page's folder -> content; only index.html for a single file.

    Args:
        models: name -> description and content of a .tflite file.
        recordings: what the page brings along.
        runtime: LiteRT.js.
        title: heading of the page.
        single_file: put everything into index.html.

    Raises:
        ValueError: the page can't run a file.
    """
    assets = {_MODULE: gzip.compress(runtime.module, _LEVEL, mtime=0)}
    entries = []
    for number, (name, (description, content)) in enumerate(models.items(), 1):
        path = f"models/{number}_{_plain(description.path.stem)}.tflite"
        entries.append(page_data.model(name, description, path))
        assets[path] = content
    listed = []
    for number, recording in enumerate(recordings, 1):
        path = f"recordings/{number}_{_plain(recording.name)}.csv"
        listed.append({"name": recording.name, "path": path, "columns": list(recording.columns)})
        assets[path] = recording.content
    data = {
        "models": entries,
        "recordings": listed,
        "runtime": _MODULE,
        "single_file": single_file,
    }
    assets[DATA] = json.dumps(data, separators=(",", ":")).encode()
    if single_file:
        return {"index.html": _single(assets, runtime, title)}
    scripts = {f"js/{path.name}": path.read_bytes() for path in _scripts() if path.name != "sw.js"}
    found = {
        "index.html": _folder_page(title),
        "style.css": (_FOLDER / "style.css").read_bytes(),
        **scripts,
        _SCRIPT: runtime.script,
        "litert/NOTICE.txt": _notice(),
        **assets,
    }
    found["sw.js"] = _service_worker(found)
    return found


def _single(assets: Mapping[str, bytes], runtime: runtime_package.Runtime, title: str) -> bytes:
    """Return the page with everything in it; modules find each other by an import map of data URLs."""
    modules = {path.name: _IMPORT.sub('from "app/', path.read_text()) for path in _scripts()}
    entry = 'import "app/main.js";'
    import_map = json.dumps(
        {
            "imports": {
                f"app/{name}": "data:text/javascript;base64," + base64.b64encode(text.encode()).decode()
                for name, text in modules.items()
                if name != "sw.js"
            }
        }
    )
    glue = runtime.script.decode()
    if re.search(r"</script|<!--", glue, re.IGNORECASE):
        raise ValueError("The runtime's script can't stand inside a page.")
    hashes = " ".join(_source_hash(text) for text in (glue, import_map, entry))
    return _render(
        title,
        policy=f"script-src data: 'wasm-unsafe-eval' {hashes}; style-src 'unsafe-inline'; {_ONLY_OWN}",
        style=(_FOLDER / "style.css").read_text(),
        embedded={
            path: base64.b64encode(gzip.compress(content, _LEVEL, mtime=0)).decode()
            for path, content in assets.items()
        },
        glue=glue,
        import_map=import_map,
        entry=entry,
        notice=_notice().decode(),
    )


def _folder_page(title: str) -> bytes:
    policy = "script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; connect-src 'self'; worker-src 'self'"
    return _render(title, policy=f"{policy}; {_ONLY_OWN}", glue_path=_SCRIPT)


def _render(title: str, **values: Any) -> bytes:
    known = {
        "style": "",
        "embedded": {},
        "glue": "",
        "import_map": "",
        "entry": "",
        "glue_path": "",
        "notice": "",
    }
    version = runtime_package.VERSION
    return _template().render(title=title, runtime_version=version, **{**known, **values}).encode()


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("index.html")


def _scripts() -> list[Path]:
    return sorted(_FOLDER.glob("*.js"))


def _service_worker(found: Mapping[str, bytes]) -> bytes:
    """Return the service worker, which changes whenever a file of the page does."""
    digest = hashlib.sha256()
    for path, content in sorted(found.items()):
        digest.update(path.encode() + b"\0" + hashlib.sha256(content).digest())
    text = (_FOLDER / "sw.js").read_text()
    paths = "./ " + " ".join(path for path in found)
    return text.replace("@VERSION@", digest.hexdigest()[:16]).replace("@FILES@", paths).encode()


def _source_hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _notice() -> bytes:
    return (_FOLDER / "NOTICE.txt").read_bytes()


def _plain(name: str) -> str:
    """Return a name that needs no escaping in any URL or file system."""
    return re.sub(r"[^A-Za-z0-9-]+", "_", name)[:60].strip("_") or "file"
