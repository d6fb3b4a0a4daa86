"""The smartwatch exercises: recordings, windows and the ways to split them.

Seven shoulder exercises, ten subjects, both arms: 140 recordings of about twenty repetitions each, 244,102
samples at 50 Hz from the accelerometer (g) and the gyroscope (rad/s) of a watch. The file ships inside the
wheel of `seglearn` (BSD-3-Clause) and is read by its path; the package itself is never imported.

Reference: [Shoulder Physiotherapy Exercise Recognition](https://arxiv.org/abs/1802.01489)
"""

import dataclasses
import functools
import hashlib
import importlib.metadata
import io
import pathlib
from collections.abc import Iterator

import numpy as np

RATE = 50  # samples per second
WINDOW = 128  # samples: 2.56 s
STEP = 64  # samples from the start of one window to the start of the next
AXES = ("ax", "ay", "az", "wx", "wy", "wz")
UNITS = ("g", "g", "g", "rad/s", "rad/s", "rad/s")
EXERCISES = ("PEN", "ABD", "FEL", "IR", "ER", "TRAP", "ROW")
EXERCISE_NAMES = (
    "pendulum",
    "abduction",
    "forward elevation",
    "internal rotation",
    "external rotation",
    "trapezius extension",
    "upright row",
)
SHA256 = "eb122f23cdf06ef6bd6c6c5312958ec5cf9d038e2e6d457b8081662c75a42537"


@dataclasses.dataclass(frozen=True, eq=False)
class Recording:
    """One set of repetitions of one exercise, by one arm of one subject."""

    number: int
    """Position in the file, from 0: tells recordings apart after a split in time."""
    signal: np.ndarray
    """Samples of the six axes, `(length, 6)`, float32, in `UNITS`."""
    label: int
    """Index in `EXERCISES`."""
    subject: int
    """1 to 10."""
    side: str
    """`"left"` or `"right"`."""


@dataclasses.dataclass(frozen=True, eq=False)
class Windows:
    """Windows cut from recordings, each with where it came from."""

    inputs: np.ndarray
    """`(batch, WINDOW, 6)`, float32, in `UNITS`."""
    labels: np.ndarray
    """`(batch,)`, int32, indices in `EXERCISES`."""
    subjects: np.ndarray
    """`(batch,)`, int32."""
    recordings: np.ndarray
    """`(batch,)`, int32: `Recording.number`."""
    starts: np.ndarray
    """`(batch,)`, int32: first sample of the window in its recording."""

    def __len__(self) -> int:
        return len(self.labels)


def data_path() -> pathlib.Path:
    """Finds `watch_dataset.npy` inside the installed distribution `seglearn`."""
    try:
        distribution = importlib.metadata.distribution("seglearn")
    except importlib.metadata.PackageNotFoundError as error:
        raise FileNotFoundError(
            "The smartwatch recordings ship with the distribution `seglearn`, which is not installed. "
            "Install it without its dependencies: pip install --no-deps seglearn"
        ) from error
    path = pathlib.Path(str(distribution.locate_file("seglearn/data/watch_dataset.npy")))
    if not path.is_file():
        raise FileNotFoundError(
            f"`seglearn` {distribution.version} is installed without its recordings. Received: path={path}"
        )
    return path


@functools.cache
def load(path: pathlib.Path | None = None) -> tuple[Recording, ...]:
    """Reads all recordings, in the order of the file.

    The file is a pickle, which could run code when opened; so its SHA-256 is checked first.
    """
    path = data_path() if path is None else path
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != SHA256:
        raise ValueError(
            f"`path` must be the published watch_dataset.npy, SHA-256 {SHA256}; a pickle of unknown "
            f"content is not opened. Received: path={path}, SHA-256 {digest}"
        )
    data = np.load(io.BytesIO(content), allow_pickle=True).item()
    return tuple(
        Recording(
            number, np.asarray(signal, "float32"), int(label), int(subject), "right" if side else "left"
        )
        for number, (signal, label, subject, side) in enumerate(
            zip(data["X"], data["y"], data["subject"], data["side"], strict=True)
        )
    )


def cut(recordings: tuple[Recording, ...], *, window: int = WINDOW, step: int = STEP) -> Windows:
    """Cuts every recording into windows; none reaches over the end of its recording."""
    if window < 1 or step < 1:
        raise ValueError(f"`window` and `step` must be positive. Received: window={window}, step={step}")
    inputs, rows = [], []
    for recording in recordings:
        for start in range(0, len(recording.signal) - window + 1, step):
            inputs.append(recording.signal[start : start + window])
            rows.append((recording.label, recording.subject, recording.number, start))
    if not rows:
        raise ValueError(f"No recording is as long as one window. Received: window={window}")
    labels, subjects, numbers, starts = np.array(rows, "int32").T
    return Windows(np.stack(inputs), labels, subjects, numbers, starts)


def subject_folds(
    recordings: tuple[Recording, ...], num_folds: int = 5
) -> Iterator[tuple[tuple[Recording, ...], tuple[Recording, ...]]]:
    """Yields (training, test) recordings; each fold tests on subjects it has never seen, in ascending order.

    With ten subjects and five folds the test subjects are 1-2, 3-4, 5-6, 7-8 and 9-10.
    """
    subjects = np.unique([recording.subject for recording in recordings])
    if not 2 <= num_folds <= len(subjects):
        raise ValueError(
            f"`num_folds` must be between 2 and the number of subjects. "
            f"Received: num_folds={num_folds}, subjects={len(subjects)}"
        )
    for held_out in np.array_split(subjects, num_folds):
        train = tuple(recording for recording in recordings if recording.subject not in held_out)
        test = tuple(recording for recording in recordings if recording.subject in held_out)
        yield train, test


def time_split(
    recordings: tuple[Recording, ...], test_fraction: float = 0.25
) -> tuple[tuple[Recording, ...], tuple[Recording, ...]]:
    """Trains on the first part of every recording and tests on the rest: the same subjects, later on."""
    if not 0 < test_fraction < 1:
        raise ValueError(f"`test_fraction` must be between 0 and 1. Received: test_fraction={test_fraction}")
    train, test = [], []
    for recording in recordings:
        middle = int((1 - test_fraction) * len(recording.signal))
        train.append(dataclasses.replace(recording, signal=recording.signal[:middle]))
        test.append(dataclasses.replace(recording, signal=recording.signal[middle:]))
    return tuple(train), tuple(test)


def time_folds(
    recordings: tuple[Recording, ...], num_folds: int = 5
) -> Iterator[tuple[tuple[Recording, ...], tuple[Recording, ...]]]:
    """Yields (training, test) recordings; fold k tests on the k-th part in time of every recording.

    This is the published temporal cross-validation of these data. Training takes what lies before and after
    the tested part, as recordings of their own, so that no window reaches over it.
    """
    if num_folds < 2:
        raise ValueError(f"`num_folds` must be 2 or more. Received: num_folds={num_folds}")
    for fold in range(num_folds):
        train, test = [], []
        for recording in recordings:
            length = len(recording.signal)
            start, stop = length * fold // num_folds, length * (fold + 1) // num_folds
            test.append(dataclasses.replace(recording, signal=recording.signal[start:stop]))
            for part in (recording.signal[:start], recording.signal[stop:]):
                if len(part):
                    train.append(dataclasses.replace(recording, signal=part))
        yield tuple(train), tuple(test)


def statistics(recordings: tuple[Recording, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of each axis over the given (training) recordings, `(6,)` each."""
    samples = np.concatenate([recording.signal for recording in recordings]).astype("float64")
    return samples.mean(axis=0), samples.var(axis=0)
