"""A recorded turn as a test that needs no database: the record stands in the file."""

import json
from collections.abc import Mapping, Sequence

from daemon.core.events import RecordedEvent
from daemon.ops.replay.replay import TurnRecord
from daemon.store.transcript import read_transcript_line, transcript_line

TEST = '''"""Turn {turn} as it was recorded: the loop still comes to the same end."""

from daemon.testing import replay_recorded

# What differs, in the words of `aidaemon replay`; "" for nothing.
EXPECTED = ""
RECORD = r"""
{record}
"""


def test_turn_{turn}_goes_as_it_went() -> None:
    assert replay_recorded(RECORD) == EXPECTED
'''


def render_test(record: TurnRecord) -> str:
    """The file: a line for the turn, then one for each event, of its agents too."""
    head = {"turn": record.id, "session": record.session, "parent": record.parent}
    lines = [head, *_render_events("", record.events)]
    for name, events in record.children.items():
        lines += _render_events(name, events)
    # three quotes never stand side by side in JSON: within a text they are escaped
    written = "\n".join(json.dumps(line) for line in lines)
    return TEST.format(turn=record.id, record=written)


def _render_events(child: str, events: Sequence[RecordedEvent]) -> list[Mapping[str, object]]:
    return [{"child": child, "event": transcript_line(one)} for one in events]


def read_record(text: str) -> TurnRecord:
    """The record of such a file."""
    head, *lines = map(json.loads, text.strip().split("\n"))
    events: dict[str, list[RecordedEvent]] = {"": []}
    for line in lines:
        events.setdefault(line["child"], []).append(read_transcript_line(line["event"]))
    own = events.pop("")
    return TurnRecord(head["turn"], head["session"], own, head["parent"], events)
