"""The documentation site (`make docs`): pages of the whole repository.

`mkdocs.yml` names this module as a hook. Most pages are in `docs`; the navigation also names pages elsewhere, such as
the README. A file keeps its path in the repository, without ``docs/``, and links are changed accordingly, so that they
work both in the repository and on the site.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from benchmarks.pages import ROOT, text_of

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

LINK = re.compile(r"\]\(([^)#:\s]+)(#[^)\s]+)?\)")
"""A link to a file, and to a heading in it."""
MEASURED = "reference/measured.md"
"""The page of what docs/measured.json has, to which links to that file lead."""


def nav_pages(entries: Any) -> Iterator[str]:
    """Yield the pages of a navigation, in its order."""
    for entry in entries if isinstance(entries, list) else [entries]:
        if isinstance(entry, dict):
            yield from nav_pages(list(entry.values()))
        elif isinstance(entry, list):
            yield from nav_pages(entry)
        else:
            yield str(entry)


def shelves() -> dict[str, str]:
    """Return a page of links for each folder of docs, by its place: what README's last links lead to."""
    import yaml  # noqa: PLC0415 (mkdocs brings it)

    made = {}
    for section in yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]:
        for title, (first, *entries) in section.items():
            if str(first).endswith("/README.md"):
                links = [
                    f"- [{name}]({os.path.relpath(at, Path(first).parent)})"
                    for entry in entries
                    for name, at in entry.items()
                ]
                made[first] = "\n".join([f"# {title}", "", *links]) + "\n"
    return made


def pages_made() -> dict[str, str]:
    """Return the pages that are made when the site is built, and tables to download, by their places."""
    sys.path.insert(0, str(ROOT))  # mkdocs runs this module as a file
    from benchmarks import measured, reference_pages, worth  # noqa: PLC0415 (they load what measures)

    data, tables = json.loads((ROOT / worth.DATA).read_text(encoding="utf-8")), measured.measured_tables()
    made = {"explanation/worth-tables.md": worth.tables_page(data), MEASURED: measured.page(tables)}
    made |= {f"measured/{name}.csv": measured.csv_of(entry) for name, entry in tables.items()}
    return made | shelves() | reference_pages.pages()


def source(page: str) -> Path:
    """Return the file that the site shows at a place."""
    paths = (ROOT / "docs" / page, ROOT / page, (ROOT / "docs" / page).with_suffix(".ipynb"))
    return next((path for path in paths if path.is_file()), ROOT / "docs" / page)


def shown(page: str) -> str:
    """Return the Markdown of a page; before a notebook's stands where the reader gets it."""
    path = source(page)
    text = text_of(path, whole=True)
    if path.suffix == ".ipynb":
        title, rest = text.split("\n", 1)
        text = f'{title}\n\n<a href="{path.name}" download>This page is a notebook</a>, run as it stands here.\n{rest}'
    return text


def stands_at(path: Path) -> str:
    """Return the place of a file, or of a folder's README, on the site."""
    page = (path / "README.md" if path.is_dir() else path).relative_to(ROOT).as_posix()
    if page == "docs/measured.json":
        return MEASURED
    return re.sub(r"\.ipynb$", ".md", page.removeprefix("docs/"))


def links(page: str, text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield the links of a page to files of the repository, each with the place on the site that it leads to."""
    for link in LINK.finditer(text):
        target = Path(os.path.normpath(source(page).parent / link[1]))
        if target.exists() and target.is_relative_to(ROOT):
            yield link, stands_at(target)


def moved(page: str, text: str) -> str:
    """Return the text of a page whose links lead to places on the site."""
    new, end = "", 0
    for link, target in links(page, text):
        there = os.path.relpath(target, PurePosixPath(page).parent)
        new, end = f"{new}{text[end : link.start()]}]({there}{link[2] or ''})", link.end()
    return new + text[end:]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie outside of `docs`, and the files that pages link to."""
    from mkdocs.structure.files import File  # noqa: PLC0415 (the tests of this module need no mkdocs)

    for page, text in pages_made().items():
        files.append(File.generated(config, page, content=text))
    for page in nav_pages(config.nav):
        places = [page]
        if page.endswith(".md") and source(page).is_file():
            places += [target for _, target in links(page, shown(page))]
        for page_path in places:
            if files.get_file_from_path(page_path) is None and source(page_path).is_file():
                notebook = source(page_path).suffix == ".ipynb" and page_path.endswith(".md")
                of: dict[str, Any] = (
                    {"content": shown(page_path)} if notebook else {"abs_src_path": str(source(page_path))}
                )
                files.append(File.generated(config, page_path, **of))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Let a page's links lead to places on the site."""
    return moved(page.file.src_uri, markdown)
