"""Results of every family, made once: folders of runs and a comparison, records of the golden results, audits."""

import asyncio
import base64
import contextlib
import io
import json
import math
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from markupsafe import Markup
from runs import planted_ratings, write_movielens

from coordinator.protocol.arrays import Floats
from coordinator.protocol.mechanism import LOCAL_PROMISE
from coordinator.protocol.trust_models import CURATOR, LOCAL, SHUFFLED, TWO_SERVERS
from scenarios import cli
from scenarios.config.settings import Target
from scenarios.pages.page import report_of
from scenarios.studies.answer import Answer, AnswerInputs, Curve

GOLDEN = Path(__file__).parents[1] / "golden" / "golden.json"
RECORDS = {
    "two-tier, pmc": "pmc",
    "two-tier, laplace": "laplace",
    "two-tier, none": "silent",
    "online, clients and a budget": "online",
    "online, plurality": "plurality",
    "pairwise, equal, public, centred": "pairwise",
    "item-query": "item-query",
    "sweep, users": "users",
    "sweep, adaptive": "adaptive",
    "sweep, two-tier": "tiers",
    "plan": "plan",
    "plan, ratings, worth": "forecast",
    "data, people enough for a forecast": "crowd",
    "data": "data",
}
"""Golden results, and the names of their files."""
FAMILIES = {
    "run": "run",
    "compare": "compare",
    "pmc": "two-tier",
    "online": "online",
    "adaptive": "sweep",
    "plan": "plan",
    "data": "data",
    "leak": "audit",
}
"""Of each family a file, and the family's name."""
ATTACK = {"name": "one", "meaning": "this or that", "times": 1, "claimed": 1.0, "measured": 0.98, "plays": 50000}
AUDIT = {
    "design": "sign",
    "guarantee": LOCAL_PROMISE,
    "claimed": 1.0,
    "exact": 1.0,
    "measured": 0.98,
    "confidence": 0.99,
}
AUDIT |= {
    "confidence": 0.99,
    "held": True,
    "failures": [],
    "attacks": [{**ATTACK, "right": 0.7303, "right_at_most": 0.7310585786}],
}
LEAK = {**AUDIT, "measured": 1.25, "held": False, "failures": ["attack one measured at least 1.25, claimed are 1"]}
FEW = ["--like-from", "4", "--neighbours", "5", "--rank", "3", "--ridge", "5", "--top", "20", "--likes", "8"]


def undrawn_report(paths: Sequence[Path]) -> str:
    """A report with empty pictures, for tests that look at none: drawing them is most of the time that a page takes."""
    with patch("scenarios.pages.page.inline", lambda *_: Markup("<svg></svg>")):
        return report_of(paths)


def command(*arguments: object) -> None:
    said = io.StringIO()
    quiet = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said)
    undrawn = patch("scenarios.studies.study.draw")  # a report draws its figures itself
    with quiet[0], quiet[1], undrawn, pytest.raises(SystemExit) as ended:
        cli.main([str(argument) for argument in arguments])
    assert not ended.value.code, said.getvalue()


def made(folder: Path) -> list[Path]:
    here = ["--backend", "inprocess"]
    block = ["--items", 12, "--rated", 4, "--epsilon", 3, "--users", 600]
    command("run", *block, "--repeat", 2, *here, "--out", folder / "run")
    ratings = write_movielens(folder / "ratings.csv", planted_ratings(users=40, items=30, each=12))
    command("run", "--ratings", ratings, "--users", 500, "--epsilon", 2, *here, "--out", folder / "copies")
    models = ["--trust-models", "none,curator,local", "--mechanisms", "popularity,set", "--epsilon", "2,inf"]
    command("compare", ratings, *FEW, *models, *here, "--scale", "1,5", "--seeds", 3, "--out", folder / "compare")
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    for name, file in RECORDS.items():
        record = golden[name].get("result", golden[name])
        for of in {"rows", "people"} & record.keys():  # which golden results hold as columns
            if columns := record[of]:
                record[of] = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        (folder / f"{file}.json").write_text(json.dumps(record), encoding="utf-8")
    audits = {"audit": AUDIT, "leak": LEAK, "audits": {"held": False, "audits": [AUDIT, {**LEAK, "exact": "inf"}]}}
    for name, record in audits.items():
        (folder / f"{name}.json").write_text(json.dumps(record), encoding="utf-8")
    files = [folder / f"{name}.json" for name in (*RECORDS.values(), *audits)]
    return [folder / "run", folder / "copies", folder / "compare", *files]


# Answers made of curves with known worth: three splits whose intervals have a given reach.

BEST = np.full((3, 5), 0.2)
FILE = {LOCAL: 0.0, SHUFFLED: 0.0, TWO_SERVERS: 0.0, CURATOR: 0.0}


def worth(mean: float, reach: float = 0.0) -> Floats:
    """Three splits whose Student's interval has that reach, among everybody and among four samples of people."""
    step = reach * math.sqrt(3) / 4.302652729749464
    return np.repeat(np.array([[mean - step], [mean], [mean + step]]), 5, axis=1)


def curve(
    rung: str,
    by_people: Mapping[int, Any],
    *,
    mechanism: str = "set",
    epsilon: float | None = 1.0,
    device: float | None = None,
    unguaranteed: Sequence[int] = (),
) -> Curve:
    by_people = {
        people: value if isinstance(value, np.ndarray) else worth(value) for people, value in by_people.items()
    }
    return Curve(
        rung=rung,
        mechanism=mechanism,
        epsilon=epsilon,
        worth=by_people,
        delta=dict.fromkeys(by_people, 0.0 if rung == LOCAL else 1e-6),
        device_epsilon=dict.fromkeys(by_people, device),
        unguaranteed=frozenset(unguaranteed),
    )


def answer(*curves: Curve, share: float = 0.9, of: Target = "best", **changes: Any) -> Answer:
    about: dict[str, Any] = {
        "file": "made.csv",
        "people": 1000,
        "items": 50,
        "best": BEST,
        "best_name": "EASE",
        "popularity": BEST / 2,
    }
    about |= {"file_error": FILE, "volunteers": 0.01, "curves": curves}
    return AnswerInputs(**about | changes).answer(share=share, of=of)


# Chromium, told what to do by its debugging protocol: opens a page and says what it loaded, logged and looks like.

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
