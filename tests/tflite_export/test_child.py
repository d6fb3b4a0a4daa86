"""The child process: its end by a signal, its log, its protocol, and that it never outlives the parent."""

import errno
import gc
import importlib.util
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from keras_attention.tflite import child
from keras_attention.tflite import light_worker
from keras_attention.tflite import worker
from keras_attention.tflite.errors import ConversionError

START = subprocess.Popen
PRELUDE = f"""
    import importlib.util, json, os, signal, sys, time
    from pathlib import Path
    folder = Path(sys.argv[1])
    spec = importlib.util.spec_from_file_location("worker", {worker.__file__!r})
    worker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(worker)
    emit = worker._protect_standard_output()
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A function: code -> result of `run_job` with that code in place of the worker's `main`."""
    started = []

    def start(command, **options):
        assert command[:3] == [sys.executable, light_worker.__file__, "light"]
        code = textwrap.dedent(PRELUDE) + textwrap.dedent(run.code)
        started.append(START([sys.executable, "-c", code, command[3]], **options))
        return started[-1]

    def run(code, progress=lambda *_: None):
        run.code = code
        return child.run_job(tmp_path, {"task": "nothing", "answer": 41}, progress, limits=run.limits)

    run.limits = None
    run.started = started
    monkeypatch.setattr(child.subprocess, "Popen", start)
    yield run
    for process in started:
        assert process.poll() is not None, "the child outlives the call"
        assert process.stdin.closed and process.stdout.closed


def finish(extra=""):
    return extra + '\n    (folder / "result.json").write_text(json.dumps({"ok": 1}))'


def test_result_and_progress_come_back(run, tmp_path):
    seen = []
    code = """
    job = json.loads((folder / "job.json").read_text())
    emit("convert", 0, 0)
    emit("calibrate", 3, 7)
    (folder / "result.json").write_text(json.dumps({"answer": job["answer"] + 1, "cwd": os.getcwd()}))
    """
    result = run(code, lambda *message: seen.append(message))
    assert result == {"answer": 42, "cwd": str(tmp_path)}
    assert seen == [("convert", 0, 0), ("calibrate", 3, 7)]


def test_environment_of_the_child(run, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    result = run('(folder / "result.json").write_text(json.dumps(dict(os.environ)))')
    assert result["KERAS_BACKEND"] == "tensorflow"
    assert result["CUDA_VISIBLE_DEVICES"] == "-1"
    assert os.environ["KERAS_BACKEND"] == "jax"


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "by signal SIGSEGV"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "by signal SIGKILL"),
        ("os.kill(os.getpid(), signal.SIGABRT)", "by signal SIGABRT"),
        ("os._exit(3)", "with exit code 3"),
        ("raise SystemExit(7)", "with exit code 7"),
    ],
)
def test_sudden_end_names_signal_stage_and_log(run, end, said):
    code = f"""
    emit("convert", 0, 0)
    emit("calibrate", 3, 7)
    for number in range(40):
        print(f"line {{number}} of the log", file=sys.stderr, flush=True)
    {end}
    """
    with pytest.raises(ConversionError) as caught:
        run(code)
    text = str(caught.value)
    assert f"ended {said} while {child.STAGES['calibrate']}" in text
    assert "line 39 of the log" in text and "line 25 of the log" in text
    assert "line 24 of the log" not in text, "the end of the log, not all of it"
    assert "unharmed" in text


def test_end_before_the_first_stage_and_without_a_word(run):
    with pytest.raises(ConversionError, match=r"with exit code 9 while starting.*\n\(it wrote nothing\)"):
        run("os._exit(9)")


def test_failure_in_python_gives_its_message(run):
    code = """
    emit("quantize", 0, 0)
    (folder / "failure.json").write_text(json.dumps({"message": "sample 7 is wrong"}))
    sys.exit(1)
    """
    with pytest.raises(ConversionError) as caught:
        run(code)
    assert str(caught.value) == f"While {child.STAGES['quantize']}: sample 7 is wrong"


def test_log_that_is_no_text(run):
    with pytest.raises(ConversionError, match="by signal SIGSEGV"):
        run('os.write(2, b"\\xff\\xfe\\x00 broken"); os.kill(os.getpid(), signal.SIGSEGV)')


