"""Check the documentation and build the site: `python docs/build.py`, or `make docs`.

Each check has a name; `--only NAME` runs one, and `--root FOLDER` reads the documents of a copy.
`--write` writes what is generated: the command line reference, the schema of the storage format,
and the snippets and examples in the pages. The site goes to `build/site`.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from checks import cli_page, commands, examples, format_schema, prose, python_api, reference, site
from checks.markdown import Docs

ROOT = Path(__file__).parents[1]

Check = Callable[[Docs], Iterator[str]]

CHECKS: dict[str, Check] = {
    "events": reference.events,
    "refusals": reference.refusals,
    "tables": reference.tables,
    "objects": reference.objects,
    "schema": format_schema.format_schema,
    "settings": reference.settings,
    "bugs": reference.bugs,
    "verbs": reference.verbs,
    "commands": cli_page.commands,
    "python": python_api.python,
    "exit_codes": commands.exit_codes,
    "command_lines": commands.command_lines,
    "names": prose.names,
    "links": prose.links,
    "decisions": prose.decisions,
    "sql": examples.sql,
    "stored": examples.stored,
    "shown": examples.shown,
    "snippets": examples.snippets,
    "site": site.site,
}


def main() -> int:
    """Run the checks; 1 if one found anything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--only", action="append", choices=CHECKS)
    parser.add_argument("--list", action="store_true", help="name the checks")
    parser.add_argument("--write", action="store_true", help="write what is generated")
    options = parser.parse_args()
    if options.list:
        print(*CHECKS)
        return 0
    if options.write:
        (options.root / "docs" / cli_page.PAGE).write_text(cli_page.page())
        (options.root / "docs" / format_schema.PAGE).write_text(format_schema.written())
        examples.refresh(Docs(options.root.resolve()))
    docs = Docs(options.root.resolve())
    problems = 0
    for name in options.only or CHECKS:
        found = list(CHECKS[name](docs))
        problems += len(found)
        print(f"{name:14} {len(found) or 'ok'}")
        for problem in found:
            print(f"  {problem}")
    print(_summary(docs))
    return 1 if problems else 0


def _summary(docs: Docs) -> str:
    words = sum(len(document.prose.split()) for document in docs)
    sections = sum(len(document.sections()) for document in docs)
    pages = len(docs.documents)
    return f"{pages} pages, {sections} sections, {words:,} words"


if __name__ == "__main__":
    sys.exit(main())
