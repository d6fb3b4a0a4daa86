"""Folders of generated files: a user's stay, stale ones go, an interrupted run locks nothing."""

import json

import pytest

from keras_attention.tflite import files
from keras_attention.tflite.apps import folders


def contents(folder):
    found = {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}
    found.pop(folders.LIST, None)
    return found


def test_stale_files_go_and_changed_or_shared_ones_stay(tmp_path):
    first = {"a/Model.kt": b"1", "a/Window.kt": b"2", "a/Old.kt": b"3", "Shared.kt": b"4"}
    folders.write(tmp_path, first, owner="Walk")
    folders.write(tmp_path, {"b/Run.kt": b"5", "Shared.kt": b"4"}, owner="Run")
    (tmp_path / "a/Old.kt").write_text("mine")
    (tmp_path / "notes.txt").write_text("mine")
    folders.write(tmp_path, {"a/Model.kt": b"6"}, owner="Walk")
    assert contents(tmp_path) == {
        "a/Model.kt": "6",
        "a/Old.kt": "mine",
        "Shared.kt": "4",
        "b/Run.kt": "5",
        "notes.txt": "mine",
    }


def test_a_file_of_the_user_stops_the_run_before_it_writes(tmp_path):
    folders.write(tmp_path, {"a": b"1", "b": b"2"}, owner="x")
    (tmp_path / "b").write_text("mine")
    with pytest.raises(FileExistsError, match=r"were changed since: b\. Move them.*--overwrite"):
        folders.write(tmp_path, {"a": b"3", "b": b"4"}, owner="x")
    assert contents(tmp_path) == {"a": "1", "b": "mine"}
    folders.write(tmp_path, {"a": b"3", "b": b"4"}, owner="x", overwrite=True)
    assert contents(tmp_path) == {"a": "3", "b": "4"}


def test_an_interrupted_run_can_be_repeated(tmp_path, monkeypatch):
    folders.write(tmp_path, {"a": b"1", "b": b"2"}, owner="x")
    true_write, seen = files.write_whole, []

    def write(path, content):
        seen.append(path.name)
        if path.name == "b":
            raise OSError("disk full")
        true_write(path, content)

    monkeypatch.setattr(files, "write_whole", write)
    with pytest.raises(OSError, match="disk full"):
        folders.write(tmp_path, {"b": b"4", "a": b"3"}, owner="x", last=("b",))
    assert seen == [folders.LIST, "a", "b"]
    assert contents(tmp_path) == {"a": "3", "b": "2"}
    monkeypatch.undo()
    folders.write(tmp_path, {"a": b"5", "b": b"6"}, owner="x")
    assert contents(tmp_path) == {"a": "5", "b": "6"}


def test_folders_and_files_in_each_other_s_place(tmp_path):
    (tmp_path / "page").mkdir()
    (tmp_path / "page/js").write_text("mine")
    (tmp_path / "page/index.html").mkdir()
    for overwrite in (False, True):
        with pytest.raises(NotADirectoryError, match=r"where a file lies: .*js"):
            folders.write(tmp_path / "page", {"js/main.js": b"1"}, owner="x", overwrite=overwrite)
        with pytest.raises(FileExistsError, match=r"where a folder lies: .*index\.html"):
            folders.write(tmp_path / "page", {"index.html": b"1"}, owner="x", overwrite=overwrite)
        with pytest.raises(NotADirectoryError, match=r"where a file lies"):
            folders.write(tmp_path / "page/js", {"a": b"1"}, owner="x", overwrite=overwrite)
    assert (tmp_path / "page/js").read_text() == "mine"


@pytest.mark.parametrize("text", ["", "[1]", '{"x": 3}', '{"x": {"a": "no list"}}'])
def test_a_list_that_is_none_gives_no_leave(text, tmp_path):
    (tmp_path / folders.LIST).write_text(text)
    (tmp_path / "a").write_text("mine")
    with pytest.raises(FileExistsError):
        folders.write(tmp_path, {"a": b"1"}, owner="x")
    folders.write(tmp_path, {"b": b"1"}, owner="x")
    assert json.loads((tmp_path / folders.LIST).read_text())["x"].keys() == {"b"}
