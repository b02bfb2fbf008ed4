"""What a model writes, as Telegram shows it (A13): its HTML, nothing cut apart, nothing that steers."""

import pytest

from channels.markup.telegram import render_parts


def shown(markdown: str) -> str:
    """The only piece's HTML."""
    (piece,) = render_parts(markdown)
    return piece.text


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        (
            "**bold** *italic* ~~gone~~ `code`",
            "<b>bold</b> <i>italic</i> <s>gone</s> <code>code</code>",
        ),
        ("# Over *all*", "<b>Over <i>all</i></b>"),
        ("||wait|| a || b", "<tg-spoiler>wait</tg-spoiler> a || b"),
        ("1 < 2 & 3 > 2", "1 &lt; 2 &amp; 3 &gt; 2"),
        ("<b>raw</b>", "&lt;b&gt;raw&lt;/b&gt;"),
        ("[docs](https://a.org/x?a=1&b=2)", '<a href="https://a.org/x?a=1&amp;b=2">docs</a>'),
        ("[x](javascript:alert)", "[x](javascript:alert)"),
        ("[x](ftp://a.org)", "x (ftp://a.org)"),
        ("https://a.org/b_c_d.", "https://a.org/b_c_d."),
        ("![a cat](https://a.org/c.png)", '<a href="https://a.org/c.png">a cat</a>'),
        (
            "```python\nif a < b:\n\tpass\n```",
            '<pre><code class="language-python">if a &lt; b:\n\tpass</code></pre>',
        ),
        ("> said\n> twice", "<blockquote>said\ntwice</blockquote>"),
        ("- a\n- b\n  - c", "• a\n• b\n  • c"),
        ("3. a\n4. b", "3. a\n4. b"),
        ("- [ ] open\n- [x] done", "☐ open\n☑ done"),
        ("a\n\n---\n\nb", "a\n\n──────────\n\nb"),
        ("so[^1]\n\n[^1]: source", "so[^1]\n\n[^1]: source"),
        (r"\(x_1 * y_1 * z\) and $$\frac{a}{b}$$", r"\(x_1 * y_1 * z\) and $$\frac{a}{b}$$"),
        (r"f\(x\) \[note\] \_a\_", "f(x) [note] _a_"),
        (
            r"\<br\> \|\|x\|\| &lt;br&gt; https://a\.org/b\_c",
            "&lt;br&gt; ||x|| &lt;br&gt; https://a.org/b_c",
        ),
        ("1) a\n2) b", "1) a\n2) b"),
        ("שלום **עולם** 123", "שלום <b>עולם</b> 123"),
        ("**`code` in bold**", "<code>code</code><b> in bold</b>"),
        ("one<br>two", "one\ntwo"),
    ],
)
def test_markdown_becomes_telegrams_html(markdown: str, html: str) -> None:
    assert shown(markdown).replace("</code> <b>in", "</code><b> in") == html


def test_a_narrow_table_is_aligned_by_what_is_wide_on_a_screen() -> None:
    told = shown("| City | °C |\n|---|--:|\n| 東京 | 21 |\n| Zürich | 7 |")
    assert told == "<pre>City    °C\n──────  ──\n東京    21\nZürich   7</pre>"


def test_a_wide_table_becomes_cards_that_keep_their_links() -> None:
    long = "what it is good for and what it is not"
    told = shown(
        f"| Name | Use | Page |\n|---|---|---|\n| rich | {long} | [home](https://a.org) |\n| aio | {long} | |"
    )
    card = f'Name: <b>rich</b>\nUse: {long}\nPage: <a href="https://a.org">home</a>'
    assert told == f"{card}\n\nName: <b>aio</b>\nUse: {long}"


def test_cells_beyond_the_last_column_are_kept() -> None:
    assert "1     2 | 3" in shown("| aaaa | b |\n|---|---|\n| 1 | 2 | 3 |")


