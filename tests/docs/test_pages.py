"""How a page is read: its blocks, their commands, the files that it lets one write."""

from tests.docs.pages import blocks, commands_of

PAGE = """# A page

Write this to `config.json`:

```json
{"a": 1}
```

Not to `other`:

```sh
first  # a comment

# only a comment
second 'that goes
on' \\
    and on
```

```console
$ shown
what it prints
$ quiet
```

```python
not_a_command()
```
"""


def test_a_block_has_its_place_language_and_text() -> None:
    found = list(blocks(PAGE))
    assert [each.language for each in found] == ["json", "sh", "console", "python"]
    assert found[0].line == 6
    assert found[0].text == '{"a": 1}\n'


def test_a_sentence_before_a_block_names_its_file() -> None:
    assert [each.file for each in blocks(PAGE)] == ["config.json", "", "", ""]


def test_a_command_may_have_many_lines() -> None:
    said = [(each.line, each.text) for each in commands_of("a.md", PAGE)]
    assert said == [
        (12, "first  # a comment"),
        (15, "second 'that goes\non' \\\n    and on"),
        (21, "shown"),
        (23, "quiet"),
    ]


def test_what_a_console_shows_is_what_a_command_prints() -> None:
    found = {each.text: each.output for each in commands_of("a.md", PAGE)}
    assert found["first  # a comment"] is None
    assert found["shown"] == "what it prints\n"
    assert found["quiet"] == ""


def test_what_never_ends_is_a_command_still() -> None:
    assert [each.text for each in commands_of("a.md", "```sh\necho 'open\n```\n")] == ["echo 'open"]


def test_a_block_in_a_list_is_dedented() -> None:
    assert [each.text for each in commands_of("a.md", "1. Do:\n\n   ```sh\n   it\n   ```\n")] == [
        "it"
    ]
