"""What the bot sends with a call: read as Telegram reads it, and refused where it is not as documented."""

import json
from typing import Any

from aiohttp import BodyPartReader, web

from tests.fakes.telegram.refusals import bad
from tests.fakes.telegram.world import Json

Upload = tuple[str, bytes]
TARGET = "chat_id message_thread_id"
SENDING = (
    f"{TARGET} disable_notification protect_content reply_parameters reply_markup message_effect_id"
)
CAPTIONED = "caption parse_mode caption_entities"
KNOWN = {
    "getMe": "",
    "getUpdates": "offset limit timeout allowed_updates",
    "deleteWebhook": "drop_pending_updates",
    "getWebhookInfo": "",
    "sendMessage": f"{SENDING} text parse_mode entities link_preview_options",
    "sendMessageDraft": f"{TARGET} draft_id text parse_mode entities",
    "sendDocument": f"{SENDING} document thumbnail {CAPTIONED} disable_content_type_detection",
    "sendPhoto": f"{SENDING} photo {CAPTIONED} has_spoiler show_caption_above_media",
    "sendVoice": f"{SENDING} voice {CAPTIONED} duration",
    "editMessageText": "chat_id message_id inline_message_id text parse_mode entities link_preview_options reply_markup",
    "editMessageReplyMarkup": "chat_id message_id inline_message_id reply_markup",
    "deleteMessage": "chat_id message_id",
    "sendChatAction": f"{TARGET} action",
    "answerCallbackQuery": "callback_query_id text show_alert url cache_time",
    "setMyCommands": "commands scope language_code",
    "setMessageReaction": "chat_id message_id reaction is_big",
    "getFile": "file_id",
}


async def arguments(request: web.BaseRequest) -> dict[str, Any]:
    """What came in the address, the form, the parts or the JSON of a request."""
    found: dict[str, Any] = dict(request.query)
    if request.content_type.startswith("multipart/"):
        async for part in await request.multipart():
            if isinstance(part, BodyPartReader):
                whole = bytes(await part.read())
                found[str(part.name)] = (part.filename, whole) if part.filename else whole.decode()
    elif request.content_type == "application/json":
        found |= await request.json()
    else:
        found |= await request.post()
    return found


def checked(method: str, given: dict[str, Any]) -> dict[str, Any]:
    """Refuses what the method does not know."""
    attached = {
        str(value).removeprefix("attach://")
        for value in given.values()
        if str(value).startswith("attach://")
    }
    for name in given:
        if name not in KNOWN[method].split() and name not in attached:
            raise bad(f'unknown parameter "{name}"')
    return given


def number(given: dict[str, Any], name: str, otherwise: int | None = None) -> int:
    """A number."""
    value = given.get(name, otherwise)
    try:
        return int(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise bad(f'invalid or missing parameter "{name}"') from None


def decoded(given: dict[str, Any], name: str) -> Any:
    """A parameter that is JSON; None where it is not given."""
    value = given.get(name)
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise bad(f"can't parse {name} JSON object") from None


def upload(given: dict[str, Any], name: str) -> Upload:
    """A file that came with the call."""
    value = given.get(name)
    if isinstance(value, str) and value.startswith("attach://"):
        value = given.get(value.removeprefix("attach://"))
    if not isinstance(value, tuple):
        raise bad(f"there is no {name} in the request")
    if not value[1]:
        raise bad("file must be non-empty")
    return value


def keyboard(given: dict[str, Any]) -> Json | None:
    """The inline keyboard, if there is one."""
    markup = decoded(given, "reply_markup")
    if markup is None:
        return None
    rows = markup.get("inline_keyboard") if isinstance(markup, dict) else None
    if not isinstance(rows, list) or set(markup) != {"inline_keyboard"}:
        raise bad("object expected as reply markup")
    for button in (button for row in rows for button in row):
        data = button.get("callback_data")
        if not button.get("text"):
            raise bad(
                "can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard"
            )
        if not isinstance(data, str) or not 1 <= len(data.encode()) <= 64:
            raise bad("BUTTON_DATA_INVALID")
    return markup if any(rows) else None
