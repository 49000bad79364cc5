"""A headless browser, driven through the pipe of its DevTools protocol with the standard library.

https://chromedevtools.github.io/devtools-protocol
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
SWITCHES = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
KEYS = {"Enter": 13, "Escape": 27, " ": 32, "Tab": 9, "ArrowRight": 39, "ArrowLeft": 37}


def found() -> str | None:
    """The browser of this machine, if it has one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One tab; what it says of errors is kept."""

    def __init__(self, reading: int, writing: int) -> None:
        self._in, self._out = os.fdopen(reading, "rb"), os.fdopen(writing, "wb", buffering=0)
        self._number, self._rest, self._session = 0, b"", ""
        self.events: list[str] = []
        self.errors: list[str] = []
        self.requests: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network"):
            self._call(f"{domain}.enable")

    def _call(self, method: str, **values: Any) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": values}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._number:
            self._noted(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            chunk = self._in.read1(1 << 16)
            if not chunk:
                raise RuntimeError("the browser has ended")
            self._rest += chunk
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _noted(self, event: dict[str, Any]) -> None:
        method, values = event.get("method", ""), event.get("params", {})
        self.events.append(method)
        if method == "Runtime.exceptionThrown":
            details = values["exceptionDetails"]
            said = details.get("exception", {}).get("description", details["text"])
            self.errors.append(said)
        if method == "Network.requestWillBeSent":
            self.requests.append(values["request"]["url"])

    def open(self, path: Path, width: int = 1400, height: int = 1000, script: bool = True) -> None:
        """Open a file in a window of this width, and wait until it is loaded."""
        self.resize(width, height)
        self._call("Emulation.setScriptExecutionDisabled", value=not script)
        self.open_at(path.resolve().as_uri())

    def open_at(self, url: str) -> None:
        """The same at an address in full, with what comes behind its hash."""
        self.events.clear()
        self._call("Page.navigate", url=url)
        while "Page.loadEventFired" not in self.events:
            self._noted(self._read())

    def resize(self, width: int, height: int) -> None:
        """Make the window so large; what is narrow is a telephone."""
        values = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self._call("Emulation.setDeviceMetricsOverride", **values)

    def dark(self, on: bool = True) -> None:
        """Ask for dark colours."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if on else "light"}
        self._call("Emulation.setEmulatedMedia", features=[feature])

    def run(self, script: str) -> Any:
        """The value of an expression; an error in it is raised."""
        values = {"expression": script, "returnByValue": True, "awaitPromise": True}
        answer = self._call("Runtime.evaluate", **values)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def press(self, *keys: str) -> None:
        """Press keys one after the other, or letters."""
        for key in keys:
            text = "\r" if key == "Enter" else key if len(key) == 1 else ""
            values = {"key": key, "windowsVirtualKeyCode": KEYS.get(key, 0)}
            self._call("Input.dispatchKeyEvent", type="keyDown", text=text, **values)
            self._call("Input.dispatchKeyEvent", type="keyUp", **values)

    def click(self, selector: str) -> None:
        """Click in the middle of an element, as a mouse does."""
        self.run(
            f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center'}})"
        )
        box = self.run(
            f"(r => [r.x + r.width / 2, r.y + r.height / 2])"
            f"(document.querySelector({json.dumps(selector)}).getBoundingClientRect())"
        )
        for kind in ("mousePressed", "mouseReleased"):
            values = {"x": box[0], "y": box[1], "button": "left", "clickCount": 1}
            self._call("Input.dispatchMouseEvent", type=kind, **values)

    def shoot(self, path: Path, whole: bool = False) -> None:
        """Save what is seen, or the whole page, as PNG."""
        values: dict[str, Any] = {"captureBeyondViewport": whole}
        if whole:
            size = self._call("Page.getLayoutMetrics")["cssContentSize"]
            values["clip"] = {**size, "scale": 1}
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", **values)["data"]))


@contextmanager
def browsing(profile: Path) -> Iterator[Page]:
    """A page in a browser of its own, which ends with the block."""
    program = found()
    assert program is not None
    here_in, there_out = os.pipe()
    there_in, here_out = os.pipe()

    def handed_over() -> None:  # the protocol reads from 3 and writes to 4
        low, high = os.dup(there_in), os.dup(there_out)
        os.dup2(low, 3)
        os.dup2(high, 4)

    process = subprocess.Popen(
        [program, *SWITCHES, f"--user-data-dir={profile}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=handed_over,
        close_fds=False,
    )
    os.close(there_in)
    os.close(there_out)
    try:
        yield Page(here_in, here_out)
    finally:
        process.terminate()
        process.wait()
