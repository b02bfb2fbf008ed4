"""The reply of a turn that has read a stranger's text: nothing is loaded when it is shown."""

import pytest

from daemon.agent.final_messages import defuse_images

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
        f"```\n<img src={EVIL}>\n```",
    ],
)
def test_no_image_is_left_in_it_nor_in_what_looks_like_code(text: str):
    shown = defuse_images(text)
    assert "![" not in shown and "<i" not in shown.casefold() and "<s" not in shown.casefold()


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
