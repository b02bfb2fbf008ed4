"""What a model writes, as Discord shows it (A13): its markdown, in which nothing is markup by chance and nobody is called."""

import pytest

from channels.markup.discord import NO_WIDTH, render_parts


def shown(markdown: str) -> str:
    """The only piece's markdown."""
    (piece,) = render_parts(markdown)
    return piece.text


@pytest.mark.parametrize(
    ("markdown", "told"),
    [
        ("**bold** *italic* ~~gone~~ `code`", "**bold** *italic* ~~gone~~ `code`"),
        ("## Two\n#### Four", "## Two\n**Four**"),
        ("[docs](https://a.org/x_(y))", "[docs](https://a.org/x_%28y%29)"),
        ("https://a.org/@everyone", "https://a.org/%40everyone"),
        ("https://a.org/b_c_d.", "https://a.org/b_c_d."),
        ("[https://a.org/x](https://a.org/y)", "https://a.org/x (https://a.org/y)"),
        ("[me](mailto:a@b.org)", "me (mailto:a@b.org)"),
        ("2 * 3, snake_case, a ~ b", "2 \\* 3, snake\\_case, a \\~ b"),
        ("||wait|| but a || b", "||wait|| but a \\|\\| b"),
        ("@everyone @here", f"@{NO_WIDTH}everyone @{NO_WIDTH}here"),
        ("<@123> <@&4> <#5> 1 < 2", f"<{NO_WIDTH}@123> <{NO_WIDTH}@&4> <{NO_WIDTH}#5> 1 < 2"),
        (r"\# no heading", r"\# no heading"),
        (r"1\. no list", r"1\. no list"),
        ("- a\n  - [ ] b\n3. c", "- a\n  - ☐ b\n3. c"),
        ("> said\n>\n> twice", "> said\n> \n> twice"),
        ("```python\na_b <@1>\n```", "```python\na_b <@1>\n```"),
        ("`` a`b ``", "`` a`b ``"),
    ],
)
def test_markdown_becomes_discords(markdown: str, told: str) -> None:
    assert shown(markdown) == told


def test_a_table_becomes_code_for_discord_knows_none() -> None:
    assert shown("|a|b|\n|-|-|\n|1|2|") == "```\na  b\n─  ─\n1  2\n```"


def test_a_long_code_block_is_closed_and_opened_again() -> None:
    told = render_parts("```js\n" + "let a = 1;\n" * 500 + "```")
    assert len(told) == 3
    assert all(
        piece.text.startswith("```js\nlet a") and piece.text.endswith("= 1;\n```") for piece in told
    )


def test_escapes_count_towards_the_limit() -> None:
    assert all(len(piece.text) <= 2000 for piece in render_parts("a*b_" * 2000))
