"""What the site needs beside the files of docs/: pages from outside of it, links to these, and
mathematics as pictures, which look the same everywhere and need no font and no script."""

from __future__ import annotations

import html
import logging
import re
import warnings
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any
from xml.etree.ElementTree import tostring

from mkdocs.structure.files import File

with warnings.catch_warnings():  # it finds its font in a way that Python 3.11 calls old
    warnings.simplefilter("ignore")
    import ziamath

LOG = logging.getLogger("mkdocs.hooks")  # in strict mode a warning fails
ROOT = Path(__file__).parents[2]
EM = 100.0  # units of a picture to the size of its text
ziamath.config.svg2 = False  # each picture by itself
ziamath.config.precision = 1
# Files outside of docs/ that are pages too, under their own path; so is what they link to.
OUTSIDE = ["CHANGELOG.md", "CONTRIBUTING.md", "results/README.md"]
SCRIPTS = [path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("examples/*.py"))]

# Code, or [text](path#anchor).
LINK = re.compile(
    r"^```.*?^```|\[([^\[\]]*)\]\((?![a-z]+:|#)([^)\s#]+)((?:#[^)\s]*)?)\)", re.DOTALL | re.M
)
HREF = re.compile(r'href="([^":#]+\.md)(#[^"]*)?"')
DISPLAYED = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)  # an equation of a notebook
MATH = re.compile(r'<(span|div) class="arithmatex">\\[\[(](.*?)\\[\])]</\1>', re.DOTALL)


def repository_path(src_uri: str, link: str = "") -> str:
    """Of a page, or of what it links to."""
    page = PurePosixPath(src_uri if src_uri in OUTSIDE else f"docs/{src_uri}")
    return normpath(page.parent / link) if link else str(page)


def on_files(files: Any, config: Any) -> Any:
    for path in OUTSIDE:
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    for path in SCRIPTS:
        code = (ROOT / path).read_text(encoding="utf-8")
        text = f"# {Path(path).name}\n\n```python\n{code}```\n"
        files.append(File.generated(config, f"{path}.md", content=text))
    for page in list(files.documentation_pages()):
        for link in LINK.finditer(page.content_string):
            path = repository_path(page.src_uri, link[2] or ".")
            outside = not path.startswith("docs/") and Path(path).suffix not in (".md", ".py")
            if outside and (ROOT / path).is_file() and path not in files.src_uris:
                files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links between files of the repository, as links between pages of the site."""
    here = page.file.src_uri
    if here == "index.md":
        page.meta["hide"] = ["navigation"]  # the tabs are all there is

    def in_site(match: re.Match[str]) -> str:
        text, link, anchor = match.groups()
        if link is None:  # code
            return match[0]
        path = repository_path(here, link)
        if (ROOT / path).is_dir():
            if not (ROOT / path / "README.md").is_file():
                return text  # a folder without a page
            path += "/README.md"
        path = f"{path}.md" if path in SCRIPTS else path.removeprefix("docs/")
        return f"[{text}]({relpath(path, PurePosixPath(here).parent)}{anchor})"

    return LINK.sub(in_site, markdown)


def on_page_content(content: str, page: Any, files: Any, **_: Any) -> str:
    if page.file.src_uri.endswith(".ipynb"):
        content = linked(
            DISPLAYED.sub(r'<div class="arithmatex">\[\1\]</div>', content), page, files
        )
    return MATH.sub(drawn, content)


def linked(content: str, page: Any, files: Any) -> str:
    """A notebook's links, which only Markdown has resolved so far."""

    def to_page(match: re.Match[str]) -> str:
        target = files.get_file_from_path(
            normpath(PurePosixPath(page.file.src_uri).parent / match[1])
        )
        if target is None:
            LOG.warning("%s links to %s, which is no page.", page.file.src_uri, match[1])
            return match[0]
        return f'href="{target.url_relative_to(page.file)}{match[2] or ""}"'

    return HREF.sub(to_page, content)


def drawn(match: re.Match[str]) -> str:
    """An equation as a picture in the size and colour of the text around it, read out as LaTeX."""
    tag, tex = match[1], html.unescape(match[2]).strip()
    math = ziamath.Latex(tex, size=EM, color="currentColor", inline=tag == "span")
    picture = math.svgxml()
    _, top, width, height = (float(number) for number in picture.get("viewBox").split())
    below = -(top + height) / EM
    size = f"width:{width / EM:.3f}em;height:{height / EM:.3f}em;vertical-align:{below:.3f}em"
    picture.attrib.update({"role": "img", "aria-label": tex, "style": size})
    return f'<{tag} class="math">{tostring(picture, encoding="unicode")}</{tag}>'
