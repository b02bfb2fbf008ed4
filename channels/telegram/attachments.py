"""The files of a message."""

import mimetypes
from collections.abc import Iterator

from channels.message import Attachment
from channels.telegram.wire import File, Message

WEBP, WEBM, LOTTIE = ("photo", "image/webp"), ("video", "video/webm"), ("document", "application/x-tgsticker")


def attachments(message: Message) -> tuple[Attachment, ...]:
    """What can be fetched of it; names are made up where Telegram has none."""
    return tuple(_attachment(file, kind, mime, message.message_id) for file, kind, mime in _files(message))


def _files(message: Message) -> Iterator[tuple[File, str, str]]:
    if message.photo:
        yield max(message.photo, key=lambda size: size.file_size or 0), "photo", "image/jpeg"
    if message.document and not message.animation:  # an animation comes as both
        yield message.document, "document", "application/octet-stream"
    if message.sticker:
        yield message.sticker, *_sticker(message.sticker)
    for file, kind, mime in (
        (message.voice, "voice", "audio/ogg"),
        (message.audio, "audio", "audio/mpeg"),
        (message.video, "video", "video/mp4"),
        (message.video_note, "video", "video/mp4"),
        (message.animation, "video", "video/mp4"),
    ):
        if file:
            yield file, kind, mime


def _sticker(sticker: File) -> tuple[str, str]:
    if sticker.is_animated:
        return LOTTIE
    return WEBM if sticker.is_video else WEBP


def _attachment(file: File, kind: str, mime: str, number: int) -> Attachment:
    mime = file.mime_type or mime
    name = file.file_name or f"{kind}_{number}{_ending(mime)}"
    return Attachment(kind, name, mime, file.file_size or 0, file.file_id)


def _ending(mime: str) -> str:
    return ".ogg" if mime == "audio/ogg" else mimetypes.guess_extension(mime) or ".bin"
