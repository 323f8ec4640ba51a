"""What the site does beyond Markdown: mkdocs calls these functions while it builds.

The pages are written to be read in a checkout too. So links may leave `docs/`, and the Python
reference names what users import and not the module that happens to define it.
"""

import re
from pathlib import Path
from posixpath import dirname, normpath, relpath
from typing import Any

from checks.python_api import DIRECTIVE, defined_in
from mkdocs.structure.files import File, Files
from pygments.formatters import HtmlFormatter

ROOT = Path(__file__).parents[1]

# Files of the repository that are pages of the site as well.
ADOPTED = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}

_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the adopted pages, and the colours of highlighted code."""
    colours = HtmlFormatter(style="default").get_style_defs(".highlight")
    files.append(File.generated(config, "highlight.css", content=str(colours)))
    for source, target in ADOPTED.items():
        files.append(File.generated(config, target, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Resolve links that leave `docs/`, and what the Python reference names."""
    del config, files
    uri = page.file.src_uri
    origin = next((f"../{source}" for source, target in ADOPTED.items() if target == uri), uri)
    linked = _LINK.sub(lambda link: _relinked(link, origin, uri), markdown)
    return DIRECTIVE.sub(_directive, linked)


def _relinked(link: re.Match[str], origin: str, uri: str) -> str:
    """A link as the site needs it; the text alone where it leads out of the site."""
    text, target, anchor = link[1], link[2], link[3] or ""
    if "://" in target or target.startswith("mailto:"):
        return link[0]
    path = normpath(f"docs/{dirname(origin)}/{target}")
    if path in ADOPTED:
        return f"[{text}]({relpath(ADOPTED[path], dirname(uri) or '.')}{anchor})"
    if not path.startswith("docs/") or not path.endswith(".md"):
        return text
    return f"[{text}]({relpath(path.removeprefix('docs/'), dirname(uri) or '.')}{anchor})"


def _directive(found: re.Match[str]) -> str:
    """What mkdocstrings is to read, under an anchor that stays when modules move."""
    public, real = found[1], defined_in(found[1])
    anchor = "" if public == real else f'<a id="{public}"></a>\n\n'
    return f"{anchor}::: {real}"