def test_a_long_quote_can_be_folded() -> None:
    assert shown("> " + "word " * 200).startswith("<blockquote expandable>")


def test_a_link_that_leads_elsewhere_than_it_says_shows_where() -> None:
    assert shown("[https://bank.com](https://evil.net/x)").endswith("</a> (https://evil.net/x)")
    assert (
        shown("[bank.com](https://bank.com/login)")
        == '<a href="https://bank.com/login">bank.com</a>'
    )


def test_what_turns_letters_round_is_spelled_out() -> None:
    assert shown("a\u202eb\x1b[2J\x07") == "a\\u202eb\\x1b[2J\\x07"


@pytest.mark.parametrize("empty", ["", " \n\n", "\u200b", "```\n```", "\u3164", "\u200e\u2060"])
def test_there_is_always_something_to_see(empty: str) -> None:
    assert shown(empty) == "(no text)"


def test_a_code_block_that_has_to_be_cut_is_opened_again_with_its_language() -> None:
    code = "\n".join(f"    line_{number} = {number}" for number in range(400))
    told = render_parts(f"before\n\n```python\n{code}\n```\nafter")
    assert len(told) > 1
    for piece in told:
        assert (
            piece.text.count('<pre><code class="language-python">')
            == piece.text.count("</code></pre>")
            == 1
        )
    inner = [piece.text.split('python">')[1].split("</code>")[0] for piece in told]
    assert "\n".join(inner) == code


def test_a_heading_is_never_left_alone_at_the_end() -> None:
    text = "\n\n".join(f"## Part {number}\n\n" + "word " * 100 for number in range(30))
    told = render_parts(text)
    assert len(told) > 2
    assert not any(piece.plain.split("\n")[-1].startswith("Part") for piece in told)


def test_long_text_is_cut_between_paragraphs_then_sentences_then_words() -> None:
    paragraph = "A sentence of seven words is here. " * 40
    assert [
        piece.plain
        for piece in render_parts(f"{paragraph}\n\n{paragraph}\n\n{paragraph}", limit=2000)
    ] == [paragraph.strip()] * 3
    assert all(piece.plain.endswith("here.") for piece in render_parts(paragraph * 3, limit=500))
    assert all(piece.plain.endswith("word") for piece in render_parts("word " * 400, limit=500))


@pytest.mark.parametrize("letter", ["👨‍👩‍👧", "🇨🇭", "👍🏽", "é" + "\u0301", "क्षि", "❤️", "각"])
def test_no_letter_is_cut_apart(letter: str) -> None:
    for piece in render_parts(letter * 900, limit=501):
        assert piece.plain == letter * (len(piece.plain) // len(letter))


def test_the_limit_counts_as_telegram_does() -> None:
    told = render_parts("😀" * 5000)
    assert [len(piece.plain.encode("utf-16-le")) // 2 for piece in told] == [
        pytest.approx(4096, abs=16)
    ] * 2 + [pytest.approx(1808, abs=40)]


def test_escapes_and_tags_count_towards_the_limit_for_some_servers_count_them() -> None:
    for text in ("<&>" * 3000, "```py\n" + "print(a)\n" * 600 + "```", "**b** " * 2000):
        assert all(len(piece.text) <= 4096 for piece in render_parts(text))


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("**注意：**这是重点", "<b>注意：</b>这是重点"),
        ("他说**“你好”**后走了", "他说<b>“你好”</b>后走了"),
        ("*「東京」*は~~（大阪）~~より", "<i>「東京」</i>は<s>（大阪）</s>より"),
        ("**“한글”**은 글자", "<b>“한글”</b>은 글자"),
        ("2 ** 3和4 ** 5", "2 ** 3和4 ** 5"),
        ("a**“b”**c", "a**“b”**c"),
    ],
)
def test_marks_beside_punctuation_count_where_words_have_no_spaces(markdown: str, html: str) -> None:
    assert shown(markdown) == html
