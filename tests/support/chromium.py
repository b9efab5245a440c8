"""Chromium, told what to do by its debugging protocol: opens a page and says what it loaded, logged and looks like."""

import asyncio
import base64
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 60


def found() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@dataclass
class Seen:
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    pictures: dict[int, bytes] = field(default_factory=dict)
    widths: dict[int, int] = field(default_factory=dict)
    answers: list[Any] = field(default_factory=list)
    pdf: bytes = b""


class _Tab:
    """One tab: commands out, events in."""

    def __init__(self, socket: Any, seen: Seen) -> None:
        self.socket, self.seen, self.last = socket, seen, 0

    async def call(self, method: str, **parameters: Any) -> Any:
        """Send a command, and wait for its answer; note events on the way."""
        self.last += 1
        await self.socket.send_json({"id": self.last, "method": method, "params": parameters})
        while (told := await self.socket.receive_json(timeout=SECONDS)).get("id") != self.last:
            self.note(told)
        assert "error" not in told, told
        return told["result"]

    async def wait_for(self, method: str) -> None:
        """Wait for an event."""
        while True:
            told = await self.socket.receive_json(timeout=SECONDS)
            self.note(told)
            if told.get("method") == method:
                return

    def note(self, told: dict[str, Any]) -> None:
        """Keep an event that says what was loaded or logged."""
        match told.get("method"):
            case "Network.requestWillBeSent":
                self.seen.requests.append(told["params"]["request"]["url"])
            case "Log.entryAdded":
                self.seen.complaints.append(told["params"]["entry"]["text"])
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown":
                self.seen.complaints.append(str(told["params"]))


def look(browser: str, page: Path, widths: tuple[int, ...], scripts: tuple[str, ...] = ()) -> Seen:
    """Open a page at some widths [pixels], evaluate scripts there, print it, and close the browser."""
    return asyncio.run(_look(browser, page, widths, scripts))


async def _look(browser: str, page: Path, widths: tuple[int, ...], scripts: tuple[str, ...]) -> Seen:
    import aiohttp  # noqa: PLC0415 (other tests need not wait for it)

    seen = Seen()
    async with (
        _opened(browser) as address,
        aiohttp.ClientSession() as session,
        session.ws_connect(address, max_msg_size=0) as socket,
    ):
        tab = _Tab(socket, seen)
        for domain in ("Network", "Log", "Runtime", "Page"):
            await tab.call(f"{domain}.enable")
        for width in widths:
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
            await tab.call("Emulation.setDeviceMetricsOverride", **size)
            await tab.call("Page.navigate", url=page.resolve().as_uri())
            await tab.wait_for("Page.loadEventFired")
            inner = await _evaluated(tab, "document.documentElement.scrollWidth")
            seen.widths[width] = int(inner)
            shot = await tab.call("Page.captureScreenshot", captureBeyondViewport=False)
            seen.pictures[width] = base64.b64decode(shot["data"])
        seen.answers = [await _evaluated(tab, script) for script in scripts]
        printed = await tab.call("Page.printToPDF", printBackground=True)
        seen.pdf = base64.b64decode(printed["data"])
    return seen


async def _evaluated(tab: _Tab, script: str) -> Any:
    told = await tab.call("Runtime.evaluate", expression=script, returnByValue=True)
    return told["result"].get("value")


@asynccontextmanager
async def _opened(browser: str) -> AsyncIterator[str]:
    """Start a browser of its own, and yield the address of its first tab; end it by its own process."""
    with tempfile.TemporaryDirectory(prefix="blindrec-browser-", ignore_cleanup_errors=True) as home:
        flags = ["--headless=new", "--remote-debugging-port=0", f"--user-data-dir={home}", "--no-first-run"]
        flags += ["--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
        flags += ["--disable-dev-shm-usage", "--hide-scrollbars", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        quiet = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(browser, *flags, "about:blank", stdout=quiet, stderr=quiet)
        try:
            yield await _first_tab(Path(home) / "DevToolsActivePort")
        finally:
            process.terminate()
            await process.wait()


async def _first_tab(told: Path) -> str:
    import aiohttp  # noqa: PLC0415 (as above)

    for _ in range(SECONDS * 10):
        if told.exists() and (lines := told.read_text().split()):
            where = f"http://127.0.0.1:{lines[0]}/json/list"
            async with aiohttp.ClientSession() as session, session.get(where) as answer:
                tabs = [one for one in await answer.json() if one["type"] == "page"]
            if tabs:
                return str(tabs[0]["webSocketDebuggerUrl"])
        await asyncio.sleep(0.1)
    raise TimeoutError(f"the browser was not ready within {SECONDS} seconds")