def test_prints_do_not_disturb_the_protocol(run, tmp_path):
    seen = []
    code = """
    print("a library prints")
    os.write(1, b"native code writes\\n")
    emit("convert", 0, 0)
    os.system("echo a program writes")
    print('{"stage": "nonsense"}', flush=True)
    emit("verify", 1, 2)
    """
    assert run(finish(code), lambda *message: seen.append(message)) == {"ok": 1}
    assert seen == [("convert", 0, 0), ("verify", 1, 2)]
    log = (tmp_path / child.LOG).read_text()
    for words in ("a library prints", "native code writes", "a program writes", "nonsense"):
        assert words in log


def test_much_output_does_not_block(run):
    code = """
    for _ in range(3000):
        os.write(2, b"x" * 997 + b"\\n")
    """
    assert run(finish(code)) == {"ok": 1}


def test_ctrl_c_in_the_parent_ends_the_child(run, request):
    # a KeyboardInterrupt that falls into a hook of the garbage collector, such as JAX's, is lost
    request.addfinalizer(gc.enable)
    gc.disable()
    # in a background job Python starts with the signal ignored
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))

    def interrupt(*_):
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run('emit("convert", 0, 0); time.sleep(60)', interrupt)
    assert time.monotonic() - began < 30
    assert run.started[0].poll() == -signal.SIGKILL


