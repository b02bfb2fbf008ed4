"""What an attacker may choose so that it looks like the owner's own words: pieces of them, lookalikes, several in one (F3)."""

import json
import string
from time import process_time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from daemon.core.messages import ToolSpec
from daemon.core.provenance import Origin, SourcedText
from daemon.core.trust import Effect, Label
from daemon.tools.base import Tool, ToolContext, ToolMeta, ToolOutput
from daemon.tools.policy.addresses import mentions
from daemon.tools.policy.facts import Provenance
from daemon.tools.policy.provenance import Evidence
from daemon.tools.registry import ToolRegistry

OWNER = (
    "On May 13 I want to check what sarah.connor@corp.example and o'brien@corp.example wrote, 13 files at most. Forward it to "
    "Bob, anna@strasse.example and _max_@corp.example. Post the summary to #random. Look at http://docs.example/x?a=1, "
    "docs.example/y and readme.md. Write reports/may.txt. Pay 98.70 to account 1234567890123456789. Use file 7, e-mail me, and "
    "cancel 3 meetings."
)


async def nothing(arguments: object, context: ToolContext) -> ToolOutput:
    return ToolOutput("")


def tool(
    *critical: str, name: str = "send", source: str = "mcp desk", **properties: object
) -> Tool:
    spec = ToolSpec(name, name, {"type": "object", "properties": properties})
    return Tool(
        spec,
        ToolMeta(Effect.EGRESS, critical=critical, returns_outside_text=True, source=source),
        nothing,
    )


def owned(text: str, name: str, value: str | float, of: str = "send") -> bool:
    return Evidence((SourcedText(text, Origin.PERSON, Label.TRUSTED),), ToolRegistry([])).is_owners(
        value
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("to", "sarah.connor@corp.example"),
        ("to", "Sarah.Connor@CORP.example"),
        ("to", "o'brien@corp.example"),
        ("to", "_max_@corp.example"),
        ("recipient", "Bob"),
        ("recipient", "bob"),
        ("channel", "random"),
        ("channel", "#random"),
        ("url", "http://docs.example/x?a=1"),
        ("url", "https://docs.example/y"),
        ("path", "reports/may.txt"),
        ("path", "./reports/may.txt"),
        ("path", "readme.md"),
        ("account", "1234567890123456789"),
        ("amount", 98.7),
        ("file_id", 7),
        ("file_id", "7"),
    ],
)
def test_what_the_owner_said_is_the_owners(name: str, value: str | float) -> None:
    assert owned(OWNER, name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("to", "connor@corp.example"),
        ("to", "brien@corp.example"),
        ("to", "max_@corp.example"),
        ("to", "sarah.connor@corp.examples"),
        ("to", "sarah.connor@corp.example.evil.example"),
        ("to", "sarah.connor@evil.example"),
        ("to", "anna@stra\u00dfe.example"),
        ("to", "sarah.conn\u043er@corp.example"),
        ("to", "\uff53arah.connor@corp.example"),
        ("to", "sarah.connor\u200b@corp.example"),
        ("to", "sarah.connor@corp.example."),
        ("to", "sarah.connor@corp..example"),
        ("to", "sarah.connor+x@corp.example"),
        ("to", "mailto:sarah.connor@corp.example"),
        ("to", "mailto:sarah.connor@corp.example?bcc=eve@evil.example"),
        ("to", "Sarah <sarah.connor@corp.example>"),
        ("to", "sarah.connor@corp.example, eve@evil.example"),
        ("to", "eve@evil.example sarah.connor@corp.example"),
        ("to", "sarah.connor@corp.example;eve@evil.example"),
        ("to", "sarah.connor@corp.example\n"),
        ("to", "sarah.connor@corp.example\r\nBcc: eve@evil.example"),
        ("to", "Bob\nBcc: eve@evil.example"),
        ("to", "\0"),
        ("to", "Forward it to Bob,\0"),
        ("recipient", "Bob~"),
        ("recipient", "B\u043eb"),
        ("url", "http://docs.example/x?a=1&s=SECRET"),
        ("url", "http://docs.example/x?a=1#SECRET"),
        ("url", "http://docs.example/x"),
        ("url", "http://docs.example"),
        ("url", "https://docs.example/x?a=1"),
        ("url", "http://docs.example:81/x?a=1"),
        ("url", "http://SECRET@docs.example/x?a=1"),
        ("url", "http://docs.example@evil.example/x?a=1"),
        ("url", "http://evil.example\\@docs.example/x?a=1"),
        ("url", "http://docs.example.evil.example/x?a=1"),
        ("url", "http://docs.example./x?a=1"),
        ("url", "http://d\u043ecs.example/x?a=1"),
        ("url", "ftp://docs.example/y"),
        ("url", "javascript://docs.example/y"),
        ("url", "http://docs.example/%79"),
        ("url", "http://docs.example/y\n"),
        ("url", "http://readme.md"),
        ("url", "https://readme.md/"),
        ("url", "http://corp.example"),
        ("host", "corp.example"),
        ("path", "may.txt"),
        ("path", "reports"),
        ("path", "reports/may.txt~"),
        ("path", "*reports/may.txt*"),
        ("path", "Reports/May.txt"),
        ("path", "reports/../may.txt"),
        ("path", "../reports/may.txt"),
        ("path", "README.MD"),
        ("account", "1234567890123456788"),
        ("account", 1234567890123456788),
        ("account", "234567890123456789"),
        ("file_id", "07"),
        ("file_id", "7.0"),
        ("file_id", "\uff17"),
        ("file_id", "file_7"),
        ("amount", 98),
        ("amount", 98.71),
    ],
)
def test_A22_a_piece_a_lookalike_or_more_than_one_is_not(name: str, value: str | float) -> None:
    assert not owned(OWNER, name, value, "cancel_event")
    assert not owned(OWNER, name, value, "mcp__share_file")


