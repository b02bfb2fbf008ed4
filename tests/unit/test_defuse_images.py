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
    ],
)
def test_no_image_is_left_in_it(text: str):
    shown = defuse_images(text)
    assert "![" not in shown and "<i" not in shown.casefold() and "<s" not in shown.casefold()


@pytest.mark.parametrize(
    "text",
    [
        "see [the page](https://a.example/x)",
        "```html\n<img src=x>\n```",
        "use `![alt](url)` for it",
        "a < b",
    ],
)
def test_links_and_code_stay(text: str):
    assert defuse_images(text) == text
