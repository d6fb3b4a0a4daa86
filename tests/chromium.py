#!/usr/bin/env python3
"""Headless Chromium over its debugging pipe: what a page loads, says, answers, and looks like.

python tests/chromium.py report.html report.png    # a picture of the page, 390 px wide
"""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
SECONDS = 60


def find():
    """The path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One tab; a context manager. `requests` and `complaints` hold what the last page did."""

    def __init__(self, *, width=390, height=844, dark=False):
        self.requests, self.complaints = [], []
        self._size, self._dark, self._number, self._read = (width, height), dark, 0, b""

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        # The browser reads commands from descriptor 3 and answers on 4.
        command = f'exec 3<&{to_browser} 4>&{from_browser}; exec "$@"'
        options = [
            *("--headless", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run"),
            *("--disable-background-networking", "--hide-scrollbars"),
            f"--user-data-dir={self._folder.name}",
        ]
        if os.geteuid() == 0:
            options.append("--no-sandbox")  # which Chromium refuses to root
        self._process = subprocess.Popen(
            ["bash", "-c", command, "bash", find(), *options, "about:blank"],  # noqa: S607
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._session = None
        target = self("Target.createTarget", url="about:blank")["targetId"]
        self._session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self(f"{domain}.enable")
        width, height = self._size
        self(
            "Emulation.setDeviceMetricsOverride",
            **{"width": width, "height": height, "deviceScaleFactor": 2, "mobile": width < 600},
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if self._dark else "light"}
        self("Emulation.setEmulatedMedia", features=[scheme])
        return self

    def __exit__(self, *_):
        os.close(self._out)
        self._process.terminate()
        self._process.wait()
        os.close(self._in)
        self._folder.cleanup()

    def __call__(self, method, **params):
        """The answer to a command; events that come before it are noted."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        while (answer := self._next()).get("id") != self._number:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, path):
        """Load a file, or an address with "://", and wait until it is there."""
        self.requests, self.complaints = [], []
        address = path if "://" in str(path) else Path(path).resolve().as_uri()
        self("Page.navigate", url=address)
        self.wait(f"document.readyState == 'complete' && location.href == {json.dumps(address)}")
        time.sleep(0.3)  # what a page does after loading
        self.evaluate("0")

    def wait(self, expression):
        """Wait until a JavaScript expression is true."""
        end = time.monotonic() + SECONDS
        while not self.evaluate(expression):
            if time.monotonic() > end:
                raise TimeoutError(f"not true after {SECONDS} s: {expression}")
            time.sleep(0.02)

    def evaluate(self, expression):
        """The value of a JavaScript expression in the page, or of the promise that it gives."""
        answer = self("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(
                f"{expression[:200]}: {answer['exceptionDetails']['exception']['description']}"
            )
        return answer["result"].get("value")

    def drag(self, points):
        """Press the mouse at the first of these places in the window, move it along them, let go."""
        kinds = ["mousePressed", *["mouseMoved"] * (len(points) - 1), "mouseReleased"]
        for kind, (x, y) in zip(kinds, [*points, points[-1]], strict=True):
            self("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def press(self, key, code=0, text=""):
        """Press a key and let go: its name, its number, and the text that it types."""
        for kind in ("keyDown", "keyUp"):
            self(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, text=text
            )

    def choose_files(self, selector, *paths):
        """Choose files for the file input that a CSS selector names."""
        root = self("DOM.getDocument")["root"]["nodeId"]
        node = self("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self("DOM.setFileInputFiles", nodeId=node, files=[str(Path(path).resolve()) for path in paths])

    def photograph(self, path, height):
        """Write a picture of the top of the page."""
        clip = {"x": 0, "y": 0, "width": self._size[0], "height": height, "scale": 1}
        picture = self("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        Path(path).write_bytes(base64.b64decode(picture["data"]))

    def _next(self):
        """The next message; requests and complaints are noted on the way."""
        while b"\0" not in self._read:
            if not select.select([self._in], [], [], SECONDS)[0]:
                raise TimeoutError(f"Chromium says nothing for {SECONDS} s")
            part = os.read(self._in, 65536)
            if not part:
                raise RuntimeError("Chromium ended")
            self._read += part
        line, _, self._read = self._read.partition(b"\0")
        message = json.loads(line)
        method, params = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            self.complaints.append(params)
        return message


def main():
    """Photograph a page."""
    page, picture, *height = sys.argv[1:]
    with Browser() as browser:
        browser.open(page)
        browser.photograph(picture, int(height[0]) if height else 1900)


if __name__ == "__main__":
    main()
