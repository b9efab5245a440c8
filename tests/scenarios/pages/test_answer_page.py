"""Pages in Chromium, and the answer on one: a file that loads nothing, whatever names a result has."""

import asyncio
import base64
import html
import json
import os
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pytest
from evidence import THOROUGH
from markupsafe import Markup
from runs import FAMILIES, answer, curve, undrawn_report, worth

from coordinator.protocol.trust_models import CURATOR, LOCAL, SHUFFLED, TWO_SERVERS
from scenarios.pages.answer_page import _digest, _scripts, answer_section, page_style, policy, script_json
from scenarios.pages.answer_picture import VEGA_LITE, resolved, specification
from scenarios.pages.page import report_of
from scenarios.show.picture import COLOURS
from scenarios.studies.answer import VOLUNTEERS, Answer

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
SECOND = 4.0


@pytest.fixture(scope="module")
def hostile() -> Answer:
    """An answer of two epsilons whose names are markup."""
    curves = [
        curve(CURATOR, {100: 0.1, 1000: worth(0.19, 0.002), 10_000: 0.195}, mechanism="pairs with EASE"),
        curve(TWO_SERVERS, {100: 0.05, 1000: worth(0.179, 0.01), 10_000: 0.19}, unguaranteed=[10_000]),
        curve(SHUFFLED, {1000: 0.19, 10_000: 0.19}, device=6.57),
        curve(LOCAL, {1000: 0.05, 10_000: 0.1}, mechanism=HOSTILE),
        curve(LOCAL, {1000: 0.1, 5000: 0.17, 10_000: 0.19}, mechanism=HOSTILE, epsilon=SECOND),
        curve(VOLUNTEERS, {1000: 0.18}, epsilon=None, mechanism=HOSTILE),
    ]
    return answer(*curves, file=HOSTILE, best_name=HOSTILE, others=HOSTILE)


@pytest.fixture(scope="module")
def spec(hostile: Answer) -> dict[str, Any]:
    """Its picture, which takes a second."""
    return specification(hostile)


