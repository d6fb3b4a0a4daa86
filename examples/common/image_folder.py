"""Images from a folder with one subfolder per class.

| found | what happens |
|---|---|
| grey, palette, CMYK, 16 bits, EXIF rotation | 8 bits, upright; one channel if all are grey, else RGB |
| alpha | laid over white |
| different sizes, sides below 8 or above 256 | an error, unless a size is given: all are stretched to it |
| a file that can't be decoded, a broken link | named and skipped; an error if nothing else is left |
| other files, folders inside a class | named and ignored; hidden ones silently |
| links to files or folders | followed |
| an empty class, a class of one image, fewer than two classes | an error |
"""

import dataclasses
import pathlib

import numpy as np
from PIL import Image
from PIL import ImageOps

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
GREY = ("1", "L", "LA", "La", "I", "I;16", "I;16B", "F")
SMALLEST, LARGEST = 8, 256  # pixels of a side
NAMED = 5  # files named in a note; the others are counted


@dataclasses.dataclass(frozen=True, eq=False)
class Folder:
    """What was read."""

    classes: tuple[str, ...]
    images: np.ndarray
    """`(batch, height, width, channels)`, uint8, channels 1 or 3."""
    labels: np.ndarray
    """`(batch,)`, int32."""
    notes: tuple[str, ...]


def read(source: str, image_size: int | None = None) -> Folder:
    """Reads all images, in the order of their names.

    Args:
        source: The folder.
        image_size: Height and width that all are brought to; `None` where they have one size.

    Raises:
        OSError: The folder can't be read.
        ValueError: It is not a folder of images in classes; the message names what is wrong.

    """
    folder = pathlib.Path(source)
    if not folder.is_dir():
        raise FileNotFoundError(
            f"--data must be digits, mnist, fashion_mnist, cifar10 or a folder. "
            f"There is no folder {source!r}."
        )
    ignored: list[str] = []
    found: dict[str, list[pathlib.Path]] = {}
    for entry in _visible(folder):
        if entry.is_dir():
            found[entry.name] = _images_in(entry, ignored)
        else:
            ignored.append(entry.name)
    if len(found) < 2:
        raise ValueError(
            f"--data {source} must hold one subfolder of images per class, two at least. "
            f"Received: {len(found)} subfolder{'' if len(found) == 1 else 's'}"
        )
    decoded, labels, broken = [], [], []
    for label, (name, files) in enumerate(found.items()):
        if not files:
            raise ValueError(
                f"Class {name!r} of --data {source} holds no image ({', '.join(SUFFIXES)}). Add images, or "
                "move the folder away."
            )
        for file in files:
            try:
                image = _decode(file, image_size)
            except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
                # Pillow raises any of these, by the format and by where the file is damaged.
                broken.append(f"{name}/{file.name} ({_first_line(error)})")
                continue
            decoded.append(image)
            labels.append(label)
            _check_size(source, decoded[0].size, image.size)
    _check_counts(source, tuple(found), labels, broken)
    notes = []
    if broken:
        notes.append(
            f"{len(broken)} of {len(broken) + len(labels)} images can't be read and are left out: "
            f"{_some(broken)}"
        )
    if ignored:
        notes.append(f"{len(ignored)} entries are no images of a class and are ignored: {_some(ignored)}")
    return Folder(tuple(found), _stack(decoded), np.array(labels, "int32"), tuple(notes))


def _visible(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))


def _images_in(folder: pathlib.Path, ignored: list[str]) -> list[pathlib.Path]:
    images = []
    for entry in _visible(folder):
        if entry.suffix.lower() in SUFFIXES and not entry.is_dir():
            images.append(entry)
        else:
            ignored.append(f"{folder.name}/{entry.name}")
    return images


def _decode(file: pathlib.Path, image_size: int | None) -> Image.Image:
    """An upright image of mode L or RGB, already small: thousands of photos would not fit into memory."""
    with Image.open(file) as opened:
        image = ImageOps.exif_transpose(opened)
    mode = "L" if image.mode in GREY else "RGB"
    if image.mode.startswith("I"):
        # 16 bits a pixel: Pillow's own conversion would cut off all above 255.
        image = Image.fromarray((np.asarray(image, "float32") / 257).clip(0, 255).astype("uint8"))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    image = image.convert(mode)
    return image.resize((image_size, image_size), Image.Resampling.BILINEAR) if image_size else image


def _check_counts(source: str, classes: tuple[str, ...], labels: list[int], broken: list[str]) -> None:
    if not labels:
        raise ValueError(f"None of the {len(broken)} images of --data {source} can be read: {_some(broken)}")
    counts = np.bincount(labels, minlength=len(classes))
    if counts.min() < 2:
        few = classes[int(counts.argmin())]
        raise ValueError(
            f"Class {few!r} of --data {source} must hold two images that can be read, one to train on and "
            f"one to test on. Received: {counts.min()}"
            + (f". Can't be read: {_some(broken)}" if broken else "")
        )


def _check_size(source: str, first: tuple[int, int], size: tuple[int, int]) -> None:
    cure = "Give the one that all are brought to, as in --image-size 64."
    if size != first:
        raise ValueError(
            f"The images of --data {source} have different sizes, such as {first[0]} x {first[1]} and "
            f"{size[0]} x {size[1]}. {cure}"
        )
    if not SMALLEST <= min(size) <= max(size) <= LARGEST:
        raise ValueError(
            f"The images of --data {source} have a size of {size[0]} x {size[1]}; {SMALLEST} to {LARGEST} "
            f"are taken as they are. {cure}"
        )


def _stack(decoded: list[Image.Image]) -> np.ndarray:
    mode = "L" if all(image.mode == "L" for image in decoded) else "RGB"
    return np.stack([np.atleast_3d(np.asarray(image.convert(mode))) for image in decoded])


def _some(names: list[str]) -> str:
    rest = f", and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + rest


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0][:80] if str(error) else type(error).__name__