def test_an_error_of_the_callers_progress_ends_the_child(run):
    def broken(*_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run('emit("convert", 0, 0); time.sleep(60)', broken)
    assert run.started[0].poll() == -signal.SIGKILL


@pytest.fixture
def real_worker(tmp_path):
    """The real worker, waiting for a file that never comes."""
    pipe = tmp_path / "never.tflite"
    os.mkfifo(pipe)
    job = {"task": "inspect", "file": str(pipe), "parent": os.getpid(), "memory_bytes": None}
    (tmp_path / "job.json").write_text(json.dumps(job))
    process = START(
        [sys.executable, light_worker.__file__, "keras", str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert json.loads(process.stdout.readline())["stage"] == "inspect"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def test_child_ignores_ctrl_c_and_ends_when_its_standard_input_closes(real_worker):
    real_worker.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        real_worker.wait(0.5)
    real_worker.stdin.close()
    assert real_worker.wait(10) == 2


# --- limits for files of unknown origin


def limited(run, code, seconds=60.0, memory=2**30):
    limits = child.Limits(seconds, memory)
    run.limits = limits
    return run(code)


def test_a_child_that_does_not_end_is_ended(run):
    began = time.monotonic()
    with pytest.raises(ConversionError, match=r"While reading the file: it took more than 0\.5 seconds"):
        limited(run, 'emit("inspect", 0, 0); time.sleep(60)', seconds=0.5)
    assert time.monotonic() - began < 30


def test_an_end_by_a_signal_is_told_as_a_damaged_file(run):
    with pytest.raises(ConversionError) as caught:
        limited(run, 'emit("inspect", 0, 0); os.kill(os.getpid(), signal.SIGSEGV)')
    assert "by signal SIGSEGV. The file is damaged" in str(caught.value)


@pytest.mark.skipif(sys.platform == "win32", reason="has no such limit")
def test_memory_is_limited(run):
    code = """
    worker._limit_memory(json.loads((folder / "job.json").read_text())["memory_bytes"])
    try:
        bytearray(3 * 2**29)
    except MemoryError as error:
        message = worker._readable(error)
        (folder / "failure.json").write_text(json.dumps({"message": message}))
        sys.exit(1)
    """
    with pytest.raises(
        ConversionError, match=r"While starting: it takes more memory than there is for it\.$"
    ):
        limited(run, code)


def test_a_child_without_limits_gets_none(run, tmp_path):
    run(finish())
    job = json.loads((tmp_path / "job.json").read_text())
    assert job["memory_bytes"] is None and job["parent"] == os.getpid()


@pytest.mark.skipif(sys.platform != "linux", reason="a signal of Linux")
def test_a_child_whose_python_waits_ends_with_its_parent(tmp_path):
    """Native code that keeps Python's lock would keep the watching thread from ending the process."""
    code = f"""
    import ctypes, importlib.util, os
    spec = importlib.util.spec_from_file_location("worker", {worker.__file__!r})
    worker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(worker)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        worker._end_at_once_with_parent(parent)
        print(os.getpid(), flush=True)
        ctypes.PyDLL(None).sleep(60)
        os._exit(0)
    os.waitpid(pid, 0)
    """
    parent = START([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    end = time.monotonic() + 5
    while time.monotonic() < end and alive(pid):
        time.sleep(0.02)
    assert not alive(pid)


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# --- the worker's messages


@pytest.fixture(scope="module")
def readable():
    spec = importlib.util.find_spec("keras_attention.tflite.worker")
    assert Path(spec.origin).name == "worker.py"
    return worker._readable


def test_message_keeps_the_words_and_drops_call_sites(readable):
    text = 'it is wrong\nloc("a"("b.py":3:1))\n<unknown>:0: note: called from\n\ncallsite(x)\nand here'
    assert readable(ValueError(text)) == "it is wrong\nand here"
    assert readable(KeyError(7)) == "an internal error of keras_attention, KeyError: 7. Please report it."
    assert readable(RuntimeError()) == "RuntimeError"
    assert len(readable(ValueError("\n".join(map(str, range(99))))).splitlines()) == 30


def test_message_names_missing_operators(readable):
    text = (
        "error: 'tf.Erfinv' op is neither a custom op nor a flex op\nSome ops are not supported: tf.Betainc"
    )
    message = readable(ValueError(text))
    assert "operators that the phone's runtime lacks: Betainc, Erfinv" in message
    assert "Replace the layer" in message


# --- a child that is started ahead of its job


def test_a_waiting_child_does_its_job(tmp_path):
    seen = []
    with child.Ahead(tmp_path / "job", "inspect") as ahead:
        assert ahead.process.poll() is None and not ahead.is_given
        with pytest.raises(ConversionError, match=r"While reading the file: .*no_file"):
            job = {"task": "inspect", "file": str(tmp_path / "no_file")}
            child.run_job(ahead.folder, job, lambda *message: seen.append(message), ahead=ahead)
    assert ahead.is_given and ahead.process.poll() is not None
    assert seen == [("inspect", 0, 0)]


@pytest.mark.parametrize("task", ["convert", "quantize", "trace"])
def test_what_takes_long_is_imported_before_the_job_is_there(task):
    module = importlib.import_module(f"keras_attention.tflite.jobs.{task}")
    module.import_packages()


def test_a_child_that_never_gets_a_job_is_ended(tmp_path):
    with pytest.raises(KeyboardInterrupt), child.Ahead(tmp_path / "job", "quantize") as ahead:
        raise KeyboardInterrupt
    assert ahead.process.poll() is not None
    assert ahead.process.stdin.closed and ahead.process.stdout.closed


def test_a_child_that_died_while_it_waited_is_explained(tmp_path):
    with child.Ahead(tmp_path / "job", "quantize") as ahead:
        ahead.process.kill()
        ahead.process.wait()
        with pytest.raises(ConversionError, match="by signal SIGKILL while starting"):
            child.run_job(ahead.folder, {"task": "quantize"}, lambda *_: None, ahead=ahead)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_waiting_child_ends_with_its_parent(tmp_path):
    code = f"""
        import sys, time
        from pathlib import Path
        from keras_attention.tflite import child
        with child.Ahead(Path({str(tmp_path)!r}) / "job", "quantize") as ahead:
            print(ahead.process.pid, flush=True)
            time.sleep(60)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    number = int(parent.stdout.readline())
    os.kill(number, 0)
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 20.0
    while _is_alive(number):
        assert time.monotonic() < deadline, "the child outlives its parent"
        time.sleep(0.05)


def _is_alive(number):
    status = Path(f"/proc/{number}/stat")
    return status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def test_a_full_disk_is_named_with_the_cure(run, monkeypatch, tmp_path):
    monkeypatch.setattr(child.leftovers, "is_full", lambda folder: True)
    code = """
    (folder / "failure.json").write_text("")
    sys.exit(1)
    """
    with pytest.raises(ConversionError, match=r"temporary files, '.*', is full: .*TMPDIR"):
        run(code)
    with (
        pytest.raises(OSError, match=r"is full: free space there, or set TMPDIR"),
        child.leftovers.work_folder(),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
