"""Where a report is written: an HTML file, and the same as PDF."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from coordinator.protocol.errors import InputError
from scenarios.pages.page import report_of
from scenarios.store.files import try_file, write_bytes

_ENDINGS = {"out": (".html", ".htm"), "pdf": (".pdf",)}


def write_report(results: Sequence[Path], out: Path, pdf: Path | None = None) -> Path:
    """Write the page of some results; see `scenarios.pages.page.report_of`.

    Parameters
    ----------
    results : sequence of Path
        Folders of `--out`, or files of `--json`.
    out : Path
        An HTML file; one that is there is written anew.
    pdf : Path, optional
        A PDF file of the same page.

    Returns
    -------
    Path
        ``out``.

    Raises
    ------
    InputError
        If a result cannot be read or a file cannot be written, or if PDF is asked for and its extra is missing.
    """
    for name, target in (("out", out), ("pdf", pdf)):
        if target is not None:
            _check(name, target)
    if pdf is not None and importlib.util.find_spec("weasyprint") is None:
        raise InputError(f"pdf is {pdf}, but weasyprint is not installed; pip install 'blindrec[pdf]', or print {out}")
    page = report_of(results)
    _write("out", out, page.encode())
    if pdf is not None:
        _write("pdf", pdf, pdf_of(page))
    return out


def pdf_of(page: str) -> bytes:
    """Return a page as PDF, printed by its own style sheet; nothing is fetched for it."""
    import weasyprint  # noqa: PLC0415 (an extra)

    def fetch(url: str, *_: object, **__: object) -> dict[str, object]:
        raise ValueError(f"a report loads nothing, but asks for {url[:80]}")

    content: bytes = weasyprint.HTML(string=page, url_fetcher=fetch).write_pdf()
    return content


def _check(name: str, target: Path) -> None:
    endings = _ENDINGS[name]
    if target.suffix not in endings:
        raise InputError(f"{name} is {target}; name a file that ends in {endings[0]}")
    if target.is_dir():
        raise InputError(f"{name} file {target} is a folder; name a file")
    try_file(target, f"{name} file {target} cannot be written", "name a file in an existing folder")


def _write(name: str, target: Path, content: bytes) -> None:
    try:
        write_bytes(target, content)
    except OSError as error:
        raise InputError(f"{name} file {target} cannot be written ({error.strerror}); name another") from None