@pytest.fixture(scope="module")
def file(hostile: Answer, subjects: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison that ends in it."""
    record = json.loads((subjects[2] / "result.json").read_text()) | {"answer": hostile.model_dump(mode="json")}
    file = tmp_path_factory.mktemp("hostile") / "result.json"
    file.write_text(json.dumps(record))
    return file


def _javascript_bundle(*, vl_version: str) -> str:
    assert vl_version == VEGA_LITE
    return 'export const draws = "<b>";'


@pytest.fixture(scope="module")
def page(file: Path) -> str:
    """Its page; by default the other library is not asked for its scripts, for which it takes four seconds."""
    with pytest.MonkeyPatch.context() as patch:
        if not THOROUGH:
            patch.setattr("vl_convert.javascript_bundle", _javascript_bundle)
            patch.setattr("scenarios.pages.answer_page._scripts", _scripts.__wrapped__)  # which keeps none
        return undrawn_report([file])


def test_scripts_are_those_of_the_policy_and_nothing_is_loaded(page: str) -> None:
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 2
    allowed = html.unescape(re.findall(r'Content-Security-Policy" content="([^"]*)"', page)[0])
    (sheet,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert allowed == policy(sheet, scripts)
    assert all(_digest(script) in allowed for script in scripts)
    rest = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", page, flags=re.DOTALL)
    assert not re.search(r"\b(src|srcset|action|onerror|onclick)=(?!x onerror)", rest.replace(html.escape(HOSTILE), ""))
    assert not re.search(r"https?://(?!www\.w3\.org/)", rest)
    assert not re.search(r'href="(?!#)', rest)


def test_the_bundle_cannot_end_its_element_or_change_its_digest(page: str) -> None:
    for script in re.findall(r"<script>(.*?)</script>", page, re.DOTALL):
        assert not re.search(r"</script|<!--|\r", script)


def test_json_cannot_end_its_element() -> None:
    text = script_json({"name": HOSTILE, "also": "<!-- & -->"})
    assert not set("<>&") & set(text)
    assert json.loads(text) == {"name": HOSTILE, "also": "<!-- & -->"}


def test_every_cell_with_a_guarantee_is_drawn_and_no_other(spec: dict[str, Any]) -> None:
    drawn = {(cell["rung"], cell["people"]) for cell in spec["datasets"]["cells"]}
    assert (TWO_SERVERS, 1000) in drawn
    assert (TWO_SERVERS, 10_000) not in drawn
    needs = {(bar["rung"], bar["epsilon"]): bar for bar in spec["datasets"]["needs"]}
    assert needs[LOCAL, 1.0]["right"]
    assert not needs[LOCAL, 1.0]["value"]  # more than 10k people: an arrow, and no point
    assert needs[LOCAL, SECOND]["value"]


def test_a_picture_for_notebooks_knows_no_style_sheet(spec: dict[str, Any]) -> None:
    assert "var(--curator)" in json.dumps(spec)
    for theme in (0, 1):
        text = json.dumps(resolved(spec, theme))
        assert "var(" not in text
        assert COLOURS["curator"][theme] in text


def test_without_the_extra_the_picture_is_still_and_a_line_says_so(
    hostile: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scenarios.pages.answer_page.has_interactive", lambda: False)
    section = answer_section(hostile, 1, Markup("<svg id='still'></svg>"))
    assert section.scripts == ()
    assert "<svg id='still'></svg>" in section.body
    assert "pip install 'blindrec[page]'" in html.unescape(section.body)
    assert "<script" not in section.body.replace(html.escape(HOSTILE), "")


def test_the_style_sheet_has_the_palette_for_light_dark_and_print() -> None:
    sheet = page_style()
    for name, pair in COLOURS.items():
        assert [sheet.count(f"--{name}:{colour};") for colour in pair] == [2, 1]


def test_twelve_askings_are_counted_under_the_widest_relation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenarios.pages.answer_page.has_interactive", lambda: False)
    epsilon = 0.1
    cells = {1000: 0.19}
    relations: tuple[tuple[Literal["replace", "add-remove"], str], ...]
    relations = ("replace", "57 of 100"), ("add-remove", "64 of 100")  # by 12 answers that are right with .525, .55
    for relation, times in relations:
        made = replace(curve(CURATOR, cells, epsilon=epsilon), neighbours=relation, delta={1000: 0.0})
        assert f"a guess is right at most {times} times" in answer_section(answer(made), 1, Markup()).body


# Chromium, told what to do by its debugging protocol: opens a page and says what it loaded, logged and looks like.
NAMES = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 60


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


@pytest.fixture
def look() -> Callable[..., Seen]:
    """Open a page at some widths [pixels], evaluate scripts there, print it, and close the browser."""
    if (browser := next((path for name in NAMES if (path := shutil.which(name))), None)) is None:
        pytest.skip("no Chromium is installed; `make browser-test` says how to get it")

    def at(page: Path, widths: tuple[int, ...], scripts: tuple[str, ...] = ()) -> Seen:
        return asyncio.run(_look(browser, page, widths, scripts))

    return at


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


Look = Callable[..., Any]
WIDTHS = 1200, 400
CUT = """[...document.querySelectorAll("body *")].filter(one => !one.closest("svg, thead") &&
    one.getBoundingClientRect().right > innerWidth + 1).map(one => one.outerHTML.slice(0, 80))"""
"""What stands outside of the window."""


@pytest.fixture(scope="module")
def report(subjects: list[Path]) -> str:
    """One report of all of them, or by default of one of each family."""
    return report_of([path for path in subjects if THOROUGH or path.stem in FAMILIES])


def _looked(look: Look, page: str, folder: Path) -> Any:
    file = folder / "page.html"
    file.write_text(page, encoding="utf-8")
    return look(file, WIDTHS, (CUT,))


@pytest.mark.browser
@pytest.mark.slow
def test_a_browser_shows_and_prints_it_and_loads_nothing(look: Look, report: str, tmp_path: Path) -> None:
    seen = _looked(look, report, tmp_path)
    assert set(seen.requests) == {(tmp_path / "page.html").as_uri()}
    assert seen.complaints == []
    assert seen.widths == {width: width for width in WIDTHS}
    assert seen.answers == [[]]
    assert seen.pdf.startswith(b"%PDF-")
    assert all(picture.startswith(b"\x89PNG") for picture in seen.pictures.values())


@pytest.mark.browser
@pytest.mark.slow
def test_a_page_that_loads_logs_and_is_too_wide_is_found(look: Look, tmp_path: Path) -> None:
    wrong = '<!DOCTYPE html><body><p style="width: 900px">wide</p><img src="missing.png"><script>console.error("no")'
    seen = _looked(look, wrong + "</script>", tmp_path)
    assert (tmp_path / "missing.png").as_uri() in seen.requests
    assert seen.complaints
    assert seen.widths[400] > 400
    assert seen.answers[0]


@pytest.mark.browser
@pytest.mark.slow
def test_a_browser_draws_it_loads_nothing_and_switches_epsilon(file: Path, tmp_path: Path, look: Look) -> None:
    page = tmp_path / "page.html"
    page.write_text(undrawn_report([file]), encoding="utf-8")
    scripts = (
        "document.querySelectorAll('.picture svg').length",
        "document.querySelector('.still').hidden",
        f"document.querySelector('[value=\"{SECOND:g}\"]').click(); document.querySelector('h1').textContent",
        "[...document.querySelectorAll('h1')].filter(one => one.offsetParent).map(one => one.textContent)",
        "document.querySelectorAll('script').length",
    )
    seen = look(page, (1200, 400), scripts)
    assert set(seen.requests) == {page.as_uri()}
    assert seen.complaints == []
    assert seen.widths == {1200: 1200, 400: 400}
    pictures, hidden, _, headlines, elements = seen.answers
    assert (pictures, hidden, elements) == (1, True, 3)
    assert len(headlines) == 1
    assert f"epsilon {SECOND:g}" in headlines[0].replace("\N{NO-BREAK SPACE}", " ")
