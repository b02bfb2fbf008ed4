"""Recorded events as the lines of a transcript, and back."""

import json
from collections.abc import Mapping
from datetime import datetime

from daemon.core.events import RecordedEvent
from daemon.store.codec import SCHEMA, decode, to_json

LINE_FIELDS = ("seq", "at", "kind")


def transcript_line(recorded: RecordedEvent) -> dict[str, object]:
    """An event as the transcript shows it: {seq, at, kind, ...payload}. A payload's own `kind` is
    called `kind_`.
    """
    kind, at = type(recorded.event).__name__, recorded.at.isoformat()
    line: dict[str, object] = {"seq": recorded.seq, "at": at, "kind": kind}
    for name, found in to_json(recorded.event).items():
        line[f"{name}_" if name in line else name] = found
    return line


def read_transcript_line(line: Mapping[str, object]) -> RecordedEvent:
    """The event of `transcript_line`. Raises UnreadableEvent for one of a newer program."""
    payload = {name: found for name, found in line.items() if name not in LINE_FIELDS}
    payload |= {name: payload.pop(f"{name}_") for name in LINE_FIELDS if f"{name}_" in payload}
    event = decode(str(line["kind"]), SCHEMA, json.dumps(payload))
    return RecordedEvent(int(str(line["seq"])), datetime.fromisoformat(str(line["at"])), event)
