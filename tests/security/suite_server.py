"""A real MCP server over stdin and stdout that plays one of the recorded suites: `suite_server.py DATA SUITE STATE LOG`.

STATE holds what an attacker has written wherever the recording has a mark for it; LOG gets a JSON line for every executed call.
A call that was not recorded is executed all the same, and says so.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

Json = dict[str, Any]
MARK = re.compile(r"---CANARY_[^-]*---")


def key(tool: str, arguments: object) -> str:
    """The same for the recorded call and for the one that is made: no mark stands in it."""
    return MARK.sub("", json.dumps([tool, arguments], sort_keys=True))


def tables(text: str) -> list[Json] | list[str]:
    """The records that a text lists, as the service has them: `- name: x`, `key: y`, lists of single values; or a list of names."""
    lines = text.splitlines()
    if lines and all(re.fullmatch(r"- [^\s:]+", line) for line in lines):
        return [line[2:] for line in lines]
    found: list[Json] = [{}]
    for line in text.splitlines():
        begins, pair = line.startswith("- "), re.fullmatch(r"(?:- |  )?([a-z_]+): ?(.*)", line)
        if begins and pair:
            found.append({})
        if pair:
            found[-1][pair[1]] = pair[2].strip("'") or []
        elif (item := re.fullmatch(r" *- (.*)", line)) and found[-1]:
            last = next(reversed(found[-1]))
            if isinstance(found[-1][last], list):
                found[-1][last].append(item[1].strip("'"))
    return [record for record in found if record]


class SuiteServer:
    def __init__(self, data: Path, suite: str, state: Path, log: Path) -> None:
        recorded = json.loads(data.read_text())["suites"][suite]
        self.state, self.log = state, log
        self.tools = [
            {
                "name": tool["name"],
                "description": tool["description"],
                "inputSchema": tool["parameters"] | {"type": "object"},
                "outputSchema": {"type": "object", "required": ["records"]},
            }
            for tool in recorded["tools"]
        ]
        self.outputs: dict[str, str] = {}
        for task in recorded["user_tasks"]:
            for call, step in zip(task["calls"], task["steps"], strict=True):
                output = step["output"] or step["error"] or ""
                self.outputs.setdefault(key(call["tool"], call["args"]), output)

    def serve(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if "id" in message and "method" in message:
                answer = self.answer(message["method"], message.get("params") or {})
                sys.stdout.write(
                    json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}) + "\n"
                )
                sys.stdout.flush()

    def answer(self, method: str, params: Json) -> Json:
        match method:
            case "initialize":
                info = {"name": "suite", "version": "1"}
                known = {
                    "protocolVersion": params["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": info,
                }
                return {"result": known}
            case "tools/list":
                return {"result": {"tools": self.tools}}
            case "tools/call":
                text = self.call(params)
                content = [{"type": "text", "text": text}]
                return {
                    "result": {"content": content, "structuredContent": {"records": tables(text)}}
                }
            case _:
                return {"error": {"code": -32601, "message": f"no such method: {method}"}}

    def call(self, params: Json) -> str:
        tool, arguments = params["name"], params.get("arguments") or {}
        with self.log.open("a") as log:
            log.write(json.dumps({"tool": tool, "arguments": arguments}) + "\n")
        attack = self.state.read_text()
        output = self.outputs.get(key(tool, arguments), "done")
        return MARK.sub(lambda _: attack, output)


if __name__ == "__main__":
    data, suite, state, log = sys.argv[1:]
    SuiteServer(Path(data), suite, Path(state), Path(log)).serve()
