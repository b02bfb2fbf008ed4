"""Tables for the tests of halting conditions: work that is healthy or not, words that mean "I cannot go on" or do not."""

from collections.abc import Sequence

from daemon.core.trust import Effect
from tests.fakes.turns import Deed, did, failed, refused, skipped

Work = Sequence[Sequence[Deed]]
EDIT = Effect.WRITE


def once(*deeds: Deed) -> Work:
    """Each in an iteration of its own."""
    return [[deed] for deed in deeds]


def tested(said: str) -> Deed:
    """A test run that fails, saying this."""
    return failed("shell", "pytest", "exit_1", said)


HEALTHY: dict[str, Work] = {
    "nothing yet": [],
    "one call": once(did("read", "a")),
    "the same twice": once(*[did("read", "a")] * 2),
    "different files": once(*(did("read", name, f"text of {name}") for name in "abcdefgh")),
    "different files that hold the same": once(*(did("read", name, "empty") for name in "abcdefgh")),
    "polling that gets somewhere": once(*(did("poll", "job", f"{n} % done") for n in range(0, 100, 10))),
    "an edit between two equal reads": once(did("read", "a"), did("edit", "a", "saved", EDIT), did("read", "a")),
    "the same call five times in one reply": [[did("read", "a")] * 5],
    "five equal calls in each of two replies": [[did("read", "a")] * 5] * 2,
    "edit and test, one after the other": once(
        *(deed for n in range(6) for deed in (did("edit", n, "saved", EDIT), tested("the sum is wrong")))
    ),
    "edit and test in one reply": [[did("edit", n, "saved", EDIT), tested("the sum is wrong")] for n in range(6)],
    "a test that fails in another way each time": once(*(tested(f"test_{name} is wrong") for name in "abcdef")),
    "the clock looked at beside new work": [[did("clock", "", "noon"), did("read", n, f"text {n}")] for n in range(6)],
    "a list reread beside new work": [[did("list", ".", "a b c"), did("write", n, f"wrote {n}", EDIT)] for n in range(6)],
    "back and forth with new results": once(
        *(deed for n in range(5) for deed in (did("ask", "it", f"answer {n}"), did("tell", "it", "told")))
    ),
    "back and forth with new arguments": once(
        *(deed for n in range(5) for deed in (did("read", n), did("write", n, "written", EDIT)))
    ),
    "back and forth twice": once(*[did("read", "a"), did("read", "b")] * 2, did("read", "a")),
    "a round broken by something else": once(
        did("a"), did("b"), did("a"), did("b"), did("new", 1), did("a"), did("b"), did("a"), did("b"), did("new", 2)
    ),
    "four wrong guesses, then a right one": once(
        *(failed("read", f"guess {n}", "NotFound") for n in range(4)), did("read", "right")
    ),
    "wrong guesses with finds between them": once(
        *(deed for n in range(5) for deed in (failed("read", n, "NotFound"), did("list", n, f"folder {n}")))
    ),
    "wrong guesses with finds beside them": [[failed("read", n, "NotFound"), did("list", n, f"folder {n}")] for n in range(7)],
    "wrong guesses with a find beside one of them": [
        [failed("read", 0, "NotFound")], [failed("read", 1, "NotFound")], [failed("read", 2, "NotFound"), did("list")],
        *once(*(failed("read", n, "NotFound") for n in range(3, 6))),
    ],
    "a round with a find beside it": [
        [did("a")], [did("b")], [did("a"), did("new")], [did("b")], [did("a")], [did("b")],
    ],
    "one tool failing in different ways": once(*(failed("fetch", n, f"Trouble{n}") for n in "abcdefg")),
    "different tools failing in the same way": once(*(failed(f"tool_{n}", n, "TimedOut") for n in "abcdefg")),
    "a person who says what is wrong each time": once(*(refused("send", n, f"not to {n}") for n in "abcdefg")),
}  # fmt: skip
STUCK: dict[str, tuple[str, Work]] = {
    "the same call": ("read", once(*[did("read", "a")] * 3)),
    "the same call, written differently": (
        "read", once(Deed("read", '{"a": 1, "b": "X"}'), Deed("read", '{"b":"x","a":1}'), Deed("read", '{ "b": "X",  "a": 1 }')),
    ),
    "the same error, whatever its words": ("fetch", once(*(failed("fetch", "it", "TimedOut", f"after {n} s") for n in range(3)))),
    "the same test run, with nothing changed": ("shell", once(*(tested(f"1 failed in 0.{n} s") for n in range(3)))),
    "the same call, in parallel with itself": ("read", [[did("read", "a")] * 2] * 3),
    "the same failure beside new reading": ("send", [[failed("send", "it"), did("read", n, f"text {n}")] for n in range(3)]),
    "the same failure beside new pages": (
        "send", [[failed("send", "it"), did("fetch", n, f"page {n}", Effect.FETCH)] for n in range(3)]
    ),
    "the same reading beside new failures": ("read", [[did("read", "a"), failed("fetch", n)] for n in range(3)]),
    "the same thing, refused in other words": ("send", once(*(refused("send", "it", f"no, {n}") for n in "abc"))),
    "the same refusal": ("send", once(*[refused("send", "it")] * 3)),
    "after healthy work": ("read", once(did("list"), did("read", "b"), *[did("read", "a")] * 3)),
    "the same effect again": ("send", once(*[did("send", "it", "sent", Effect.EGRESS)] * 3)),
    "the same two in each": ("a", [[did("b"), did("a")]] * 3),
}  # fmt: skip
ROUNDS: dict[str, tuple[str, Work]] = {
    "A-B-A-B": ("list and read", once(*[did("list"), did("read", "a")] * 3)),
    "two failures": ("send and fetch", once(*[failed("send"), failed("fetch")] * 3)),
    "a failure and a success": (
        "edit and shell",
        once(*[did("edit", "a", "saved", EDIT), tested("the sum is wrong")] * 3),
    ),
    "one tool, two arguments": (
        "read and read with other arguments",
        once(*[did("read", "a"), did("read", "b")] * 3),
    ),
    "A-B-C": ("list, read and clock", once(*[did("list"), did("read", "a"), did("clock")] * 3)),
    "A-B-A-C": (
        "read, list and clock",
        once(*[did("read"), did("list"), did("read"), did("clock")] * 3),
    ),
    "after healthy work": ("b and a", once(did("c"), *[did("b"), did("a")] * 3)),
    "with company": (
        "list and read",
        [[did("list"), did("clock")], [did("read", "a"), did("clock")]] * 3,
    ),
}
ALIKE: dict[str, tuple[str, Work]] = {
    "ever other arguments": ("fetch", once(*(failed("fetch", n, "TimedOut") for n in range(5)))),
    "arguments that are wrong": (
        "write",
        once(*(failed("write", n, "BadArguments", f"{n} is no path") for n in range(5))),
    ),
    "a command that is not there": (
        "shell",
        once(*(failed("shell", n, "exit_127", "foo: not found") for n in range(5))),
    ),
    "refused for the same reason": (
        "fetch",
        once(*(refused("fetch", n, "no addresses of the house") for n in range(5))),
    ),
    "beside what was known before": (
        "fetch",
        [[failed("fetch", n, "TimedOut"), did("list")] for n in range(5)],
    ),
    "after healthy work": (
        "fetch",
        once(did("read", "a"), *(failed("fetch", n, "TimedOut") for n in range(5))),
    ),
}
CANNOT_GO_ON = (
    "I'm not sure how to proceed.",
    "I am not sure how to proceed",
    "I’m honestly not sure how to proceed with the migration.",
    "I looked at both files. I'm not sure what to do next.",
    "The tool keeps failing and I don't know what else to try.",
    "I no longer know how to continue.",
    "Hmm, I have no idea how to go on from here.",
    "Not sure how to proceed here.",
    "I'm stuck.",
    "I am completely stuck at this point.",
    "I'm at a loss, and the log is empty.",
    "I have run out of ideas.",
    "I cannot proceed.",
    "I'm unable to make any further progress.",
    "I don't see any way forward.",
    "There is nothing else I can try.",
    "I seem to be failing: I am going in circles.",
    "I give up.",
    "I can't figure out how to proceed.",
    "It is not clear to me how to proceed.",
    "I keep getting the same error and I'm not sure how to proceed given the missing file.",
    "I've hit a dead end.",
    "I've exhausted all my options.",
    "I'm unsure how to move forward without access to the calendar.",
)
CAN_GO_ON = (
    "",
    "Done. The report is in report.md.",
    "I'm not sure whether the museum opens on Mondays; its page does not say.",
    "I'm not sure how old the castle is.",
    "I am not certain that this is the latest version.",
    "I don't know the answer to that.",
    "I don't know what the weather will be.",
    "Would you like me to proceed?",
    "How should I proceed: move the meeting or cancel it?",
    "Please tell me how you want to proceed.",
    "I cannot proceed without your approval.",
    "I can't continue until the download has finished.",
    "If I'm not sure how to proceed, I ask you first.",
    "If you are not sure how to proceed, call the hotline.",
    "I'm not sure how to proceed, so I'll read the manual first.",
    "I'm not sure how to proceed if the file is missing: skip it or stop?",
    "You said that you don't know how to proceed; here are three steps.",
    "I cannot continue reading files outside the workspace; this one lies in /etc.",
    "I'm stuck on the wording of the second sentence; here are two ways to put it.",
    "It is unclear where to go for lunch.",
    "To avoid going in circles, I read the log first.",
    "I was not sure how to proceed, but the log shows the cause.",
    "I'm not sure what to do about Friday: shall I move it to Monday?",
    "I don't know how to continue the story of the dragon; darker or lighter?",
    'Ann writes: "I\'m not sure how to proceed." She asks for a call.',
    "His note ends with 'I'm stuck.' and a phone number.",
    "> I'm not sure how to proceed.\n\nI have answered that mail.",
    "Here is the draft:\n\nDear Ms Lind,\n\nI'm not sure how to proceed. Could you help me?\n\nTim",
    '```\nprint("x")\n# I give up\n```\nThe script runs now.',
    "Tell Bob that I'm stuck in traffic.",
    "I'm afraid the shop is closed today.",
    "Sorry, I could not find a cheaper flight. The best one costs 120 EUR.",
    "The first way did not work. Let me try another one.",
    "The printer is stuck. I sent a ticket.",
    "She has run out of ideas for the party; here are five.",
    "There is nothing else to do today.",
    "I have no idea who took the picture.",
    "It may rain, but I can't be sure.",
    "No puedo continuar sin tu permiso.",
)
MOSTLY_FAILING: dict[str, Work] = {
    "six of six": once(*(failed(f"tool_{n}", error=f"Trouble{n}") for n in range(6))),
    "seven of eight": once(did("read"), *(failed(f"tool_{n}") for n in range(7))),
    "in one reply": [[failed(f"tool_{n}") for n in range(6)]],
    "eight of the last eight": once(
        *(did("read", n) for n in range(9)), *(failed(f"tool_{n}") for n in range(8))
    ),
    "refusals come between": once(
        *(deed for n in range(6) for deed in (failed(f"tool_{n}"), refused("send", n, f"no {n}")))
    ),
}
WORKING_WELL_ENOUGH: dict[str, Work] = {
    "too few to say": once(*(failed(f"tool_{n}") for n in range(5))),
    "two of eight": once(did("read"), did("list"), *(failed(f"tool_{n}") for n in range(6))),
    "every other one": once(
        *(deed for n in range(6) for deed in (failed(f"tool_{n}"), did("read", n)))
    ),
    "six refusals": once(*(refused("send", n, f"no {n}") for n in range(6))),
    "five failures and three that were not run": once(
        *(failed(f"tool_{n}") for n in range(5)), *(skipped("read", n) for n in range(3))
    ),
    "it fails no more": once(*(failed(f"tool_{n}") for n in range(6)), did("read"), did("list")),
}
