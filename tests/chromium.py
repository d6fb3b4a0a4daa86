#!/usr/bin/env python3
"""Headless Chromium over its debugging pipe: what a page loads, says, and looks like on a phone.

python tests/chromium.py report.html report.png    # a picture of the page, 390 px wide
"""

import base64
import json
import os
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
            **{"width": width, "height": height, "deviceScaleFactor": 2, "mobile": True},
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
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, path):
        """Load a file and wait until it is there."""
        self.requests, self.complaints = [], []
        self("Page.navigate", url=Path(path).resolve().as_uri())
        end = time.monotonic() + SECONDS
        while self.evaluate("document.readyState") != "complete":
            if time.monotonic() > end:
                raise TimeoutError(f"{path} is not loaded after {SECONDS} s")
            time.sleep(0.05)
        time.sleep(0.3)  # what a page does after loading
        self.evaluate("0")

    def evaluate(self, expression):
        """The value of a JavaScript expression in the page."""
        return self("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def photograph(self, path, height):
        """Write a picture of the top of the page."""
        clip = {"x": 0, "y": 0, "width": self._size[0], "height": height, "scale": 1}
        picture = self("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        Path(path).write_bytes(base64.b64decode(picture["data"]))

    def _next(self):
        """The next message; requests and complaints are noted on the way."""
        while b"\0" not in self._read:
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
