"""The engine of the edits, without pyspider."""

from pathlib import Path

import pytest
import sdist
from edits import EDITS
from edits.edit import NOTICE, SCRIPT_NOTICE, Edit, EditError, Span, patch


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text("#!/bin/sh\n# coding: x\none\ntwo\nend\n")
    return tmp_path


def test_an_edit_replaces_every_occurrence_that_it_expects(tree: Path) -> None:
    patch(tree, [Edit("a.py", "e", "!", "why", count=2)])
    assert (tree / "a.py").read_text().endswith("on!\ntwo\n!nd\n")


def test_a_span_replaces_up_to_its_end_and_keeps_that(tree: Path) -> None:
    patch(tree, [Span("a.py", "one", "end", "1\n", "why")])
    assert (tree / "a.py").read_text().endswith("# coding: x\n" + NOTICE + "1\nend\n")


def test_edits_of_one_file_build_on_each_other(tree: Path) -> None:
    patch(tree, [Edit("a.py", "one", "three", "why"), Edit("a.py", "three", "four", "why")])
    assert "four" in (tree / "a.py").read_text()


def test_a_changed_file_says_so_below_its_shebang_and_encoding(tree: Path) -> None:
    patch(tree, [Edit("a.py", "one", "1", "why")])
    assert (tree / "a.py").read_text().splitlines(keepends=True)[2] == NOTICE


def test_a_changed_script_says_so_in_a_comment_of_its_language(tree: Path) -> None:
    (tree / "a.js").write_text("old()\n")
    patch(tree, [Edit("a.js", "old", "new", "why")])
    assert (tree / "a.js").read_text() == f"{SCRIPT_NOTICE}new()\n"
    assert SCRIPT_NOTICE.startswith("// Changed")


def test_line_endings_stay_as_they_are(tree: Path) -> None:
    (tree / "a.py").write_bytes(b"one\r\ntwo\r\n")
    patch(tree, [Edit("a.py", "one", "1", "why")])
    assert (tree / "a.py").read_bytes().endswith(b"1\r\ntwo\r\n")


@pytest.mark.parametrize(
    ("edit", "counts"),
    [
        (Edit("a.py", "absent", "", "the reason"), "expected 1, found 0"),
        (Edit("a.py", "e", "", "the reason"), "expected 1, found 2"),
        (Edit("a.py", "one", "", "the reason", count=2), "expected 2, found 1"),
        (Span("a.py", "e", "end", "", "the reason"), "expected 1, found 2"),
        (Span("a.py", "end", "one", "", "the reason"), "expected 1, found 0"),
        (Edit("b.py", "one", "", "the reason"), "expected 1, found 0"),
    ],
)
def test_an_edit_that_does_not_fit_is_named(tree: Path, edit: Edit | Span, counts: str) -> None:
    with pytest.raises(EditError) as error:
        patch(tree, [edit])
    assert edit.file in str(error.value)
    assert counts in str(error.value)
    assert "the reason" in str(error.value)


def test_no_file_is_changed_when_one_edit_does_not_fit(tree: Path) -> None:
    before = (tree / "a.py").read_text()
    with pytest.raises(EditError):
        patch(tree, [Edit("a.py", "one", "1", "why"), Edit("a.py", "absent", "", "why")])
    assert (tree / "a.py").read_text() == before


def test_a_patched_tree_is_not_patched_again(tree: Path) -> None:
    edits = [Edit("a.py", "one", "1", "why")]
    patch(tree, edits)
    with pytest.raises(EditError):
        patch(tree, edits)


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.why)
def test_every_edit_has_one_line_of_reason_and_a_short_anchor(edit: Edit | Span) -> None:
    anchor = edit.old if isinstance(edit, Edit) else edit.start + edit.end
    assert edit.why
    assert "\n" not in edit.why
    assert len(anchor.splitlines()) <= 5


def test_another_file_than_the_known_release_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyspider-0.3.10.tar.gz").write_bytes(b"something else")
    monkeypatch.setenv("PYSPIDER_SDIST", str(tmp_path / "pyspider-0.3.10.tar.gz"))
    with pytest.raises(sdist.SdistError, match="expected 0148e5db"):
        sdist.unpack(tmp_path)


def test_a_missing_sdist_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPIDER_SDIST", str(tmp_path / "absent.tar.gz"))
    with pytest.raises(sdist.SdistError, match=r"absent\.tar\.gz: no such file"):
        sdist.unpack(tmp_path)
