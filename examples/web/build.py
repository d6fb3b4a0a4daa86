#!/usr/bin/env python3
"""The two example models in one page: draw a digit, scrub through an exercise.

    python examples/activity_recognition.py --attention-output
    python examples/image_classification.py --attention-output
    python examples/web/build.py --serve                        # http://127.0.0.1:8000/

Brings along recordings of all seven exercises by a subject that the activity model has never seen (10, right
arm, the first 20 seconds each). Writes index.html and what belongs to it into --out; any static server
takes it. See docs/web.md.
"""

import contextlib
import pathlib
import sys
import tempfile

import click

from keras_attention import tflite
from keras_attention.tflite.apps.web import serving

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from common import trained_files
from common import watch_data

SUBJECT, SIDE = 10, "right"
SECONDS = 20
DECIMALS = 4


@click.command(help=__doc__.splitlines()[0])
@trained_files.options
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=pathlib.Path),
    default="runs/web",
    show_default=True,
    help="Folder for the page.",
)
@click.option("--single-file", is_flag=True, help="Write one index.html, which opens from disk too.")
@click.option("--serve", is_flag=True, help="Then serve the page on this machine, at port 8000.")
def main(
    activity: pathlib.Path, images: pathlib.Path, out: pathlib.Path, single_file: bool, serve: bool
) -> None:
    """Writes the page."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(serving.server(out, 8000)) if serve else None
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        page = tflite.web(
            {"Digits": images, "Exercises": activity},
            out,
            title="Attention on this device",
            recordings=write_recordings(pathlib.Path(folder)),
            single_file=single_file,
        )
        print(f"Wrote {page.index} ({page.size_bytes / 1e6:.1f} MB).")
        if server:
            serving.run(server, print)


def write_recordings(folder: pathlib.Path) -> list[pathlib.Path]:
    """Writes the start of each exercise of the held-out subject as CSV, with a column of times."""
    paths = []
    for recording in watch_data.load():
        if (recording.subject, recording.side) != (SUBJECT, SIDE):
            continue
        signal = recording.signal[: SECONDS * watch_data.RATE]
        rows = [",".join(("time", *watch_data.AXES))]
        for number, values in enumerate(signal):
            cells = (f"{value:.{DECIMALS}f}" for value in values)
            rows.append(",".join((f"{number / watch_data.RATE:.2f}", *cells)))
        paths.append(folder / f"{watch_data.EXERCISE_NAMES[recording.label]}.csv")
        paths[-1].write_text("\n".join(rows) + "\n")
    return paths


if __name__ == "__main__":
    main()
