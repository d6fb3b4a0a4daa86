#!/usr/bin/env python3
"""The pictures of docs/web.md, from the page that examples/web/build.py writes.

python tests/web_pictures.py runs/web docs/images
"""

import sys
import threading
from pathlib import Path

import chromium
import pen_strokes
from PIL import Image

from keras_attention.tflite.apps.web import serving

DIGIT = 5
EXERCISE = "forward elevation"
COLOURS = 128
SIZES = {"desktop": (1180, 830), "phone": (390, 844)}


def photograph(browser, path, height):
    """A picture of few colours, which keeps the repository small."""
    browser.photograph(path, height)
    Image.open(path).convert("RGB").quantize(COLOURS).save(path, optimize=True)


def draw(browser, digit):
    """Draw a digit on the pad."""
    left, top, side = browser.evaluate(
        "(() => { const b = document.querySelector('.pad').getBoundingClientRect();"
        " return [b.left, b.top, b.width]; })()"
    )
    for stroke in pen_strokes.DIGITS[digit]:
        browser.drag([(left + u * side, top + v * side) for u, v in stroke])


def play(browser, exercise):
    """Choose the recording and go to its middle."""
    browser.evaluate("document.querySelectorAll('.tab input')[1].click()")
    browser.wait("document.querySelector('.legend') !== null && document.querySelector('.clock').textContent")
    browser.evaluate(
        "(() => { const s = document.querySelector('select');"
        f" s.value = [...s.options].findIndex(o => o.textContent === {exercise!r}) - 1;"
        " s.dispatchEvent(new Event('change')); })()"
    )
    browser.wait("document.querySelector('input[type=range]').max > 0")
    for start in range(300, 420, 6):
        browser.evaluate(
            "(() => { const s = document.querySelector('input[type=range]');"
            f" s.value = {start}; s.dispatchEvent(new Event('input')); }})()"
        )
        browser.wait("keras_attention.panels.every(panel => !panel.running)")


def main():
    """Write web_desktop.png and web_phone.png."""
    page, folder = map(Path, sys.argv[1:])
    server = serving.server(page, 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name, (width, height) in SIZES.items():
        with chromium.Browser(width=width, height=height) as browser:
            browser.open(f"http://127.0.0.1:{server.server_address[1]}/")
            browser.evaluate("keras_attention.started.then(() => 1)")
            browser.wait("document.getElementById('offline').textContent")
            if name == "phone":
                draw(browser, DIGIT)
            else:
                play(browser, EXERCISE)
            browser.evaluate("new Promise(done => setTimeout(done, 300))")
            photograph(browser, folder / f"web_{name}.png", height if name == "desktop" else 1180)
    server.shutdown()


if __name__ == "__main__":
    main()
