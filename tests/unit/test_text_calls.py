"""Calls that a model writes into its text: nearly JSON, Python, headings, tags; an example stays text."""

import json

import pytest

from daemon.providers.text_calls import find_text_calls

OFFERED = ("read_file", "web_search")
JSON = '{"name": "read_file", "arguments": {"path": "x"}}'
PLAIN = "{'name': 'read_file', 'arguments': {'path': 'x'}}"
PYTHON = "read_file(path='x')"
INVOKE = '<{0}:invoke name="read_file"><{0}:parameter name="path">x</{0}:parameter></{0}:invoke>'
WRITTEN = {
    "a dict of Python's": PLAIN,
    "a dict of Python's in a tag": f"<tool_call>\n{PLAIN}\n</tool_call>",
    "a comma too many": '<tool_call>{"name": "read_file", "arguments": {"path": "x",}}</tool_call>',
    "keys without quotes": '{name: "read_file", arguments: {path: "x"}}',
    "Gemini": f"print(default_api.{PYTHON})",
    "Gemma's fence": f"```tool_code\nprint({PYTHON})\n```",
    "Gemma's fence with a name for what comes": f"```tool_code\nfound = {PYTHON}\nprint(found)\n```",
    "a tag around Python": f"<tool_code>\n{PYTHON}\n</tool_code>",
    "OpenAI's namespace": 'functions.read_file({"path": "x"})',
    "Llama's method": '<|python_tag|>read_file.call(path="x")',
    "words before a token and Python": f"<|tool_call_start|>[{PYTHON}]<|tool_call_end|>",
    "ReAct": 'Thought: I must look.\nAction: read_file\nAction Input: {"path": "x"}',
    "ReAct that makes up what comes": 'Action: read_file\nAction Input: {"path": "x"}\nObservation: 7\nFinal Answer: 7',
    "ReAct in JSON": 'Action:\n```json\n{"action": "read_file", "action_input": {"path": "x"}}\n```',
    "a result that is made up": f"<tool_call>{JSON}</tool_call>\n<tool_response>\n7\n</tool_response>\nIt is 7.",
    "a tag of another name": f"<tool_use>\n{JSON}\n</tool_use>",
    "a tag like the list's": f"<tools>\n{JSON}\n</tools>",
    "Phi": f"functools[{JSON}]",
    "tags with a prefix": "<x:function_calls>" + INVOKE.format("x") + "</x:function_calls>",
    "Mistral with an id": '[TOOL_CALLS]read_file[CALL_ID]a1b2[ARGS]{"path": "x"}',
    "DeepSeek 3.1": '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read_file<｜tool▁sep｜>{"path": "x"}<｜tool▁call▁end｜>',
    "Gemma 4": '<|tool_call>call:read_file{path:<|"|>x<|"|>}<tool_call|>',
    "FunctionGemma": "<start_function_call>call:read_file{path:<escape>x<escape>}<end_function_call>",
    "a whole message": '{"role": "assistant", "content": "", "tool_calls": [' + JSON + "]}",
}


@pytest.mark.parametrize("text", WRITTEN.values(), ids=WRITTEN.keys())
def test_a_call_is_read_in_whatever_form_p15(text: str) -> None:
    before, calls = find_text_calls(text, OFFERED)
    assert [(name, json.loads(given)) for name, given in calls] == [("read_file", {"path": "x"})]
    assert before == ""


def test_two_lines_of_python_are_two_calls() -> None:
    calls = find_text_calls(f"```tool_code\n{PYTHON}\nread_file(path='y')\n```", OFFERED)[1]
    assert [json.loads(given) for _, given in calls] == [{"path": "x"}, {"path": "y"}]


def test_words_before_a_token_stay() -> None:
    text = f"I look.<|tool_call_start|>[{PYTHON}]<|tool_call_end|>"
    assert find_text_calls(text, OFFERED) == ("I look.", [("read_file", '{"path": "x"}')])


EXAMPLES = [
    f"So:\n```python\nprint(default_api.{PYTHON})\n```",
    f"So:\n```tool_code\n{PYTHON}\n```",
    f"So:\n~~~\n<tool_call>{JSON}</tool_call>\n~~~",
    f"So:\n\n    <tool_call>{JSON}</tool_call>",
    f"You said:\n> <tool_call>{JSON}</tool_call>",
    'So:\n```\nAction: read_file\nAction Input: {"path": "x"}\n```',
    'A model writes "Action: read_file", then "Action Input:", then {"path": "x"}',
    f"<tool_call>{PLAIN}</tool_call> is how it looks.",
    "```python\nclient.read_file(path='x')\n```",
    f"{PYTHON} reads it.",
    "read_file(path=name)",
    "read_file(path=open('x').read())",
    "(" * 50_000 + "read_file",
    "{'name': 'read_file' " + '\\"' * 40_000,
    "read_file(" + "[" * 50_000 + "]" * 50_000 + ")",
    "The tag </|DSML|invoke> ends a call of read_file.",
]


@pytest.mark.parametrize("text", EXAMPLES, ids=range(len(EXAMPLES)))
def test_what_is_an_example_or_no_call_stays_as_it_is_p15(text: str) -> None:
    assert find_text_calls(text, OFFERED) == (text, [])
