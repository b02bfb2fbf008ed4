"""Albums: what somebody sends as one comes as a message for each picture, and is one message of theirs (A14)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from channels.message import Address, Arrival, Inbound
from channels.telegram.reading import Pressed


def album_of(raw: object) -> str:
    """The id of the album to which a new message belongs; "" for none. Edits of its messages are not in it."""
    message = raw.get("message") if isinstance(raw, dict) else None
    album = message.get("media_group_id") if isinstance(message, dict) else None
    return album if isinstance(album, str) else ""


def before_the_last(updates: Sequence[object]) -> list[object]:
    """What came before the album with which they end; all of them, where they end with none, or are nothing else."""
    album = album_of(updates[-1]) if updates else ""
    begins = next((place for place, raw in enumerate(updates) if album and album_of(raw) == album), 0)
    return list(updates[:begins] or updates)


def joined(heard: Iterable[tuple[str, Arrival | Pressed]]) -> list[Arrival | Pressed]:
    """What was heard, each with the id of its album ("" for none): an album as one message, where its first picture stood."""
    places: dict[tuple[Address, str, str], int] = {}
    albums: dict[int, dict[str, Inbound]] = {}
    out: list[Arrival | Pressed] = []
    for album, one in heard:
        if not isinstance(one, Inbound) or not album:
            out.append(one)
            continue
        place = places.setdefault((one.address, one.sender.id, album), len(out))
        if place == len(out):
            out.append(one)
        albums.setdefault(place, {}).setdefault(one.external_id, one)
    for place, pictures in albums.items():
        out[place] = _as_one(list(pictures.values()))
    return out


def _as_one(pictures: Sequence[Inbound]) -> Inbound:
    captions = dict.fromkeys(picture.text for picture in pictures if picture.text)
    return replace(
        pictures[0],
        text="\n".join(captions),
        attachments=tuple(file for picture in pictures for file in picture.attachments),
        addressed=any(picture.addressed for picture in pictures),
        forwarded=any(picture.forwarded for picture in pictures),
        quoted=next((picture.quoted for picture in pictures if picture.quoted), ""),
        quotes_own=all(picture.quotes_own for picture in pictures if picture.quoted),
    )
