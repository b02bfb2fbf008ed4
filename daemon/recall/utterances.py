"""What of a turn becomes memory: what people said, span by span, and the answer (A3, F3).

Pages, files and results of tools do not: they are found where they are.
"""

from collections.abc import Callable, Iterator, Sequence

from daemon.core.events import RecordedEvent, Steered, UserSaid
from daemon.core.ids import is_mail_session
from daemon.core.provenance import iter_person_texts
from daemon.core.rows import EVENT_CHANNEL, SessionRow, TurnRow
from daemon.core.trust import OWNER_NAME, Label
from memory.utterance import Utterance

ASSISTANT, PERSON, QUOTED = "assistant", "person", "quoted"


def list_utterances(
    turn: TurnRow,
    session: SessionRow,
    events: Sequence[RecordedEvent],
    find_name: Callable[[str], str],
    *,
    own: bool,
) -> Iterator[Utterance]:
    """In order. `find_name`: what a sender calls themselves. `own`: nobody but the owner reads the
    session. What another agent worded is nobody's word.
    """
    kind, to_owner = _find_kind(session), own and turn.label is Label.TRUSTED
    for one in events:
        event = one.event
        if not isinstance(event, UserSaid | Steered) or getattr(event, "composed", False):
            continue
        is_owner = event.role == OWNER_NAME and kind == PERSON
        to_owner = to_owner and event.role == OWNER_NAME
        texts = iter_person_texts(event.text, event.role, event.label, event.quoted)
        for number, text in enumerate(texts):
            is_said = text.label is Label.TRUSTED and text.owned
            role = OWNER_NAME if is_owner and is_said else kind if is_said else QUOTED
            yield Utterance(
                f"{turn.id}:{one.seq}.{number}",
                session.id,
                find_name(event.sender),
                role,
                text.label.value,
                is_owner and is_said,
                one.at,
                text.text,
                private=not is_said,
            )
    if turn.reply and turn.ended_at:
        yield Utterance(
            f"{turn.id}:reply",
            session.id,
            ASSISTANT,
            ASSISTANT,
            turn.label.value,
            to_owner,
            turn.ended_at,
            turn.reply,
            private=bool(turn.private),
        )


def _find_kind(session: SessionRow) -> str:
    if is_mail_session(session.id):
        return "mail"
    return "event" if session.channel == EVENT_CHANNEL else PERSON
