"""Do the examples work: snippets, SQL, stored objects?

A snippet is a file in `docs/snippets`, shown whole on some page under a comment that names it. All
run in a folder that `first_run.py` has prepared, each in a copy of its own.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from checks import history
from checks.markdown import Docs
from msgspec.structs import replace

from servo.core import manifest
from servo.core.events.codec import decode_entry
from servo.errors import ServoError
from servo.projection.read.reader import Snapshot
from servo.projection.read.sql import query
from servo.testing.workspaces import StoredStory

FIRST = "first_run.py"
GUIDE = "docs/how-to/"
PATIENCE_S = 120

_STORED = re.compile(r"<!-- example: (?P<kind>\w+) -->\n```json\n.*?```", re.DOTALL)
_SHOWN = re.compile(r"<!-- snippet: (?P<name>[\w.]+) -->\n```python\n.*?```", re.DOTALL)


def shown(docs: Docs) -> Iterator[str]:
    """Every Python block is a snippet, and every snippet is shown as it stands."""
    files = {path.name: path.read_text() for path in _snippets(docs)}
    unseen = dict.fromkeys(files)
    for document in docs:
        for fence in document.fences("python"):
            name = fence.mark.removeprefix("snippet: ")
            if name not in files:
                mark = fence.mark or "unmarked"
                yield f"{document.name}: a Python block is not a snippet ({mark})"
            elif fence.text != files[name]:
                yield f"{document.name}: {name} differs from its file: run docs/build.py --write"
            unseen.pop(name, None)
    yield from (f"docs/snippets/{name} is shown nowhere" for name in unseen)


def refresh(docs: Docs) -> None:
    """Show every snippet as it stands in its file, and stored objects as they are written today."""
    files = {path.name: path.read_text() for path in _snippets(docs)}
    objects = {kind: iter(texts) for kind, texts in stored_today().items()}
    for document in docs:
        text = _SHOWN.sub(lambda block: _block(block, files), document.text)
        text = _STORED.sub(lambda block: _stored_block(block["kind"], objects), text)
        if text != document.text:
            document.path.write_text(text)


def _block(block: re.Match[str], files: dict[str, str]) -> str:
    name = block["name"]
    return f"<!-- snippet: {name} -->\n```python\n{files[name]}```" if name in files else block[0]


def _stored_block(kind: str, objects: Mapping[str, Iterator[str]]) -> str:
    return f"<!-- example: {kind} -->\n```json\n{next(objects[kind])}\n```"


def stored_today() -> dict[str, list[str]]:
    """The examples of stored objects, in the order in which they are shown.

    The first entry is a fence; the second one requests and plans a run; the manifest is shortened
    to one table.
    """
    story = StoredStory()
    _ = story.commit()
    _ = story.plan({"orders": []})
    published = story.publish()
    shortened = replace(published, tables={"runs": published.tables["runs"]})
    return {
        "entry": [data.decode() for _, data, _ in story.entries],
        "manifest": [manifest.encode(shortened)[0].decode()],
    }


def snippets(docs: Docs) -> Iterator[str]:
    """Every snippet runs."""
    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared"
        prepared.mkdir()
        first, *others = sorted(_snippets(docs), key=lambda path: path.name != FIRST)
        yield from _run(first, prepared)
        for path in others:
            place = Path(folder) / path.stem
            shutil.copytree(prepared, place)
            yield from _run(path, place)


def _snippets(docs: Docs) -> list[Path]:
    return sorted((docs.root / "docs" / "snippets").glob("*.py"))


def _run(path: Path, place: Path) -> Iterator[str]:
    command = [sys.executable, "-W", "error", str(path.resolve())]
    try:
        done = subprocess.run(
            command, cwd=place, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
    except subprocess.TimeoutExpired:
        yield f"docs/snippets/{path.name} did not end within {PATIENCE_S} s"
        return
    if done.returncode:
        yield f"docs/snippets/{path.name} fails: {done.stderr.strip()[-500:]}"


def sql(docs: Docs) -> Iterator[str]:
    """Every SQL block can be asked of a workspace with a past; recipes of the guide find rows."""
    with history.workspace() as snapshot:
        for document in docs:
            for fence in document.fences("sql"):
                fault = _fault(snapshot, fence.text, wanted=document.name.startswith(GUIDE))
                if fault:
                    yield f"{document.name}: {fence.text.strip()!r}: {fault}"


def _fault(snapshot: Snapshot, text: str, *, wanted: bool) -> str:
    try:
        found = query(snapshot, text)
    except ServoError as error:
        return str(error)
    return "finds nothing" if wanted and not found.rows else ""


def stored(docs: Docs) -> Iterator[str]:
    """Every example of a stored object is one, and those of entries are what is written today."""
    entries = stored_today()["entry"]
    readers = {"entry": decode_entry, "manifest": manifest.decode}
    for document in docs:
        for fence in document.fences("json"):
            kind = fence.mark.removeprefix("example: ")
            if kind not in readers:
                yield f"{document.name}: a JSON example does not say what it is an example of"
                continue
            try:
                _ = readers[kind](fence.text.strip().encode(), what=f"the example of an {kind}")
            except ServoError as error:
                yield f"{document.name}: {error}"
            else:
                if kind == "entry" and fence.text.strip() not in entries:
                    yield f"{document.name}: an entry is out of date: run docs/build.py --write"
