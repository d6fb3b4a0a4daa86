"""A small server for a page's folder, on this machine only."""

from __future__ import annotations

import functools
import http
import http.server
import io
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


class _Handler(http.server.SimpleHTTPRequestHandler):
    # On Windows, Python's own table comes from the registry, where .js may be anything.
    extensions_map = {  # noqa: RUF012
        **http.server.SimpleHTTPRequestHandler.extensions_map,
        ".css": "text/css",
        ".html": "text/html",
        ".js": "text/javascript",
        ".json": "application/json",
        "": "application/octet-stream",
    }

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def send_head(self) -> io.BytesIO | BinaryIO | None:
        try:
            return super().send_head()
        except ValueError:  # a path that no file system takes, such as /%00
            self.send_error(http.HTTPStatus.BAD_REQUEST, "Bad path")
            return None

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the terminal shows the address alone."""


def server(folder: Path, port: int) -> http.server.ThreadingHTTPServer:
    """Return a server of the folder, not yet running.

    Args:
        folder: what to serve; it may be written later.
        port: 0 for any that is free.

    Raises:
        OSError: the port is taken.
    """
    handler = functools.partial(_Handler, directory=str(folder))
    try:
        return http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        raise OSError(f"Port {port} can't be used ({error.strerror}). Choose another: --port") from error


def run(running: http.server.ThreadingHTTPServer, say: Callable[[str], None]) -> None:
    """Serve until Ctrl-C.

    Args:
        running: what `server` returned.
        say: is given the address.
    """
    say(f"http://127.0.0.1:{running.server_address[1]}/  (Ctrl-C ends it)")
    try:
        running.serve_forever()
    except KeyboardInterrupt:
        say("")
