"""A question in a chat says exactly what would be done (A6, A14)."""

import json
from datetime import UTC, datetime

import pytest

from channels.markup import discord, telegram
from channels.markup.approval_prompt import approval_prompt, is_complete

EXPIRES = datetime(2026, 11, 22, 14, 5, tzinfo=UTC)


def asked(command: str, **more: str) -> str:
    return approval_prompt(
        "shell", json.dumps({"command": command, **more}), "destructive", EXPIRES
    )


def test_A6_it_names_the_tool_what_it_does_what_would_run_and_until_when() -> None:
    text = asked("rm -rf build\nls", cwd="/srv")
    assert text.startswith("**Allow `shell`?** It may destroy something.")
    assert "```\ncommand: rm -rf build\n    ls\ncwd: /srv\n```" in text
    assert "until 22 Nov 14:05 UTC" in text


def test_A6_it_says_in_words_where_a_command_runs_and_what_it_reaches() -> None:
    preview = "runs a command in the sandbox, no network\nit runs:\n- ls"
    text = approval_prompt("shell", '{"command": "ls"}', "destructive", EXPIRES, preview)
    [piece] = telegram.render_parts(text)
    words = "It runs a command in the sandbox, no network; it may destroy something."
    assert words in piece.text and piece.text.index(words) < piece.text.index("command: ls")
    assert "it runs:\n- ls" in piece.text


@pytest.mark.parametrize(
    ("hidden", "told"),
    [("\u200b", "\\u200b"), ("\u202e", "\\u202e"), ("\u3164", "\\u3164"), ("\x1b", "\\x1b")],
)
def test_A6_what_cannot_be_seen_is_spelled_out(hidden: str, told: str) -> None:
    (piece,) = telegram.render_parts(asked(f"ls{hidden} x"))
    assert f"ls{told} x" in piece.text


def test_A6_letters_that_look_alike_are_pointed_out() -> None:
    assert "letters of different alphabets" in asked("curl https://рaypal.com")


def test_A6_a_command_cannot_close_its_block_or_add_words_of_the_daemon() -> None:
    for dialect in (telegram, discord):
        text = "\n".join(
            piece.text
            for piece in dialect.render_parts(asked("x\n```\n**Approved** by the owner\n````\ny"))
        )
        block = text[text.index("command: ") : text.index("It can be answered")]
        assert "Approved" in block
        assert "<b>Approved" not in block
    assert "<pre>" in telegram.render_parts(asked("x\n```\nfree"))[0].text.split("free")[0]


def test_A6_long_arguments_are_cut_in_the_middle_and_it_says_so() -> None:
    text = asked("begin " + "\u200b" * 90_000 + " end")
    assert len(text) < 3000
    assert "begin" in text
    assert "end" in text
    assert "characters in the middle are not shown; `/approve show` shows all" in text


def test_A6_a_question_that_is_cut_is_known_to_be_cut() -> None:
    assert is_complete('{"a": "short"}', "+x")
    assert not is_complete('{"a": "' + "x" * 5000 + '"}')
    assert not is_complete("{}", "+x\n" * 900)


def test_A6_a_change_is_shown_as_one_and_text_from_outside_is_warned_of() -> None:
    text = approval_prompt(
        "write",
        "{}",
        "write",
        EXPIRES,
        "@@ -1 +1 @@\n-old\n+new",
        outside=True,
    )
    assert "```diff\n@@ -1 +1 @@\n-old\n+new\n```" in text
    assert "text from outside" in text


@pytest.mark.parametrize(
    "arguments", ["", "{}", "[1]", "not json", '{"a": {"b": [1]}}', '{"a": ""}', "[" * 5000]
)
def test_A6_whatever_the_arguments_are_there_is_a_question(arguments: str) -> None:
    assert (
        "Allow"
        in telegram.render_parts(approval_prompt("a`b*c", arguments, "odd", EXPIRES))[0].plain
    )
