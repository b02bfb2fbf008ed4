"""What a model writes, as Slack shows it (A13): mrkdwn, in which nothing is markup by chance and nobody is called."""

import pytest

from channels.markup.slack import NO_WIDTH, render_parts


def shown(markdown: str) -> str:
    """The only piece's mrkdwn."""
    (piece,) = render_parts(markdown)
    return piece.text


@pytest.mark.parametrize(
    ("markdown", "mrkdwn"),
    [
        ("**bold** *italic* ~~gone~~ `a<b`", "*bold* _italic_ ~gone~ `a&lt;b`"),
        ("***both***", "_*both*_"),
        ("# Over all", "*Over all*"),
        ("[docs](https://a.org/x?a=1&b=2)", "<https://a.org/x?a=1&amp;b=2|docs>"),
        ("https://a.org/b_c_d.", "<https://a.org/b_c_d>."),
        ("[a|b](https://a.org/c|d)", "<https://a.org/c%7Cd|a¦b>"),
        ("> said\n>\n> twice", "> said\n> \n> twice"),
        ("- a\n  1. b", "• a\n  1. b"),
        ("```python\na<b\n```", "```\na&lt;b\n```"),
        ("2 * 3 * 4 snake_case_name", "2 * 3 * 4 snake_case_name"),
        ("<!channel> <@U123> <#C1>", "&lt;!channel&gt; &lt;@U123&gt; &lt;#C1&gt;"),
        ("[<!here>](https://a.org)", "<https://a.org|&lt;!here&gt;>"),
        (r"\*not bold\*", f"*{NO_WIDTH}not bold*"),
        (r"\> no quote", f"{NO_WIDTH}&gt; no quote"),
        ("un**frigging**believable", f"un{NO_WIDTH}*frigging*{NO_WIDTH}believable"),
    ],
)
def test_markdown_becomes_mrkdwn(markdown: str, mrkdwn: str) -> None:
    assert shown(markdown).replace("*_both_*", "_*both*_") == mrkdwn


def test_code_that_holds_a_fence_does_not_end_early() -> None:
    assert shown("````\na\n```\nb\n````").count("```") == 2


def test_a_table_is_a_block_of_code() -> None:
    assert shown("|a|b|\n|-|-|\n|1|2|") == "```\na  b\n─  ─\n1  2\n```"


def test_escapes_count_towards_the_limit() -> None:
    assert all(len(piece.text) <= 3800 for piece in render_parts("<&>" * 3000))


def test_plain_has_no_markup_but_tells_where_links_lead() -> None:
    (piece,) = render_parts("**a** [b](https://c.org) <d>")
    assert piece.plain == "a b (https://c.org) <d>"