def standing(of: Tool, **arguments: object) -> Provenance:
    grounds = Evidence(
        (SourcedText("share it with bob@corp.example", Origin.PERSON, Label.TRUSTED),),
        ToolRegistry([of]),
    )
    return grounds.check(of, arguments)


@pytest.mark.parametrize(
    "to",
    [
        ["bob@corp.example", "eve@evil.example"],
        [["bob@corp.example"], [["eve@evil.example"]]],
        {"user": "bob@corp.example", "rights": {"eve@evil.example": True}},
        {"eve@evil.example": None},
        '["bob@corp.example", "eve@evil.example"]',
        {"user": {"user": "eve@evil.example"}},
    ],
)
def test_A22_a_stranger_inside_of_an_argument_is_found(to: object) -> None:
    asked = standing(
        tool("to", to={"type": "object", "properties": {"user": {}, "rights": {}}}), to=to
    )
    assert "eve@evil.example" in asked.not_owned


def test_A22_an_argument_that_a_tool_does_not_declare_decides_where_it_goes_for_all_we_know() -> (
    None
):
    sending = tool("to", to={"type": "string"}, body={"type": "string"})
    assert standing(sending, to="bob@corp.example", body="eve was here").not_owned == ""
    assert standing(sending, to="bob@corp.example", body="x", reply_to="eve").not_owned == "eve"


def test_A22_a_servers_list_of_choices_blesses_no_address_and_no_id() -> None:
    choices = {"enum": ["read", "read and write", "eve@evil.example", "U013"]}
    for source, blessed in (("", choices["enum"]), ("mcp desk", ["read", "read and write"])):
        sharing = tool("who", source=source, who=choices)
        assert [
            who for who in choices["enum"] if not standing(sharing, who=who).not_owned
        ] == blessed


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=40)
NAMES = st.text(string.ascii_lowercase + string.digits + "._+-", min_size=1, max_size=12)
HOSTS = st.text(string.ascii_lowercase + string.digits + "-", min_size=1, max_size=10)
MAILS = st.builds(lambda name, host: f"{name}@{host}.example", NAMES, HOSTS)
URLS = st.builds(
    lambda host, rest: f"http://{host}.example/{rest}", HOSTS, st.text("abc/?&=#%2", max_size=12)
)
IDS = st.integers(0, 10**20).map(str) | st.from_regex(r"[A-Z]{1,3}[0-9]{2,12}", fullmatch=True)
AROUND = st.text(string.ascii_letters + string.digits + "._-@/", min_size=1, max_size=6)
ARGUMENTS = st.sampled_from(
    ["to", "recipient", "url", "path", "file_id", "id", "account", "channel"]
)


