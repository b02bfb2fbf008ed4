"""The reply of a turn that has read a stranger's text: nothing is loaded when it is shown. Code stays."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from daemon.core.messages import defuse, defuse_images

EVIL = "http://evil.example/CANARY.png"


@pytest.mark.parametrize(
    "text",
    [
        f"So. ![]({EVIL})",
        f"![a][1]\n\n[1]: {EVIL}",
        f"<img src={EVIL}>",
        f"<IMG\nsrc='{EVIL}'>",
        f"<svg><image href='{EVIL}'/></svg>",
        f"a `code` ![]({EVIL}) `code`",
        f"\\`![]({EVIL})`",
        f"abc ```\n![]({EVIL})",
        f"```\n\n![]({EVIL})",
        f"- a\n\n  ```\n![]({EVIL})\n  ```",
        f"a `b\n` ![]({EVIL}) `",
        f"<!--\n```\n-->\n![]({EVIL})\n```",
        f"[a](`) ![]({EVIL}) `",
        f"|a|\n|-|\n| ` | ![]({EVIL}) ` |",
    ],
)
def test_no_image_is_left_in_it_nor_in_what_only_looks_like_code(text: str):
    shown = defuse_images(text)
    assert "![" not in shown and "<i" not in shown.casefold() and "<s" not in shown.casefold()


PIECES = (
    "`", "``", "```", "~~~", "\n", "\n\n", " ", "    ", "- ", "> ", "|", "|-|\n", "\\", "a", "](", ")",
    f"![]({EVIL})", f"<img src={EVIL}>", f"`![]({EVIL})`", "```\n", f"[b]: {EVIL}\n", "![a][b]", "<", "<!--", "-->",
    "[a](", "[c]: ", '"', "# ",
)  # fmt: skip
CLIENTS = [
    MarkdownIt("commonmark", {"html": True}),
    MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]),
]


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
@example(f"[a](`)<img src={EVIL}>`a`")
@example(f"\n~~~![]({EVIL})|\n|-|\n~~~\n")
def test_no_client_loads_an_image_however_code_and_images_are_mixed(text: str):
    for client in CLIENTS:
        assert not re.search(rf"<img[^>]*{EVIL}", client.render(defuse_images(text)))


@pytest.mark.parametrize(
    "text",
    [
        f"```\n<img src={EVIL}>\n```",
        f"So:\n\n~~~~ markdown\n![a]({EVIL})\n\n```\n~~~\n~~~~\n\nor `![a]({EVIL})`",
        f"- `![a]({EVIL})` and ``![`a`]({EVIL})``, see [the page](https://a.example/x)",
    ],
)
def test_an_image_in_code_stays(text: str):
    assert defuse_images(text) == text
    assert defuse_images(f"{text}\n\n![b]({EVIL})") == f"{text}\n\n[image: b]({EVIL})"


@pytest.mark.parametrize("mark", ["```", "~~~~", ":::", "- ```", "> ~~~", "1. ```", "a `b\n```"])
@pytest.mark.parametrize("language", ["mermaid", " mermaid theme=x", "{.plantuml}", "a~b"])
def test_no_client_is_told_to_draw_a_fence_that_may_name_a_place(mark: str, language: str):
    """A drawing loads the pictures of its nodes."""
    picture = f'A@{{ img: "{EVIL}" }}'
    assert defuse(f"So:\n\n{mark}{language}\n{picture}\n{mark}") == (
        f"So:\n\n{mark}\n{picture}\n{mark}"
    )


@pytest.mark.parametrize(
    "address", ["http:a.example", "//a.example", "\\\\a", "#47;#47;a", "&#47;a"]
)
def test_an_address_is_one_however_it_is_written(address: str):
    assert "mermaid" not in defuse(f"```mermaid\n{address}\n```")


@pytest.mark.parametrize(
    "text", ["```mermaid\nA[a] --> B[b]\n```", "so ```a/b``` or ```c``` it is"]
)
def test_a_drawing_without_a_place_and_other_text_stay(text: str):
    assert defuse(text) == text


@pytest.mark.parametrize(
    "before", ["It costs $5.", "A Vec<u8> is it.", "Use `a | b`.", "1. Do this:", "[docs](https://a.example)"]
)
@pytest.mark.parametrize("code", ["let v = vec![1, 2];", "if (!['a'].includes(x)) return;", "echo ![x]"])
def test_what_begins_like_an_image_and_has_no_address_stays_wherever_it_stands(before: str, code: str):
    for text in (f"{before}\n\n```\n{code}\n```\n", f"{before}\n\n   {code}"):
        assert defuse_images(text) == text
    more = f"{before}\n\n{code}\n\n![b]({EVIL})"
    assert f"[image: b]({EVIL})" in defuse_images(more)


def test_no_style_or_source_is_left_in_any_element():
    for text in (f"<div style='background:url({EVIL})'>", f"<td\nbackground={EVIL}>"):
        assert defuse_images(text).startswith("&lt;")


@pytest.mark.parametrize(
    "text",
    [
        "see [the page](https://a.example/x)",
        '<a href="https://a.example/x">the page</a>',
        "```html\n<b>so</b>\n```",
        "a < b",
    ],
)
def test_links_and_other_code_stay(text: str):
    assert defuse_images(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "```\ncode\n```\r![x](http://evil/a)\n```\n",
        "`a\r\r![x](http://evil)`b",
        "~~~\na\n~~~\r<img src=x>\n~~~\n",
    ],
)
def test_a_carriage_return_ends_code_as_it_does_for_clients(text: str) -> None:
    shown = defuse_images(text)
    assert "![" not in shown and "<img" not in shown
