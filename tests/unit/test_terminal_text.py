"""Nothing that a model, a tool or a stranger wrote may steer the terminal, or hide in a question (A6)."""

import pytest

from channels.markup.sanitize import (
    escape_controls,
    escape_invisible,
    find_suspicious,
    shorten_line,
    summarize_call,
)
from daemon.cli.terminal.items import LONG_CHARS, ApprovalQuestion, to_plain_text


@pytest.mark.parametrize(
    "text",
    [
        "\x1b]0;owned\x07",
        "\x1b[2J\x1b[H",
        "a\x08\x08b",
        "\x9b31m",
        "\x00",
        "line\rover it",
        "\x1bP+q\x1b\\",
        "\ud800",
    ],
)
def test_no_control_sequence_of_a_model_reaches_the_terminal(text: str) -> None:
    shown = escape_controls(text)
    assert not any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in shown)
    shown.encode()


def test_all_scripts_emoji_tabs_and_lines_stay_as_they_are() -> None:
    text = "Grüße\tمرحبا 你好\n👩‍👩‍👧 naïve"
    assert escape_controls(text) == text


def test_the_order_of_letters_cannot_be_turned_round() -> None:
    assert escape_controls("\u202etxt.exe\u2066") == "\\u202etxt.exe\\u2066"


def test_colours_of_a_tool_are_dropped_and_line_ends_are_made_plain() -> None:
    assert escape_controls("\x1b[1;31mred\x1b[0m\r\nnext") == "red\nnext"


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [
        ("rm \u202egpj.exe", "rm \\u202egpj.exe"),
        ("a\u200bb", "a\\u200bb"),
        ("a\u2066b", "a\\u2066b"),
        ("a\u00a0b", "a\\xa0b"),
        ("a\u3164b", "a\\u3164b"),
        ("a\U000e0041b", "a\\U000e0041b"),
        ("a\tb", "a\\tb"),
        ("a\x1b[8mb", "a\\x1b[8mb"),
        ("a\u2028b", "a\\u2028b"),
        ("a\ufe0fb", "a\\ufe0fb"),
    ],
)
def test_A6_an_approval_spells_out_what_cannot_be_seen(hidden: str, shown: str) -> None:
    assert escape_invisible(hidden) == shown


def test_A6_a_line_break_in_an_argument_is_spelled_out_and_cannot_look_like_a_field_of_the_question() -> (
    None
):
    question = ApprovalQuestion(
        "t", "3.0", "shell", '{"command": "ls\\neffect: read"}', "destructive"
    )
    assert question.body() == [
        "It may destroy something:",
        "command: ls\\n",
        "    effect: read",
    ]


def test_A6_a_question_names_words_that_mix_alphabets_which_look_alike() -> None:
    [line] = find_suspicious("https://раypal.com/x and paypal.com and Москва")
    assert line.startswith("letters of different alphabets that look alike: раypal.com")
    body = ApprovalQuestion(
        "t", "3.0", "http_request", '{"url": "https://раypal.com"}', "egress"
    ).body()
    assert "раypal.com" in body[-1] and body[-1].startswith("! ")


def test_A6_a_question_too_long_for_one_look_says_so_and_then_shows_everything() -> None:
    question = ApprovalQuestion(
        "t", "3.0", "write_file", '{"text": "' + "x" * LONG_CHARS + 'END"}', "write"
    )
    assert (
        question.is_long
        and "END" not in to_plain_text(question)
        and "v shows them all" in to_plain_text(question)
    )
    whole = ApprovalQuestion("t", "3.0", "write_file", question.arguments, "write", show_all=True)
    assert not whole.is_long and "END" in to_plain_text(whole)


def test_A6_what_is_shown_beside_the_arguments_hides_nothing_either_and_counts_for_the_length() -> (
    None
):
    question = ApprovalQuestion(
        "t",
        "3.0",
        "write_file",
        '{"path": "a"}',
        "write",
        preview="- old\n+ new\u202e",
        place="2 of 3",
    )
    assert question.body() == [
        "It changes something here:",
        "path: a",
        "    - old",
        "    + new\\u202e",
    ]
    assert "2 of 3, write" in to_plain_text(question)
    assert ApprovalQuestion(
        "t", "3.0", "write_file", "{}", "write", preview="x" * LONG_CHARS
    ).is_long


def test_A6_words_of_effect_stand_above_the_exact_command_and_hide_nothing() -> None:
    preview = "runs a command in the sandbox, no network\nit runs:\n- ls\u202e"
    question = ApprovalQuestion(
        "t", "3.0", "shell", '{"command": "ls"}', "destructive", preview=preview
    )
    assert question.body()[:4] == [
        "It runs a command in the sandbox, no network; it may destroy something:",
        "command: ls",
        "    it runs:",
        "    - ls\\u202e",
    ]
    other = ApprovalQuestion("t", "3.0", "mcp_tool", "{}", "egress", preview=preview)
    assert other.body()[0] == "It sends something out:"  # nobody else's preview is our words
    assert "    runs a command in the sandbox, no network" in other.body()


def test_arguments_that_are_no_json_object_stand_as_they_came() -> None:
    assert ApprovalQuestion("t", "3.0", "shell", "{broken", "destructive").body()[1:] == ["{broken"]


def test_a_question_of_a_turn_that_read_outside_text_says_so() -> None:
    assert "outside" in to_plain_text(
        ApprovalQuestion("t", "3.0", "shell", "{}", "destructive", label="untrusted")
    )


def test_a_call_is_told_by_what_it_works_on() -> None:
    assert summarize_call("shell", '{"command": "ls -la"}') == "shell ls -la"
    assert summarize_call("shell", '{"argv": ["grep", "a b", "x"]}') == 'shell grep "a b" x'
    assert summarize_call("read_file", '{"path": "notes.txt"}') == "read_file notes.txt"
    assert summarize_call("current_time", "{}") == "current_time"


def test_one_line_is_one_line_and_no_longer_than_asked_for() -> None:
    assert shorten_line("a\n  b\tc", 20) == "a b c"
    assert len(shorten_line("word " * 100, 20)) <= 20
