"""What servers say in place of an answer: the words are found wherever they stand, and mean a class."""

import json

import pytest

from daemon.core.errors import ErrorClass
from daemon.providers.errors import make_error

BEHIND = json.dumps({"error": {"message": "This model's maximum context length is 8192 tokens"}})
SHAPES = {
    "another server's, as a text (OpenRouter)": (
        {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": BEHIND}}},
        "Provider returned error: This model's maximum context length is 8192 tokens",
    ),
    "another server's words": (
        {"error": {"message": "Provider returned error", "metadata": {"raw": "no tools here"}}},
        "Provider returned error: no tools here",
    ),
    "JSON as the message": ({"error": {"code": 400, "message": BEHIND}}, json.loads(BEHIND)["error"]["message"]),
    "a list of errors (Cloudflare)": ({"errors": [{"message": "no such thing"}], "success": False}, "no such thing"),
    "msg": ({"code": 400, "msg": "no such thing", "success": False}, "no such thing"),
    "MiniMax": ({"base_resp": {"status_code": 2013, "status_msg": "invalid params"}}, "invalid params"),
    "a code and a description": ({"error": "bad", "error_description": "no such thing"}, "no such thing"),
    "a code and a message": ({"error": "Bad Request", "message": "no such thing"}, "no such thing"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "words"), SHAPES.values(), ids=SHAPES.keys())
def test_the_words_are_found_wherever_they_stand_a7(body: object, words: str) -> None:
    assert str(make_error(json.dumps(body).encode(), 400)) == words


def said(message: str, **more: object) -> object:
    return {"error": {"message": message, **more}}


TOO_LONG, BILLING = ErrorClass.CONTEXT_TOO_LONG, ErrorClass.BILLING
CLASSES = [
    (SHAPES["another server's, as a text (OpenRouter)"][0], 400, TOO_LONG),
    (said("`inputs` must have less than 4096 tokens, so the input is refused"), 422, TOO_LONG),
    (said("length of prompt_tokens (9000) must be less than max_seq_len (8192)."), 400, TOO_LONG),
    (said("the request exceeds the available context size"), 500, TOO_LONG),
    (said("the prompt is longer than what is allowed", code="1261"), 400, TOO_LONG),
    ({"base_resp": {"status_code": 1039, "status_msg": "too much"}}, None, TOO_LONG),
    ({"base_resp": {"status_code": 1008, "status_msg": "no money"}}, None, BILLING),
    ({"base_resp": {"status_code": 1002, "status_msg": "too often"}}, None, ErrorClass.RATE_LIMIT),
    ({"base_resp": {"status_code": 2049, "status_msg": "bad"}}, None, ErrorClass.AUTH),
    (said("Access denied", code="Arrearage"), 400, BILLING),
    (said("Your account balance is negative. Please recharge."), 403, BILLING),
    (said("not in words", code="1113"), 429, BILLING),
    (said("Content Exists Risk"), 400, ErrorClass.FILTERED),
    (said("x is not a valid model ID"), 400, ErrorClass.NOT_FOUND),
    (said("The model `x` has been decommissioned"), 400, ErrorClass.NOT_FOUND),
    (said("not here", code="model_not_supported"), 400, ErrorClass.NOT_FOUND),
    (said("For this model, 'max_tokens' is not supported"), 400, ErrorClass.BAD_REQUEST),
    (said("tools[0].function.input_text is longer than max_name"), 400, ErrorClass.BAD_REQUEST),
]


@pytest.mark.parametrize(("body", "status", "kind"), CLASSES, ids=range(len(CLASSES)))
def test_words_and_codes_mean_a_class_a7(
    body: object, status: int | None, kind: ErrorClass
) -> None:
    assert make_error(json.dumps(body).encode(), status).kind is kind
