"""Files that belong to code."""

from pathlib import Path

from servo import file_relative_path


def test_a_file_next_to_the_code_is_named() -> None:
    here = Path(__file__)
    assert file_relative_path(__file__, here.name) == str(here)
    assert file_relative_path("/a/b.py", "sql/query.sql") == "/a/sql/query.sql"
