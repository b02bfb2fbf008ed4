"""The payload of an event, out of whatever body its sender makes (A16). Pure.

Senders write JSON, forms, forms with files, and plain text; many clients call JSON a form.
"""

import re
from urllib.parse import parse_qs

from pydantic_core import from_json

from daemon.http.responses import decode_text, mend_halves

FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
MAX_FIELDS = 100
BOUNDARY, NAME, FILE_NAME = (
    re.compile(rf'(?i)[;\s]{name}=(?:"([^"\r\n]*)"|([^;\s"]+))')
    for name in ("boundary", "name", r"filename\*?")
)
Fields = dict[str, list[str]]


def read_payload(content_type: str, charset: str, raw: bytes) -> object:
    """What a body of this whole Content-Type says: JSON, the fields of a form, or the text itself.
    GitHub, Slack and Plex put their JSON into the field `payload`. Raises ValueError.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind == MULTIPART:
        return _read_fields(_read_parts(content_type, raw))
    text = decode_text(charset, raw)
    try:
        return _parse(text)
    except ValueError:
        is_text = kind == FORM or kind.startswith("text/") or kind.endswith("xml")
        if not is_text or not text.strip() or text.lstrip()[0] in "{[":
            raise
    if kind == FORM and (fields := parse_qs(text, max_num_fields=MAX_FIELDS)):
        return _read_fields(fields)
    return text


def _parse(text: str) -> object:
    return from_json(mend_halves(text).encode(), allow_inf_nan=False)


def _read_fields(fields: Fields) -> object:
    if payload := fields.get("payload"):
        return _parse(payload[0])
    return {name: values if len(values) > 1 else values[0] for name, values in fields.items()}


def _read_parts(content_type: str, raw: bytes) -> Fields:
    """The fields of a form with files; of a file its name and size. What Python's mail parser does
    here takes seconds and gigabytes for a hostile body.
    """
    boundary = _find_parameter(BOUNDARY, content_type)
    found: Fields = {}
    pieces = (b"\r\n" + raw).split(b"\r\n--" + boundary.encode(), MAX_FIELDS)[1:MAX_FIELDS]
    for piece in pieces if boundary else []:
        head, is_part, data = piece.partition(b"\r\n\r\n")
        heads = head.decode("utf-8", "replace")
        if is_part and (name := _find_parameter(NAME, heads)):
            file = _find_parameter(FILE_NAME, heads)
            shown = f"[file {file}, {len(data)} bytes]" if file else decode_text("utf-8", data)
            found.setdefault(name, []).append(shown)
    if not found:
        raise ValueError("a form with files that has no field")
    return found


def _find_parameter(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return (found[1] or found[2] or "") if found else ""


def find_challenge(payload: object) -> str:
    """What Slack sends once, to see whether somebody listens who knows the secret; "" for none."""
    if isinstance(payload, dict) and payload.get("type") == "url_verification":
        return str(payload.get("challenge", ""))[:200]
    return ""
