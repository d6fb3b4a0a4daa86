"""A file is written whole or not at all."""

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from keras_attention.tflite import files
from keras_attention.tflite import leftovers
from keras_attention.tflite import light_worker


def contents(folder):
    return {entry.name: entry.read_bytes() for entry in folder.iterdir()}


def test_writes_and_overwrites(tmp_path):
    path = tmp_path / "model.tflite"
    files.write_whole(path, b"first")
    assert contents(tmp_path) == {"model.tflite": b"first"}
    files.write_whole(path, b"second, longer")
    assert contents(tmp_path) == {"model.tflite": b"second, longer"}


@pytest.mark.parametrize("fault", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("old", [b"old bytes", None], ids=["over_a_file", "new"])
@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_failure_in_the_middle_leaves_everything_as_it_was(tmp_path, monkeypatch, where, old, fault):
    path = tmp_path / "model.tflite"
    if old is not None:
        path.write_bytes(old)
    before = contents(tmp_path)

    def fail(*_):
        assert len(contents(tmp_path)) == len(before) + 1, "the bytes go to a file beside"
        raise fault

    monkeypatch.setattr(*((os, "fsync") if where == "fsync" else (Path, "replace")), fail)
    with pytest.raises(type(fault)):
        files.write_whole(path, b"new bytes" * 1000)
    assert contents(tmp_path) == before


def test_the_part_lies_in_the_same_folder_hidden(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(os, "fsync", lambda _: seen.extend(contents(tmp_path)))
    files.write_whole(tmp_path / "model.tflite", b"bytes")
    (name,) = seen
    assert name.startswith(".keras_attention.") and name.endswith(".part")


def test_mode_of_the_old_file_is_kept(tmp_path):
    path = tmp_path / "model.tflite"
    path.write_bytes(b"old")
    path.chmod(0o640)
    files.write_whole(path, b"new")
    assert path.stat().st_mode & 0o777 == 0o640


def test_new_file_gets_the_usual_mode(tmp_path):
    before = os.umask(0o027)
    try:
        files.write_whole(tmp_path / "model.tflite", b"new")
        assert os.umask(0o027) == 0o027, "the mask of the process is as it was"
    finally:
        os.umask(before)
    assert (tmp_path / "model.tflite").stat().st_mode & 0o777 == 0o640


def test_a_device_or_pipe_is_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(FileExistsError, match=r"a device, a pipe or a folder, not a file\. Received: .*pipe"):
        files.write_whole(pipe, b"new")
    assert pipe.is_fifo() and list(tmp_path.iterdir()) == [pipe]


def test_check_writable_leaves_no_trace(tmp_path):
    (tmp_path / "old.tflite").write_bytes(b"old")
    for name in ("old.tflite", "new.tflite"):
        files.check_writable(tmp_path / name)
    assert contents(tmp_path) == {"old.tflite": b"old"}


def test_check_writable_refuses(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"")
    cases = [
        (tmp_path / "missing" / "a.tflite", FileNotFoundError, "folder of `path` doesn't exist; create it"),
        (file / "a.tflite", NotADirectoryError, "folder of `path` is a file"),
        (tmp_path, IsADirectoryError, "`path` must be a file"),
        (Path("/proc/a.tflite"), PermissionError, "folder of `path` can't be written"),
    ]
    for path, kind, message in cases:
        with pytest.raises(kind, match=message) as caught:
            files.check_writable(path)
        assert repr(str(path)) in str(caught.value)
    assert contents(tmp_path) == {"file": b""}


# --- writers that were killed

WRITER = """
import importlib.util, os, sys, time
from pathlib import Path
spec = importlib.util.spec_from_file_location("light_worker", sys.argv[1])
light_worker = importlib.util.module_from_spec(spec)
spec.loader.exec_module(light_worker)
light_worker.replace_packages()
from keras_attention.tflite import files

def wait(*_):
    print("writing", flush=True)
    time.sleep(60)

os.fsync = wait
files.write_whole(Path(sys.argv[2]), b"new bytes" * 1000)
"""


@pytest.fixture
def writer(tmp_path):
    """A process in the middle of writing over a file, and the file."""
    path = tmp_path / "model.tflite"
    path.write_bytes(b"old")
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, light_worker.__file__, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "writing\n"
    yield process, path
    process.kill()
    process.wait()
    process.stdout.close()


def test_what_a_killed_writer_left_is_removed_by_the_next(writer, tmp_path):
    process, path = writer
    process.kill()
    process.wait()
    assert len(contents(tmp_path)) == 2 and path.read_bytes() == b"old"
    files.write_whole(path, b"newer")
    assert contents(tmp_path) == {"model.tflite": b"newer"}


def test_what_a_living_writer_writes_is_left_alone(writer, tmp_path):
    _, path = writer
    files.write_whole(path, b"newer")
    (part,) = set(contents(tmp_path)) - {"model.tflite"}
    assert part.endswith(".part") and path.read_bytes() == b"newer"


def test_parts_of_others_are_left_alone(tmp_path):
    (tmp_path / "mine.part").write_bytes(b"")
    (tmp_path / ".keras_attention.notes").write_bytes(b"")
    files.write_whole(tmp_path / "model.tflite", b"new")
    assert len(contents(tmp_path)) == 3


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_work_folder_goes_with_its_owner(temporary):
    abandoned = temporary / "keras_attention.abandoned"
    (abandoned / "candidate_0").mkdir(parents=True)
    (temporary / "keras_attention.link").symlink_to(temporary / "elsewhere")
    (temporary / "other").mkdir()
    with leftovers.work_folder() as first, leftovers.work_folder() as second:
        assert not abandoned.exists()
        assert first.is_dir() and second.is_dir() and first != second, "folders in use are left alone"
        (first / "file").write_bytes(b"")
    assert {path.name for path in temporary.iterdir()} == {"keras_attention.link", "other"}


def test_work_folder_is_removed_after_an_error(temporary):
    with pytest.raises(ZeroDivisionError), leftovers.work_folder():
        raise ZeroDivisionError
    assert not list(temporary.iterdir())
