"""Random training windows from recordings of a watch: other arms, tempos, straps and ranges of motion.

Ten subjects are few. What differs between people is known physics, so each training window is drawn anew:

| change | why | what it does |
|---|---|---|
| offset | a window may start anywhere | start drawn uniformly inside its recording |
| mirror | left arm or right | reflects the forearm axis: `ax`, `wy`, `wz` change sign |
| tempo | subjects move at other speeds | resamples; angular rates grow with the speed |
| range | some move further than others | scales the motion about the window's mean (gravity stays) |
| rotation | the strap sits differently | one small 3-D rotation for both sensors |
| noise | other sensors | white noise |
| mixup | fewer confident mistakes | mixes pairs of windows and their labels |
"""

import dataclasses

import keras
import numpy as np

from common import watch_data

MIRROR = np.array([-1, 1, 1, 1, -1, -1], "float32")
"""Reflection across the plane normal to x: acceleration is a vector, angular rate a pseudovector."""


@dataclasses.dataclass(frozen=True)
class Augmentation:
    """How far each change may go; zeros (and `mirror=0`) leave the windows as recorded."""

    mirror: float = 0.5
    """Share of windows reflected to the other arm."""
    tempo: float = 0.35
    """The speed is multiplied by up to `exp(±tempo)`."""
    range: float = 0.2
    """The motion about the mean is multiplied by up to `exp(±range)`."""
    strap: float = 10.0
    """Standard deviation of the rotation about the forearm (x), degrees."""
    tilt: float = 6.0
    """Standard deviation of the rotation about each of the other two axes, degrees."""
    noise: float = 0.02
    """Standard deviation of the noise: g, and a tenth of rad/s."""
    mixup: float = 0.2
    """Parameter of the Beta distribution of the mixing share; 0 for none."""


SAME_PEOPLE = Augmentation(mirror=0, tempo=0, range=0, strap=0, tilt=0)
"""For a test on the same people: nothing that imitates other people."""


def mirror(windows: np.ndarray) -> np.ndarray:
    """The same motion by the other arm, `(..., 6)`; twice gives the windows back."""
    return windows * MIRROR


def rotation_matrices(angles: np.ndarray) -> np.ndarray:
    """Rotation by each vector of angles in radians, `(batch, 3)` -> `(batch, 3, 3)` (Rodrigues' formula)."""
    angle = np.linalg.norm(angles, axis=-1)[:, None, None]
    x, y, z = (angles / np.maximum(angle[:, 0], 1e-12)).T
    zero = np.zeros_like(x)
    cross = np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=-1).reshape(-1, 3, 3)
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


def rotate(windows: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """Turns accelerometer and gyroscope of each window by the same rotation, `(batch, length, 6)`."""
    turned = rotation_matrices(angles).astype(windows.dtype)[:, None]
    vectors = windows.reshape(len(windows), -1, 2, 3)  # (batch, length, sensor, axis)
    return (vectors @ np.swapaxes(turned, -1, -2)).reshape(windows.shape)


class RandomWindows(keras.utils.PyDataset):
    """Batches of freshly drawn windows `(batch, window, 6)` with one-hot, possibly mixed labels `(batch, 7)`.

    Recordings are drawn in proportion to their length. A batch depends only on the seed, the epoch and its
    index.
    """

    def __init__(
        self,
        recordings: tuple[watch_data.Recording, ...],
        *,
        augmentation: Augmentation | None = None,
        window: int = watch_data.WINDOW,
        batch_size: int = 64,
        num_batches: int | None = None,
        seed: int = 0,
    ):
        super().__init__()
        lengths = np.array([len(recording.signal) for recording in recordings])
        if lengths.min(initial=window) < window:
            raise ValueError(
                f"Each recording must be at least one window long. "
                f"Received: window={window}, shortest recording={lengths.min()}"
            )
        self.augmentation = Augmentation() if augmentation is None else augmentation
        self.window = window
        self.batch_size = batch_size
        # As many windows in an epoch as `watch_data.cut` makes of these recordings.
        self._num_batches = num_batches or max(1, int(lengths.sum() / watch_data.STEP / batch_size))
        self.seed = seed
        self._epoch = 0
        self._signal = np.concatenate([recording.signal for recording in recordings])
        self._lengths = lengths
        self._offsets = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        self._labels = np.array([recording.label for recording in recordings])

    def __len__(self) -> int:
        return self._num_batches

    def on_epoch_end(self) -> None:
        """Lets the next epoch draw other windows."""
        self._epoch += 1

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng((self.seed, self._epoch, index))
        chosen = rng.choice(len(self._lengths), self.batch_size, p=self._lengths / self._lengths.sum())
        windows = self._change(self._draw(chosen, rng), rng)
        labels = np.eye(len(watch_data.EXERCISES), dtype="float32")[self._labels[chosen]]
        if self.augmentation.mixup:
            share = rng.beta(self.augmentation.mixup, self.augmentation.mixup, self.batch_size)
            share = np.maximum(share, 1 - share).astype("float32")
            other = rng.permutation(self.batch_size)
            windows = share[:, None, None] * windows + (1 - share)[:, None, None] * windows[other]
            labels = share[:, None] * labels + (1 - share)[:, None] * labels[other]
        return windows, labels

    def _draw(self, chosen: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Windows of the chosen recordings at a random place and tempo, by linear interpolation."""
        lengths = self._lengths[chosen]
        tempo = np.exp(rng.uniform(-1, 1, self.batch_size) * self.augmentation.tempo)
        tempo = np.minimum(tempo, (lengths - 1) / (self.window - 1))
        span = tempo * (self.window - 1)
        start = self._offsets[chosen] + rng.uniform(size=self.batch_size) * (lengths - 1 - span)
        if not self.augmentation.tempo:
            start = np.round(start)
        place = start[:, None] + tempo[:, None] * np.arange(self.window)
        before = np.minimum(place.astype(int), (self._offsets[chosen] + lengths - 2)[:, None])
        part = (place - before)[..., None].astype("float32")
        windows = (1 - part) * self._signal[before] + part * self._signal[before + 1]
        windows[..., 3:] *= tempo[:, None, None]
        return windows

    def _change(self, windows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        size, option = len(windows), self.augmentation
        mean = windows.mean(axis=1, keepdims=True)
        gain = np.exp(rng.uniform(-1, 1, (size, 1, 1)) * option.range).astype("float32")
        windows = mean + gain * (windows - mean)
        windows = np.where(rng.random((size, 1, 1)) < option.mirror, mirror(windows), windows)
        spread = np.radians([option.strap, option.tilt, option.tilt])
        windows = rotate(windows, rng.normal(size=(size, 3)) * spread)
        noise = rng.normal(size=windows.shape) * option.noise * np.repeat([1.0, 10.0], 3)
        return (windows + noise).astype("float32")
