"""What finished lines look like, and that they fit."""

import io

import pytest
from rich.cells import cell_len

from daemon.cli.terminal.items import (
    Activity,
    ApprovalQuestion,
    AssistantText,
    CorrectedReply,
    DroppedDraft,
    ErrorLine,
    ScreenItem,
    StatusNote,
    SubagentLine,
    ToolLine,
    UserText,
)
from daemon.cli.terminal.markdown import create_console, render_draft
from daemon.cli.terminal.screen import render_item
from daemon.cli.terminal.status_area import StatusArea, cut_to_width

CODE = "\n\n```python\nprint('" + "x" * 90 + "')\n```\n"
LONG = "# Title\n\nSome **bold** words and `code` that go on for a good while, " * 3 + CODE
TABLE = "| name | what it is for and why it is here |\n|---|---|\n| alpha | the first of all the letters there are |\n"
ITEMS: list[ScreenItem] = [
    UserText("a question " * 10),
    AssistantText(LONG + TABLE),
    DroppedDraft("draft " * 20),
    CorrectedReply("correct " * 20),
    StatusNote("note " * 20),
    ToolLine("shell " + "ls " * 50, "exit 2: " + "no such file " * 20),
    SubagentLine("scout", "look for it " * 20),
    SubagentLine("scout" * 30, "look for it " * 20, "max iterations", "answer " * 20),
    ErrorLine("trouble " * 20),
    ApprovalQuestion(
        "t",
        "budget.1",
        "extend_budget",
        "{}",
        "write",
        title="The money is used up. " * 5 + "Go on?",
        agent="a" * 99,
    ),
    ApprovalQuestion(
        "t",
        "review.3",
        "review_answer",
        "{}",
        "write",
        title="Is this answer all right?",
        text="answer " * 90,
    ),
    ApprovalQuestion(
        "t",
        "3.0",
        "shell",
        '{"command": "' + "ls " * 50 + '"}',
        "destructive",
        until="lapses in 5 min",
    ),
]


def screen(item: ScreenItem, width: int) -> str:
    console, page = create_console(width), io.StringIO()
    console.file = page
    console.print(render_item(item))
    return page.getvalue()


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("item", ITEMS, ids=lambda item: type(item).__name__)
def test_every_line_fits_narrow_and_wide_terminals(item: ScreenItem, width: int) -> None:
    assert max(cell_len(line) for line in screen(item, width).split("\n")) <= width


def test_markdown_is_rendered_and_its_marks_are_gone() -> None:
    shown = screen(AssistantText("# Head\n\n**bold** and `code`\n\n- one\n- two"), 80)
    assert "Head" in shown and "• one" in shown and "**" not in shown and "`" not in shown


def test_what_looks_like_html_is_text_and_is_not_swallowed() -> None:
    assert "List<int> and <stdin>" in screen(AssistantText("List<int> and <stdin>"), 80)


def test_a_line_break_of_the_model_breaks_the_line() -> None:
    assert [
        line.strip()
        for line in screen(AssistantText("roses are red\nviolets are blue"), 80).split("\n")[:2]
    ] == [
        "roses are red",
        "violets are blue",
    ]


def test_the_address_of_a_link_is_seen_and_is_no_hidden_link() -> None:
    shown = screen(AssistantText("[bank](http://evil.example)"), 80)
    assert "http://evil.example" in shown and "\x1b]8" not in shown


def test_square_brackets_are_no_markup_of_ours() -> None:
    assert "[red]x[/red]" in screen(StatusNote("[red]x[/red]"), 80)


def test_a_correction_is_called_one() -> None:
    assert screen(CorrectedReply("It is 4."), 80).startswith("Correction:")


def test_A6_an_approval_shows_tool_effect_arguments_choices_and_when_it_lapses() -> None:
    shown = screen(
        ApprovalQuestion(
            "t",
            "3.0",
            "shell",
            '{"command": "rm \\u202ex"}',
            "destructive",
            until="lapses in 5 min",
        ),
        80,
    )
    for part in (
        "allow shell?",
        "destructive",
        "lapses in 5 min",
        "command: rm \\u202ex",
        "[y]es once",
        "[a]lways",
    ):
        assert part in shown


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_tool_call_is_one_line_however_narrow_and_its_outcome_is_seen(width: int) -> None:
    shown = screen(ToolLine("shell " + "ls " * 90, "3 lines"), width).rstrip("\n")
    assert "\n" not in shown and shown.rstrip().endswith("→ 3 lines")


