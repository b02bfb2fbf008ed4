"""How the API knows its own thinking again: by its signature, by what stood before it, and by the thought before it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from daemon.core.messages import ModelRequest, Native
from daemon.providers.anthropic import Anthropic, AnthropicReplyBuilder
from tests.fakes.adapters import prepare
from tests.fakes.anthropic.rules import THOUGHTS, Json, blocks


@dataclass(frozen=True, slots=True)
class Thought:
    """A block that was sent, what it was thought about, the thought before it, and the calls it led to."""

    block: Json
    prefix: str
    before: str
    calls: frozenset[str]


@dataclass(slots=True)
class Thoughts:
    """All that a server has ever thought. `bound`: it takes nothing back behind a changed conversation, as newer models."""

    bound: bool = True
    known: dict[str, Thought] = field(default_factory=dict)

    def remember(self, body: Json, content: list[Json]) -> None:
        """These blocks are sent in answer to this request."""
        calls = frozenset(block["id"] for block in content if block["type"] == "tool_use")
        before = next(
            (key_of(b) for _, b in reversed(list(blocks(body))) if b["type"] in THOUGHTS), ""
        )
        for block in content:
            if block["type"] in THOUGHTS:
                self.known[key_of(block)] = Thought(block, prefix_of(body, None), before, calls)
                before = key_of(block)

    def faults(self, body: Json) -> Iterator[str]:
        """What is wrong with the thinking in this request."""
        before = ""
        for index, message in enumerate(body["messages"]):
            for block in message["content"]:
                if block["type"] in THOUGHTS:
                    yield from self._fault(body, index, block, before)
                    before = key_of(block)
        yield from self._missing(body)

    def _fault(self, body: Json, index: int, block: Json, before: str) -> Iterator[str]:
        thought = self.known.get(key_of(block))
        where = f"messages.{index}: Invalid `signature` in `{block['type']}` block."
        if thought is None or thought.block != block:
            yield f"{where} `thinking` blocks cannot be modified."
        elif self.bound and (
            prefix_of(body, index) != thought.prefix or before not in ("", thought.before)
        ):
            yield f"{where} The block is bound to a different conversation."

    def _missing(self, body: Json) -> Iterator[str]:
        """What led to calls that wait for this request's results must be there, if it may be."""
        replied = body["messages"][-2]["content"] if len(body["messages"]) > 1 else []
        made = {block["id"] for block in replied if block["type"] == "tool_use"}
        for thought in self.known.values():
            allowed = not self.bound or thought.prefix == prefix_of(body, len(body["messages"]) - 2)
            if made & thought.calls and allowed and thought.block not in replied:
                yield "The thinking that led to these calls was left out"


def key_of(block: Json) -> str:
    """What a block of thinking is known by."""
    return str(block.get("signature") or block.get("data"))


def prefix_of(body: Json, index: int | None) -> str:
    """Everything before this message, but for markers of the cache and other thinking."""
    said = [
        (
            message["role"],
            [bare(block) for block in message["content"] if block["type"] not in THOUGHTS],
        )
        for message in body["messages"][:index]
    ]
    return json.dumps(
        [
            [bare(tool) for tool in body.get("tools", [])],
            [bare(b) for b in body.get("system", [])],
            said,
        ]
    )


def bare(block: Json) -> Json:
    """A block without its marker."""
    return {key: value for key, value in block.items() if key != "cache_control"}


def make_own_native(
    provider: str, model: str, prefix: str, content: Sequence[Mapping[str, object]]
) -> Native:
    """A reply's own blocks; `prefix` names what stood before it when it was thought."""
    return Native(provider, model, json.dumps({"prefix": prefix, "content": content}))


def encode_request(model: str, request: ModelRequest, stream: bool = False) -> tuple[bytes, str]:
    """The body of a call, and the name of what its reply is thought about."""
    body, builder = prepare(Anthropic, model, request, stream)
    assert isinstance(builder, AnthropicReplyBuilder)
    return body, builder.prefix