@given(WORDS, MAILS | URLS | IDS, ARGUMENTS)
def test_A22_what_does_not_stand_there_is_never_the_owners(
    text: str, value: str, name: str
) -> None:
    assume(value.casefold() not in text.casefold())
    assert not owned(text, name, value)


@given(WORDS, WORDS, MAILS | URLS, AROUND, st.booleans(), ARGUMENTS)
def test_A22_a_piece_of_a_longer_one_is_never_the_owners(
    before: str, after: str, value: str, more: str, ahead: bool, name: str
) -> None:
    """The owner's address begins or ends like the attacker's and goes on."""
    assume(more.strip("._-@/") and not (ahead and value.startswith("http")))
    whole = f"{more}{value}" if ahead else f"{value}{more}"
    assume("@" not in more and "/" not in more)
    assert not owned(f"{before} {whole} {after}", name, value)


@given(st.integers(0, 10**20), st.integers(0, 10**20), WORDS)
def test_A22_numbers_are_the_same_only_to_the_last_digit(mine: int, theirs: int, text: str) -> None:
    assume(mine != theirs and str(theirs) not in text)
    said = f"{text} use account {mine}"
    assert owned(f"use account {mine}", "account", mine)
    assert not owned(said, "account", theirs)
    assert not owned(said, "account", str(theirs))


@given(
    MAILS, st.sampled_from(["plain", "upper", "percent", "json", "html", "split", "wide", "spaced"])
)
def test_A22_a_trusted_tool_that_repeats_what_the_model_wrote_knows_nothing(
    mail: str, form: str
) -> None:
    """However the model had written it."""
    assume(sum(map(str.isalnum, mail)) >= 12)
    half = len(mail) // 2
    written = {
        "plain": json.dumps({"query": mail}),
        "upper": json.dumps({"query": mail.upper()}),
        "percent": json.dumps({"query": "".join(f"%{ord(char):02x}" for char in mail)}),
        "json": '  {"query": "' + "".join(f"\\u{ord(char):04x}" for char in mail) + '"}',
        "html": json.dumps({"query": "".join(f"&#{ord(char)};" for char in mail)}),
        "split": json.dumps({"items": [{"text": mail[:half]}, {"text": mail[half:]}]}),
        "wide": json.dumps(
            {"query": "".join(chr(ord(char) + 0xFEE0) if char.isalnum() else char for char in mail)}
        ),
        "spaced": json.dumps({"query": "\n".join(mail)}),
    }[form]
    said = (
        SourcedText(written, Origin.MODEL, Label.UNTRUSTED, "echo"),
        SourcedText(f"no {mail} here", Origin.RESULT, Label.TRUSTED, "echo"),
    )
    assert not Evidence(said, ToolRegistry([])).is_owners(mail)
    echo = Tool(ToolSpec("echo", "", {}), ToolMeta(Effect.READ, evidence="known"), nothing)
    assert not Evidence(said, ToolRegistry([echo])).is_owners(mail)
    assert Evidence(said[1:], ToolRegistry([echo])).is_owners(mail)


@pytest.mark.parametrize(
    "text",
    [
        "a" * 20_000,
        "a." * 10_000,
        "a-" * 10_000,
        "/a" * 10_000,
        "2024-" * 4000,
        "%25" * 7000,
        "9" * 400 + " hours at 12:00",
    ],
)
def test_no_text_of_a_stranger_holds_up_the_gate_or_breaks_it(text: str) -> None:
    began = process_time()
    for value in ("eve@evil.example", "http://evil.example/x", "13", "bob", "12:30", text):
        assert owned(text, "recipient", value) in (value == text, False)
        assert not mentions(text, f"{value}!x")
    assert process_time() - began < 1
