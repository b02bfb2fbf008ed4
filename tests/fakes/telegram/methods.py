"""The Bot API's methods, on what there is in the world; as strict as the real ones."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.fakes.platform import Shown
from tests.fakes.telegram.arguments import decoded, keyboard, number, upload
from tests.fakes.telegram.html import read, units
from tests.fakes.telegram.refusals import Refusal, bad
from tests.fakes.telegram.world import BOT, ME, Json, Message, World, buttons

Given = dict[str, Any]
LONGEST, LONGEST_CAPTION, LONGEST_TOAST = 4096, 1024, 200
MOST_UPLOAD, MOST_FETCH = 50 << 20, 20 << 20
ACTIONS = {
    "typing",
    "upload_photo",
    "record_voice",
    "upload_voice",
    "upload_document",
    "choose_sticker",
    "find_location",
}
EMOJI = set(
    "👍👎❤🔥🥰👏😁🤔🤯😱🤬😢🎉🤩🤮💩🙏👌🕊🤡🥱🥴😍🐳🌚🌭💯🤣⚡🍌🏆💔🤨😐🍓🍾💋🖕😈😴😭🤓👻👀🎃🙈😇😨🤝✍🤗🫡🎅🎄☃💅🤪🗿🆒💘🙉🦄😘💊🙊😎👾🤷😡"
)


def get_me(world: World, given: Given) -> Json:
    return ME


def webhook_info(world: World, given: Given) -> Json:
    return {
        "url": world.webhook,
        "has_custom_certificate": False,
        "pending_update_count": len(world.pending),
    }


def delete_webhook(world: World, given: Given) -> bool:
    world.webhook = ""
    return True


def set_commands(world: World, given: Given) -> bool:
    commands = decoded(given, "commands")
    for command in commands:
        if not (
            1 <= len(command["command"]) <= 32
            and command["command"].islower()
            and 1 <= len(command["description"]) <= 256
        ):
            raise bad("BOT_COMMAND_INVALID")
    world.commands = commands
    return True


def chat_of(world: World, given: Given) -> Json:
    """The chat of a call. Raises Refusal where the bot may not write."""
    where = number(given, "chat_id")
    if where not in world.chats:
        raise bad("chat not found")
    if where in world.blocked:
        raise Refusal(403, "Forbidden: bot was blocked by the user")
    migrated = world.chats[where].get("migrated_to")
    if migrated:
        raise Refusal(
            400,
            "Bad Request: group chat was upgraded to a supergroup chat",
            migrate_to_chat_id=migrated,
        )
    if (where, str(given.get("message_thread_id") or "")) in world.closed_topics:
        raise bad(world.topic_refusal)
    return world.chats[where]


def text_of(given: Given, name: str, longest: int, empty: str) -> tuple[str, tuple[object, ...]]:
    """The text as it is read, and its formatting."""
    markup = str(given.get(name, ""))
    mode = given.get("parse_mode")
    if mode not in (None, "HTML"):
        raise bad("unsupported parse_mode")
    text, found = read(markup) if mode else (markup, ())
    if not text.strip() and empty:
        raise bad(empty)
    if units(text.strip()) > longest:
        raise bad("message is too long" if name == "text" else "message caption is too long")
    return text.strip(), found


def _head(world: World, given: Given) -> Json:
    chat = chat_of(world, given)
    head = world.new_message(chat, ME, str(given.get("message_thread_id") or ""))
    reply = decoded(given, "reply_parameters")
    if reply is not None:
        answered = world.messages.get(reply["message_id"])
        if answered is not None and answered.json["chat"]["id"] == chat["id"]:
            head["reply_to_message"] = {
                key: value for key, value in answered.json.items() if key != "reply_to_message"
            }
        elif not reply.get("allow_sending_without_reply"):
            raise bad("message to be replied not found")
    return head


def _shown(head: Json, given: Given, text: str, markup: Json | None) -> Shown:
    thread = str(given.get("message_thread_id") or "")
    written = str(given.get("text") or given.get("caption") or "")
    return Shown(str(head["message_id"]), BOT, text, written, True, buttons(markup), thread=thread)


def send_message(world: World, given: Given) -> Json:
    chat = chat_of(world, given)
    text, found = text_of(given, "text", LONGEST, "message text is empty")
    markup = keyboard(given)
    head = _head(world, given) | {"text": text} | ({"reply_markup": markup} if markup else {})
    for key in [key for key in world.drafts if key[0] == chat["id"]]:
        del world.drafts[key]
    world.keep(head, _shown(head, given, text, markup), (text, found, markup))
    return head


def send_draft(world: World, given: Given) -> bool:
    chat = chat_of(world, given)
    draft = number(given, "draft_id")
    if chat["type"] != "private":
        raise bad("TEXTDRAFT_PEER_INVALID")
    if draft == 0:
        raise bad("DRAFT_ID_INVALID")
    text, _ = text_of(given, "text", LONGEST, "")
    shown = Shown(f"draft-{draft}", BOT, text, str(given.get("text", "")), True, draft=True)
    world.drafts[chat["id"], draft] = replace(
        shown, thread=str(given.get("message_thread_id") or "")
    )
    world.tell()
    return True


def _send_file(kind: str) -> Callable[[World, Given], Json]:
    def send(world: World, given: Given) -> Json:
        chat_of(world, given)
        name, content = upload(given, kind)
        if len(content) > MOST_UPLOAD:
            raise Refusal(413, "Request Entity Too Large")
        text, found = text_of(given, "caption", LONGEST_CAPTION, "")
        markup = keyboard(given)
        head = (
            _head(world, given)
            | file_json(world, kind, name, content)
            | ({"caption": text} if text else {})
        )
        shown = replace(_shown(head, given, text, markup), files=((name, content),))
        world.keep(head, shown, (text, found, markup))
        return head

    return send


def file_json(world: World, kind: str, name: str, content: bytes) -> Json:
    """A file as part of a message; it may be fetched from then on."""
    number_ = len(world.files) + 1
    file = {
        "file_id": f"AgAC{number_}-{kind}",
        "file_unique_id": f"U{number_}",
        "file_size": len(content),
    }
    world.files[file["file_id"]] = (f"{kind}s/file_{number_}.{name.rpartition('.')[2]}", content)
    if kind == "photo":
        small = {
            **file,
            "file_id": file["file_id"] + "-s",
            "file_size": len(content) // 10,
            "width": 90,
            "height": 90,
        }
        return {"photo": [small, {**file, "width": 1280, "height": 1280}]}
    if kind == "voice":
        return {"voice": {**file, "duration": 3, "mime_type": "audio/ogg"}}
    return {"document": {**file, "file_name": name, "mime_type": "application/octet-stream"}}


def _ours(world: World, given: Given, verb: str) -> Message:
    chat = chat_of(world, given)
    message = world.messages.get(number(given, "message_id"))
    if message is None or message.json["chat"]["id"] != chat["id"]:
        raise bad(f"message to {verb} not found")
    if verb == "edit" and not message.shown.by_bot:
        raise bad("message can't be edited")
    return message


def edit_text(world: World, given: Given) -> Json:
    message = _ours(world, given, "edit")
    text, found = text_of(given, "text", LONGEST, "message text is empty")
    markup = keyboard(given)
    return _changed(world, message, (text, found, markup), str(given["text"]))


def edit_markup(world: World, given: Given) -> Json:
    message = _ours(world, given, "edit")
    text, found = message.look[:2]
    return _changed(world, message, (text, found, keyboard(given)), message.shown.markup)


def _changed(world: World, message: Message, look: tuple[Any, ...], written: str) -> Json:
    if look == message.look:
        raise bad(
            "message is not modified: specified new message content and reply markup are exactly the same as a current content"
            " and reply markup of the message"
        )
    text, _, markup = message.look = look
    message.json = {key: value for key, value in message.json.items() if key != "reply_markup"}
    message.json |= {"text": text, "edit_date": int(time.time())} | (
        {"reply_markup": markup} if markup else {}
    )
    edits = message.shown.edits + 1
    message.shown = replace(
        message.shown, text=text, markup=written, buttons=buttons(markup), edits=edits
    )
    world.tell()
    return message.json


def delete_message(world: World, given: Given) -> bool:
    message = _ours(world, given, "delete")
    world.remove(message.json["message_id"])
    return True


def chat_action(world: World, given: Given) -> bool:
    chat_of(world, given)
    if given.get("action") not in ACTIONS:
        raise bad("wrong parameter action in request")
    world.tell()
    return True


def answer_query(world: World, given: Given) -> bool:
    if world.queries.pop(str(given.get("callback_query_id")), None) is None:
        raise bad("query is too old and response timeout expired or query ID is invalid")
    if units(str(given.get("text", ""))) > LONGEST_TOAST:
        raise bad("MESSAGE_TOO_LONG")
    world.toasts.append(str(given.get("text", "")))
    world.tell()
    return True


def set_reaction(world: World, given: Given) -> bool:
    message = _ours(world, given, "react")
    kinds = decoded(given, "reaction") or []
    if any(kind.get("type") != "emoji" or kind.get("emoji") not in EMOJI for kind in kinds):
        raise bad("REACTION_INVALID")
    message.shown = replace(message.shown, reactions=tuple(kind["emoji"] for kind in kinds))
    world.tell()
    return True


def get_file(world: World, given: Given) -> Json:
    file = str(given.get("file_id"))
    if file.removesuffix("-s") not in world.files:
        raise bad("wrong file_id or the file is temporarily unavailable")
    path, content = world.files[file.removesuffix("-s")]
    if len(content) > MOST_FETCH and not world.generous:
        raise bad("file is too big")
    return {"file_id": file, "file_unique_id": file, "file_size": len(content), "file_path": path}


METHODS: dict[str, Callable[[World, Given], object]] = {
    "getMe": get_me,
    "getWebhookInfo": webhook_info,
    "deleteWebhook": delete_webhook,
    "setMyCommands": set_commands,
    "sendMessage": send_message,
    "sendMessageDraft": send_draft,
    "sendDocument": _send_file("document"),
    "sendPhoto": _send_file("photo"),
    "sendVoice": _send_file("voice"),
    "editMessageText": edit_text,
    "editMessageReplyMarkup": edit_markup,
    "deleteMessage": delete_message,
    "sendChatAction": chat_action,
    "answerCallbackQuery": answer_query,
    "setMessageReaction": set_reaction,
    "getFile": get_file,
}
