"""The methods of Slack's web API, as strict as the real ones."""

from collections.abc import Callable
from typing import Any

from tests.fakes.slack.workspace import (
    BOT,
    BOT_ID,
    MOST_STREAM,
    MOST_UPDATE,
    TEAM,
    ApiError,
    Channel,
    Json,
    Workspace,
    checked,
)

EVENT = (
    "user",
    "ts",
    "text",
    "thread_ts",
    "blocks",
    "bot_id",
    "files",
    "subtype",
    "edited",
    "attachments",
    "team",
    "metadata",
    "username",
    "bot_profile",
    "user_profile",
)


class Methods:
    """`url` is the server's root. `echo(channel, message)` tells the app of a message; `whisper(user, text)` shows somebody a
    text. `forgotten`: methods that this Slack does not know; `bare_history`: the app lacks the scope for the history.
    """

    def __init__(
        self,
        work: Workspace,
        echo: Callable[[Channel, Json], None],
        whisper: Callable[[str, str], None],
    ) -> None:
        self.work, self._echo, self.whisper = work, echo, whisper
        self.url = ""
        self.open_socket: Callable[[], str] = str
        self.forgotten: set[str] = set()
        self.pending: dict[str, tuple[str, bytes]] = {}
        self.bare_history = False

    def call(self, method: str, arguments: Json) -> Json:
        """What the method answers. Raises ApiError."""
        known = getattr(self, "_" + method.replace(".", "_").lower(), None)
        if known is None or method in self.forgotten:
            raise ApiError("unknown_method", req_method=method)
        return {"ok": True, **known(arguments)}

    def _auth_test(self, asked: Json) -> Json:
        return {
            "url": self.url,
            "team": "Fake",
            "user": "aidaemon",
            "team_id": TEAM,
            "user_id": BOT,
            "bot_id": BOT_ID,
        }

    def _apps_connections_open(self, asked: Json) -> Json:
        return {"url": self.open_socket()}

    def _chat_postmessage(self, asked: Json) -> Json:
        channel = self.work.channel(asked.get("channel"))
        message = self.work.post(channel, BOT, **checked(asked))
        self._clear_status(channel, message)
        self._echo(channel, message)
        return {"channel": channel.id, "ts": message["ts"], "message": message}

    def _chat_update(self, asked: Json) -> Json:
        message = self.work.own(asked.get("channel"), asked.get("ts"))
        if message.get("streaming_state") == "in_progress":
            raise ApiError("streaming_state_conflict")
        new = checked(asked, MOST_UPDATE)
        message["text"] = new["text"]
        if "blocks" in asked:
            message["blocks"] = new["blocks"]
        message["metadata"] = new["metadata"] or message.get("metadata")
        message["edits"] = message.get("edits", 0) + 1
        return {"channel": asked["channel"], "ts": message["ts"], "text": message["text"]}

    def _chat_delete(self, asked: Json) -> Json:
        message = self.work.own(asked.get("channel"), asked.get("ts"))
        del self.work.channel(asked["channel"]).messages[message["ts"]]
        return {"channel": asked["channel"], "ts": message["ts"]}

    def _chat_postephemeral(self, asked: Json) -> Json:
        channel = self.work.channel(asked.get("channel"))
        if asked.get("user") not in channel.members:
            raise ApiError("user_not_in_channel")
        text, thread = checked(asked)["text"], asked.get("thread_ts")
        if not thread or any(
            message.get("thread_ts") == thread for message in channel.messages.values()
        ):
            self.whisper(str(asked["user"]), text)  # in a thread that has not begun nobody sees it
        return {"message_ts": self.work.ts()}

    def _chat_startstream(self, asked: Json) -> Json:
        channel = self.work.channel(asked.get("channel"))
        if not asked.get("thread_ts"):
            raise ApiError(
                "invalid_arguments",
                response_metadata={"messages": ["[ERROR] missing required field: thread_ts"]},
            )
        if channel.kind != "im" and not (
            asked.get("recipient_user_id") and asked.get("recipient_team_id")
        ):
            raise ApiError("missing_recipient_user_id")
        text = self._streamed(asked)
        message = self.work.post(
            channel, BOT, text=text, thread_ts=asked["thread_ts"], streaming_state="in_progress"
        )
        return {"channel": channel.id, "ts": message["ts"]}

    def _chat_appendstream(self, asked: Json) -> Json:
        message = self._stream(asked)
        message["text"] += self._streamed(asked)
        return {"channel": asked["channel"], "ts": message["ts"]}

    def _chat_stopstream(self, asked: Json) -> Json:
        message = self._stream(asked)
        message["text"] += self._streamed(asked)
        message["streaming_state"] = "completed"
        message["metadata"] = asked.get("metadata")
        return {"channel": asked["channel"], "ts": message["ts"], "message": message}

    def _stream(self, asked: Json) -> Json:
        message = self.work.own(asked.get("channel"), asked.get("ts"))
        if message.get("streaming_state") != "in_progress":
            raise ApiError("message_not_in_streaming_state")
        return message

    def _streamed(self, asked: Json) -> str:
        text = str(asked.get("markdown_text") or "")
        if len(text) > MOST_STREAM:
            raise ApiError("msg_too_long")
        return text

    def _assistant_threads_setstatus(self, asked: Json) -> Json:
        channel = self.work.channel(asked.get("channel_id"))
        if not asked.get("thread_ts"):
            raise ApiError("invalid_arguments")
        self.work.statuses[channel.id, str(asked["thread_ts"])] = str(asked.get("status", ""))
        return {}

    def _clear_status(self, channel: Channel, message: Json) -> None:
        self.work.statuses.pop((channel.id, message.get("thread_ts", "")), None)

    def _conversations_history(self, asked: Json) -> Json:
        tops = [
            m
            for m in self._since(asked)
            if m.get("thread_ts") in (None, m["ts"]) or m.get("subtype") == "thread_broadcast"
        ]
        page = self._page(list(reversed(tops)), asked)
        page["messages"] = [self._as_read(message, asked) for message in page["messages"]]
        return page

    def _conversations_replies(self, asked: Json) -> Json:
        parent = self.work.message(asked.get("channel"), asked.get("ts"))["ts"]
        replies = [
            m for m in self._since(asked) if m.get("thread_ts") == parent and m["ts"] != parent
        ]
        page = self._page([self.work.message(asked["channel"], parent), *replies], asked)
        page["messages"] = [self._as_read(message, asked) for message in page["messages"]]
        return page

    def _since(self, asked: Json) -> list[Json]:
        if self.bare_history:
            raise ApiError("missing_scope", needed="channels:history", provided="chat:write")
        messages = self.work.channel(asked.get("channel")).messages.values()
        oldest, latest = float(asked.get("oldest") or 0), float(asked.get("latest") or "inf")
        return [message for message in messages if oldest < float(message["ts"]) < latest]

    def _as_read(self, message: Json, asked: Json) -> Json:
        hidden = {"edits", "reactions_by"} | (
            set() if _true(asked.get("include_all_metadata")) else {"metadata"}
        )
        read = {key: value for key, value in message.items() if key not in hidden}
        messages = self.work.where(message["ts"]).messages.values()
        replies = [m for m in messages if m.get("thread_ts") == message["ts"] and m is not message]
        if not replies:
            return read
        users = list(dict.fromkeys(m["user"] for m in replies))
        thread = {
            "thread_ts": message["ts"],
            "reply_count": len(replies),
            "latest_reply": replies[-1]["ts"],
        }
        return read | thread | {"reply_users": users, "reply_users_count": len(users)}

    def _page(self, rows: list[Any], asked: Json, key: str = "messages") -> Json:
        start, limit = int(asked.get("cursor") or 0), min(int(asked.get("limit") or 100), 999)
        more = start + limit < len(rows)
        after = {"response_metadata": {"next_cursor": str(start + limit) if more else ""}}
        return {key: rows[start : start + limit], "has_more": more, **after}

    def _conversations_info(self, asked: Json) -> Json:
        channel = self.work.channel(asked.get("channel"), member=False)
        if channel.kind != "channel" and BOT not in channel.members:
            raise ApiError(
                "channel_not_found"
            )  # what is between others is not even known to be there
        return {"channel": _described(channel)}

    def _users_conversations(self, asked: Json) -> Json:
        types = str(asked.get("types") or "public_channel").split(",")
        kinds = {
            "public_channel": "channel",
            "private_channel": "private",
            "im": "im",
            "mpim": "mpim",
        }
        wanted = {kinds[kind] for kind in types if kind in kinds}
        member = [
            channel
            for channel in self.work.channels.values()
            if BOT in channel.members and channel.kind in wanted
        ]
        page = self._page([_described(channel) for channel in member], asked, "channels")
        if _true(
            asked.get("exclude_archived")
        ):  # Slack looks at that last: a page may be short though there is more
            page["channels"] = [row for row in page["channels"] if not row["is_archived"]]
        return page

    _conversations_list = _users_conversations

    def _conversations_open(self, asked: Json) -> Json:
        names = [
            self.work.names[user]
            for user in str(asked.get("users", "")).split(",")
            if user in self.work.names
        ]
        if not names:
            raise ApiError("user_not_found")
        return {"channel": {"id": self.work.open("im" if len(names) == 1 else "mpim", *names).id}}

    def _users_info(self, asked: Json) -> Json:
        user = str(asked.get("user"))
        if user not in self.work.names:
            raise ApiError("user_not_found")
        return {
            "user": {
                "id": user,
                "name": self.work.names[user],
                "profile": {"display_name": self.work.names[user]},
            }
        }

    def _reactions_add(self, asked: Json) -> Json:
        by = self.work.message(asked.get("channel"), asked.get("timestamp")).setdefault(
            "reactions_by", []
        )
        if (BOT, asked.get("name")) in by:
            raise ApiError("already_reacted")
        by.append((BOT, asked.get("name")))
        return {}

    def _files_getuploadurlexternal(self, asked: Json) -> Json:
        if not asked.get("filename") or int(asked.get("length") or 0) < 1:
            raise ApiError("invalid_arguments")
        file_id = f"F{self.work.ts().replace('.', '')}"
        self.pending[file_id] = (str(asked["filename"]), b"")
        return {"upload_url": f"{self.url}/upload/v1/{file_id}", "file_id": file_id}

    def _files_completeuploadexternal(self, asked: Json) -> Json:
        channel = self.work.channel(asked.get("channel_id"))
        kept = [self._completed(file) for file in asked.get("files") or []]
        text, thread = str(asked.get("initial_comment") or ""), asked.get("thread_ts")
        message = self.work.post(
            channel, BOT, text=text, thread_ts=thread, files=kept, subtype="file_share"
        )
        for file in kept:
            file["shares"] = {"private": {channel.id: [{"ts": message["ts"], "thread_ts": thread}]}}
        self._echo(channel, message)
        return {"files": [{"id": file["id"], "title": file["title"]} for file in kept]}

    def _completed(self, file: Json) -> Json:
        name, data = self.pending.pop(str(file.get("id")), ("", b""))
        if not data:
            raise ApiError("file_not_found")
        described = self.work.keep_file(self.url, name, data, BOT)
        self.work.files[str(file["id"])] = self.work.files.pop(described["id"])
        described |= {"id": file["id"], "title": file.get("title") or name}
        return described

    def _files_info(self, asked: Json) -> Json:
        if asked.get("file") not in self.work.files:
            raise ApiError("file_not_found")
        return {"file": self.work.files[str(asked["file"])][0]}


def _true(value: object) -> bool:
    return value in (True, 1, "1", "true", "True")


def _described(channel: Channel) -> Json:
    kinds = {
        "is_im": channel.kind == "im",
        "is_mpim": channel.kind == "mpim",
        "is_channel": channel.kind == "channel",
    }
    return {
        "id": channel.id,
        "is_member": BOT in channel.members,
        "is_archived": channel.archived,
        **kinds,
    }
