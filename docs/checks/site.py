"""Does the site build, strictly, with everything on it and nothing loaded from another host?"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from checks.markdown import Docs
from checks.python_api import DIRECTIVE, DIRECTORY, defined_in

PATIENCE_S = 300

_LOADED = re.compile(r"<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)=\"(?:https?:)?//[^\"]*\"")


def site(docs: Docs) -> Iterator[str]:
    """mkdocs builds it without a warning, and what it builds is complete and self-contained."""
    built = docs.root / "build" / "site"
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
    ]  # not --quiet, which hides faults from it
    command += ["--config-file", str(docs.root / "mkdocs.yml"), "--site-dir", str(built)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if not line.startswith("INFO")]
        yield "\n  ".join(["mkdocs build --strict fails:", *filter(None, lines)])
        return
    yield from _missing(docs, built)
    for page in sorted(built.rglob("*.html")):
        for loaded in _LOADED.findall(page.read_text()):
            yield f"{page.relative_to(built)} loads something from another host: {loaded}"


def _missing(docs: Docs, built: Path) -> Iterator[str]:
    """Names whose page was built without them, as happens to what has no docstring."""
    for document in docs:
        if not document.name.startswith(DIRECTORY):
            continue
        page = built / Path(document.name).relative_to("docs").with_suffix(".html")
        text = page.read_text() if page.exists() else ""
        for name in DIRECTIVE.findall(document.text):
            if not re.search(rf'<h\d id="{re.escape(defined_in(name))}"', text):
                yield f"{document.name}: the site shows nothing for {name}"
