"""What people do in the chats, and what the bot is told of it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.fakes.platform import Shown
from tests.fakes.telegram.methods import file_json
from tests.fakes.telegram.world import BOT_ID, POISON, Json, World, entities, reaches_the_bot

IMAGES, VOICES = (".jpg", ".jpeg", ".png"), (".ogg", ".oga")


@dataclass(frozen=True, slots=True)
class People:
    """Everybody but the bot."""

    world: World

    def say(
        self,
        person: str,
        chat: str,
        text: str,
        thread: str = "",
        files: Sequence[tuple[str, bytes]] = (),
        more: Json | None = None,
    ) -> str:
        """A text, or files of which the first has it as its caption; those of one kind are an album. `more`: further fields of
        the message.
        """
        kinds = [_kind(name) for name, _ in files]
        if len(files) > 1 and len(set(kinds)) == 1 and "voice" not in kinds:
            return self.album(
                person, chat, [(text, files[0]), *(("", file) for file in files[1:])], thread, more
            )[0]
        first = self._write(person, chat, text, thread, files[:1], more)
        for file in files[1:]:
            self._write(person, chat, "", thread, [file], more)
        return first

    def album(
        self,
        person: str,
        chat: str,
        pictures: Sequence[tuple[str, tuple[str, bytes]]],
        thread: str = "",
        more: Json | None = None,
    ) -> list[str]:
        """Pictures with captions, sent at once; the id of each."""
        album = {
            "media_group_id": str(13_000_000_000_000_000 + self.world.last_message),
            **(more or {}),
        }
        return [
            self._write(person, chat, caption, thread, [file], album) for caption, file in pictures
        ]

    def _write(
        self,
        person: str,
        chat: str,
        text: str,
        thread: str,
        files: Sequence[tuple[str, bytes]],
        more: Json | None,
    ) -> str:
        where = self.world.private(person) if int(chat) > 0 else self.world.chats[int(chat)]
        message = self.world.new_message(where, self.world.person(person), thread)
        for name, content in files:
            message |= file_json(self.world, _kind(name), name, content)
        message |= _worded(text, bool(files)) | (more or {})
        shown = Shown(str(message["message_id"]), person, text, thread=thread, files=tuple(files))
        self.world.keep(message, shown)
        if self.world.nosy or reaches_the_bot(message):
            self.world.push({"message": message}, message["message_id"])
        return str(message["message_id"])

    def reply(self, person: str, to: str, text: str) -> str:
        """An answer to a message, in its chat."""
        answered = self.world.messages[int(to)].json
        inner = {key: value for key, value in answered.items() if key != "reply_to_message"}
        return self.say(person, str(answered["chat"]["id"]), text, more={"reply_to_message": inner})

    def edit(self, message_id: str, text: str) -> None:
        """A person changes a message of theirs."""
        message = self.world.messages[int(message_id)]
        old = {
            key: value
            for key, value in message.json.items()
            if key not in ("entities", "caption_entities")
        }
        message.json = {**old, **_worded(text, "text" not in old), "edit_date": int(time.time())}
        message.shown = replace(message.shown, text=text, edits=message.shown.edits + 1)
        if self.world.nosy or reaches_the_bot(message.json):
            self.world.push({"edited_message": message.json})
        self.world.tell()

    def press(self, person: str, message_id: str, data: str) -> str:
        """A button is pressed; the query's id."""
        query = {
            "id": str(8_000_000 + self.world.last_update + 1),
            "from": self.world.person(person),
            "chat_instance": "1",
            "message": self.world.messages[int(message_id)].json,
            "data": data,
        }
        self.world.queries[query["id"]] = query
        self.world.push({"callback_query": query})
        return query["id"]

    def react(self, person: str, message_id: str, emoji: str) -> None:
        """A person reacts to a message; "" takes it back."""
        message = self.world.messages[int(message_id)]
        message.shown = replace(message.shown, reactions=(emoji,) if emoji else ())
        self.world.push(
            {
                "message_reaction": {
                    "chat": message.json["chat"],
                    "message_id": int(message_id),
                    "user": self.world.person(person),
                    "date": int(time.time()),
                    "old_reaction": [],
                    "new_reaction": [{"type": "emoji", "emoji": emoji}] if emoji else [],
                }
            }
        )

    def poison(self) -> None:
        """Another sort each time."""
        self.world.push(POISON[self.world.poisons % len(POISON)])
        self.world.poisons += 1

    def upgrade(self, chat: str, *, announced: bool = True) -> str:
        """The group becomes another, with another id: what is sent to the old one is refused. `announced`: the bot is told so,
        in both.
        """
        old = self.world.chats[int(chat)]
        new = {**old, "id": int(chat) - 1}
        self.world.chats[new["id"]] = new
        old["migrated_to"] = new["id"]
        news = ((old, "migrate_to_chat_id", new), (new, "migrate_from_chat_id", old))
        for where, key, other in news if announced else ():
            service = self.world.new_message(dict(where), self.world.person("ann"))
            self.world.push({"message": service | {key: other["id"]}})
        return str(new["id"])

    def bot_message(self, text: str, chat: str) -> str:
        """What the bot wrote before, known to the platform only."""
        message = self.world.new_message(
            self.world.chats[int(chat)], {"id": BOT_ID, "is_bot": True, "first_name": "House"}
        )
        self.world.keep(
            message | {"text": text},
            Shown(str(message["message_id"]), "bot", text, by_bot=True),
            (text, (), None),
        )
        return str(message["message_id"])


def _worded(text: str, caption: bool) -> Json:
    if not text:
        return {}
    found = entities(text)
    names = ("caption", "caption_entities") if caption else ("text", "entities")
    return {names[0]: text} | ({names[1]: found} if found else {})


def _kind(name: str) -> str:
    if name.endswith(IMAGES):
        return "photo"
    return "voice" if name.endswith(VOICES) else "document"
