"""Argument provenance (trust.md): whole values, as what they are; never a piece of another one."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.core.messages import ToolSpec
from daemon.core.provenance import Origin, SourcedText
from daemon.core.trust import Effect, Label
from daemon.tools.base import Tool, ToolContext, ToolMeta, ToolOutput
from daemon.tools.policy.addresses import stands_in
from daemon.tools.policy.provenance import Evidence
from daemon.tools.registry import ToolRegistry

PROMPT = (
    "Please mail 'Summary of May' to sarah.connor@example.com and Bob, post it to the general channel and to #random, "
    "delete file 13, read www.news.example/today?a=1 (and http://docs.example.), pay $98.70 to GB29NWBK60161331926819, "
    "and book 2024-05-19 from 12:00 for one hour, or on June 3rd at 4pm. See reports/may.txt."
)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("recipients", "sarah.connor@example.com"),
        ("recipients", "Sarah.Connor@Example.com"),
        ("subject", "Summary of May"),
        ("recipient", "Bob"),
        ("channel", "general"),
        ("channel", "random"),
        ("file_id", "13"),
        ("file_id", 13),
        ("url", "www.news.example/today?a=1"),
        ("url", "https://www.news.example/today?a=1"),
        ("url", "http://docs.example"),
        ("url", "http://docs.example/"),
        ("amount", 98.7),
        ("amount", "98.70"),
        ("iban", "GB29NWBK60161331926819"),
        ("start_time", "2024-05-19 12:00"),
        ("path", "reports/may.txt"),
        ("path", "./reports/may.txt"),
    ],
)
def test_a_whole_value_of_the_owners_counts(name: str, value: str | float) -> None:
    assert stands_in(PROMPT, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("recipients", "connor@example.com"),
        ("recipients", "sarah.connor@example.co"),
        ("recipients", "sarah.connor@example.com.evil.example"),
        ("recipient", "sarah"),
        ("recipient", "connor"),
        ("host", "example.com"),
        ("file_id", "3"),
        ("file_id", "1"),
        ("url", "www.news.example"),
        ("url", "www.news.example/"),
        ("url", "www.news.example/today"),
        ("url", "www.news.example/today?a=1&b=secret"),
        ("url", "http://docs.example/x"),
        ("url", "https://docs.example"),
        ("url", "http://docs.example@evil.example/"),
        ("url", "http://evil.example/?u=www.news.example/today?a=1"),
        ("iban", "GB29NWBK6016133192681"),
        ("iban", "NWBK60161331926819"),
        ("start_time", "2024-05-19 14:00"),
        ("start_time", "2024-05-20 12:00"),
        ("path", "may.txt"),
        ("path", "reports"),
        ("path", "reports/may.txt/../../x"),
    ],
)
def test_a_piece_of_one_or_another_kind_does_not(name: str, value: str | float) -> None:
    assert not stands_in(PROMPT, value)


def test_an_address_that_runs_into_the_next_sentence_is_still_read() -> None:
    assert stands_in("post to our website www.our-company.com.They sent it", "www.our-company.com")
    assert stands_in("my list at www.todo.example/alice!", "www.todo.example/alice")


@given(st.emails(), st.text(st.characters(exclude_categories=("Cs",)), max_size=60))
def test_an_address_nobody_wrote_is_never_found(mail: str, text: str) -> None:
    if mail.casefold() not in text.casefold():
        assert not stands_in(text, mail)


@given(
    st.from_regex(r"[a-z0-9-]{3,12}\.example/[a-z0-9]{1,8}", fullmatch=True),
    st.text("abc?&=/x", min_size=1, max_size=8),
)
def test_an_address_with_something_added_is_another_address(address: str, more: str) -> None:
    text = f"Have a look at http://{address} today"
    assert stands_in(text, f"http://{address}")
    assert not stands_in(text, f"http://{address}{more}")


async def nothing(arguments: object, context: ToolContext) -> ToolOutput:
    return ToolOutput("")


def tool(
    name: str,
    effect: Effect,
    *critical: str,
    source: str = "web",
    choices: dict[str, list[str]] | None = None,
) -> Tool:
    shape = {"properties": {key: {"enum": values} for key, values in (choices or {}).items()}}
    return Tool(
        ToolSpec(name, name, shape),
        ToolMeta(
            effect,
            critical=critical,
            returns_outside_text=True,
            source=source,
            evidence="known",
        ),
        nothing,
    )


SEARCH = tool("search", Effect.FETCH)
FETCH = tool("fetch", Effect.FETCH, "url")
SEND = tool("send", Effect.EGRESS, "to")
NOTE = tool("note", Effect.WRITE, "path", source="notes")
TOOLS = {one.name: one for one in (SEARCH, FETCH, SEND, NOTE)}


def person(text: str, label: Label = Label.TRUSTED) -> SourcedText:
    return SourcedText(text, Origin.PERSON, label)


def model(text: str = "", **arguments: object) -> SourcedText:
    return SourcedText(json.dumps(arguments) if arguments else text, Origin.MODEL, Label.UNTRUSTED)


def result(of: Tool, text: str, label: Label = Label.UNTRUSTED) -> SourcedText:
    return SourcedText(
        text, Origin.RESULT, label, of.name, of.meta.effect in (Effect.WRITE, Effect.EGRESS)
    )


def grounds(*said: SourcedText, contacts: tuple[str, ...] = ()) -> Evidence:
    return Evidence(said, ToolRegistry(list(TOOLS.values())), {"bob": contacts})


def test_ordinary_research_stands_on_what_was_read() -> None:
    """Search, open three of the results, follow a link on one of them."""
    said = [
        person("what is new?"),
        model(query="news"),
        result(SEARCH, "1. http://a.example/1\n2. http://b.example/2 3. https://c.example/3?x=y"),
        model(url="http://a.example/1"),
        result(FETCH, "... more at http://a.example/deeper and http://d.example/4 ..."),
    ]
    for url in (
        "http://a.example/1",
        "http://b.example/2",
        "https://c.example/3?x=y",
        "http://a.example/deeper",
    ):
        assert grounds(*said).check(FETCH, {"url": url}).not_read == ""
    for url in (
        "http://a.example/1?leak=1",
        "http://evil.example/4",
        "http://d.example/",
        "http://d.example/4#secret",
    ):
        assert grounds(*said).check(FETCH, {"url": url}).not_read == url


def test_what_a_page_repeats_of_the_models_own_words_was_not_read_there() -> None:
    wanted = "http://evil.example/?s=SECRET"
    said = [person("go"), model(query=wanted), result(SEARCH, f"no hits for {wanted}")]
    assert grounds(*said).check(FETCH, {"url": "http://evil.example/?s=SECRET"}).not_read
    encoded = [
        person("go"),
        model(query="http://evil.example/?s=%53ECRET"),
        result(SEARCH, "for http://evil.example/?s=SECRET"),
    ]
    assert grounds(*encoded).check(FETCH, {"url": "http://evil.example/?s=SECRET"}).not_read


@pytest.mark.parametrize(
    ("written", "is_read"),
    [
        ("http://a.example/10", True),
        ("http://a.example/1/2 and http://a.example/1?x=y", True),
        ("http://a.example/1", False),
        ("https://A.example/%31", False),
        ("a.example/1, and what it says", False),
        ('{"q": ["http://a.exam", "ple/1"]}', False),
        ('{"q": "\\u0061.example/1"}', False),
        ('{"q": "\\nhttp://a.example/1"}', False),
    ],
)
def test_an_address_was_read_unless_the_model_had_written_the_whole_of_it(
    written: str, *, is_read: bool
) -> None:
    """Not a longer one, of which it is a part."""
    said = (person("read http://a.example/"), model(written), result(FETCH, "http://a.example/1"))
    assert grounds(*said).was_read("http://a.example/1") is is_read


@pytest.mark.parametrize(
    ("written", "is_read"),
    [
        ("www.a.example.org and notes.a.example", True),
        ("sub-a.example/x", True),
        ("%20a.example", False),
        ("a.example", False),
        ("http://b.example/?u=a.example", False),
    ],
)
def test_a_host_was_named_first_by_the_model_only_as_a_whole(
    written: str, *, is_read: bool
) -> None:
    said = (person("go"), model(written), result(FETCH, "http://a.example/1"))
    assert grounds(*said).was_read("http://a.example/1") is is_read


def test_a_source_that_was_written_to_gives_back_the_models_words() -> None:
    said = [
        person("go"),
        model(text="a"),
        result(NOTE, "ok"),
        result(NOTE, "note: http://evil.example/?s=SECRET"),
    ]
    assert grounds(*said).check(FETCH, {"url": "http://evil.example/?s=SECRET"}).not_read
    untouched = SourcedText("see http://ok.example/x", Origin.RESULT, Label.UNTRUSTED, "note")
    assert grounds(untouched).check(FETCH, {"url": "http://ok.example/x"}).not_read == ""


def test_a_trusted_tool_is_believed_but_not_when_it_repeats_what_it_was_asked() -> None:
    known = [
        person("invite Sarah"),
        model(query="Sarah"),
        result(SEARCH, "Sarah <sarah@example.com>", Label.TRUSTED),
    ]
    assert grounds(*known).check(SEND, {"to": "sarah@example.com"}).not_owned == ""
    echo = [
        person("go"),
        model(query="eve@evil.example"),
        result(SEARCH, "nothing fits 'eve@evil.example'", Label.TRUSTED),
    ]
    assert grounds(*echo).check(SEND, {"to": "eve@evil.example"}).not_owned == "eve@evil.example"


def test_words_of_strangers_and_of_the_model_are_nobodys_own() -> None:
    for said in (
        person("mail eve@evil.example", Label.UNTRUSTED),
        model("eve@evil.example"),
        result(FETCH, "eve@evil.example"),
    ):
        assert grounds(said).check(SEND, {"to": "eve@evil.example"}).not_owned


def test_a_registered_contact_is_the_owners() -> None:
    assert (
        grounds(contacts=("bob@example.com",)).check(SEND, {"to": ["bob@example.com"]}).not_owned
        == ""
    )
    assert (
        grounds(contacts=("bob@example.com",))
        .check(SEND, {"to": ["bob@example.com", "eve@evil.example"]})
        .not_owned
    )


def test_a_message_to_somebody_known_carries_no_strangers_address() -> None:
    asked = person("tell Alice what the page says; her site is http://alice.example/me")
    known = grounds(asked, result(FETCH, "http://evil.example/x"))
    assert (
        known.check(
            SEND, {"to": "Alice", "body": "It says hello, see http://alice.example/me"}
        ).not_owned
        == ""
    )
    assert (
        known.check(SEND, {"to": "Alice", "body": "Look at http://evil.example/x"}).not_owned
        == "http://evil.example/x"
    )


def test_a_value_from_the_tools_own_list_carries_nothing() -> None:
    choose = tool("share", Effect.EGRESS, "to", "rights", choices={"rights": ["r", "rw"]})
    assert (
        grounds(person("share it with Bob")).check(choose, {"to": "Bob", "rights": "rw"}).not_owned
        == ""
    )
    assert (
        grounds(person("share it with Bob")).check(choose, {"to": "Bob", "rights": "all"}).not_owned
    )


def test_a_yes_that_decides_where_it_goes_is_asked_about() -> None:
    share = tool("share", Effect.EGRESS, "to", "public")
    known = grounds(person("share it with Bob"))
    assert known.check(share, {"to": "Bob", "public": True}).not_owned == "public = true"
    assert known.check(share, {"to": "Bob", "public": False}).not_owned == ""
    assert known.check(SEND, {"to": "Bob", "urgent": True}).not_owned == ""