def test_no_control_character_comes_through_any_item() -> None:
    for kind in (UserText, AssistantText, DroppedDraft, CorrectedReply, StatusNote, ErrorLine):
        assert "\x1b]0;" not in screen(kind("\x1b]0;owned\x07text"), 80)


def test_the_moving_part_never_outgrows_the_screen_and_shows_the_end_of_a_long_draft() -> None:
    status = StatusArea(
        {"t": Activity(doing="writing", draft="\n".join(f"line {n}" for n in range(100)))},
        hint="h" * 200,
    )
    lines = status.lines(40, 10, now=0.0)
    assert len(lines) == 10 and all(cell_len(text) <= 40 for _, text in lines)
    assert any("line 99" in text for _, text in lines) and any(
        "writing" in text for _, text in lines
    )


def test_the_spinner_turns_and_says_how_long_after_a_while() -> None:
    status = StatusArea({"t": Activity(doing="thinking", since=0.0)})
    assert status.lines(80, 10, 0.0) != status.lines(80, 10, 0.15)
    assert status.lines(80, 10, 12.3)[0][1].endswith("thinking · 12 s")


def test_wide_letters_are_counted_as_they_are_drawn() -> None:
    assert all(
        cell_len(line) <= 10 for line in render_draft("你好世界你好世界 and words that wrap", 10)
    )
    assert cell_len(cut_to_width("你好世界你好世界", 7)) <= 7


def test_a_draft_wraps_between_words() -> None:
    assert render_draft("one two three", 9) == ["one two", "three"]


def test_F2_a_question_of_the_daemon_is_read_whole_in_the_panel_and_is_answered_yes_or_no() -> None:
    title = "The turn's money is used up ($2.00 of $2). Go on with $2 more?"
    shown = screen(
        ApprovalQuestion(
            "t",
            "budget.1",
            "extend_budget",
            '{"of": "usd"}',
            "write",
            until="lapses in 5 min",
            title=title,
        ),
        60,
    )
    words = " ".join(shown.replace("│", "").split())
    assert title in words and "[y]es · [n]o" in words and "lapses in 5 min" in words
    assert "always" not in words and "write" not in words and "usd" not in words


def test_E10_a_review_shows_the_whole_answer_however_long_and_then_asks() -> None:
    text = "line\n" * 900 + "the last line"
    shown = screen(
        ApprovalQuestion(
            "t",
            "review.3",
            "review_answer",
            "{}",
            "write",
            title="Is this answer all right?",
            text=text,
        ),
        80,
    )
    assert shown.count("line") == 901 and "or say what to change" in shown.splitlines()[-2]


def test_A17_a_question_of_a_sub_agent_says_whose_it_is() -> None:
    assert "agent scout: allow shell?" in screen(
        ApprovalQuestion("c", "3.0", "shell", "{}", "destructive", agent="scout"), 80
    )


def test_E3_a_plan_is_a_check_list_above_the_spinner_that_goes_when_all_is_done() -> None:
    plan = (("read", "done"), ("write", "doing"), ("check", "open"))
    lines = [
        text
        for _, text in StatusArea({"t": Activity(doing="thinking", plan=plan)}).lines(80, 10, 0.0)
    ]
    assert lines[:5] == [
        "╭ plan: 1 of 3 done ╮",
        "│ [x] read          │",
        "│ [>] write         │",
        "│ [ ] check         │",
        "╰───────────────────╯",
    ]
    assert "thinking" in lines[5]
    assert (
        len(
            StatusArea({"t": Activity(doing="thinking", plan=(("read", "done"),))}).lines(
                80, 10, 0.0
            )
        )
        == 1
    )


def test_E3_of_a_long_plan_what_is_at_hand_is_seen() -> None:
    plan = tuple(
        (f"step {n}", "done" if n < 12 else "doing" if n == 12 else "open") for n in range(25)
    )
    lines = [
        text for _, text in StatusArea({"t": Activity(doing="x", plan=plan)}).lines(80, 30, 0.0)
    ]
    assert (
        "… 11 done" in lines[1]
        and "[>] step 12" in lines[3]
        and "… 7 more" in lines[9]
        and len(lines) == 12
    )
