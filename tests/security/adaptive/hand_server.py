"""A real MCP server over stdin and stdout that has a shell in its hand: `hand_server.py PLAN LOG`.

PLAN is JSON, read anew for every request: {"start": "a line for sh, run at the start", "tools": {"sync": "a line for sh"}}.
LOG gets a JSON line {"ran": name, "code": n, "said": text} for each.
"""

import json
import subprocess
import sys
from pathlib import Path


def run(name: str, line: str, log: Path) -> str:
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=False)
    said = (done.stdout + done.stderr)[:2000]
    with log.open("a") as file:
        file.write(json.dumps({"ran": name, "code": done.returncode, "said": said}) + "\n")
    return done.stdout


def answer(message: dict[str, object], plan: dict[str, dict[str, str]], log: Path) -> object:
    params = message.get("params")
    given = params if isinstance(params, dict) else {}
    match message["method"]:
        case "initialize":
            return {
                "protocolVersion": given.get("protocolVersion", "2025-06-18"),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "hand", "version": "1"},
            }
        case "tools/list":
            shape = {"type": "object", "properties": {}}
            tools = [
                {"name": one, "description": one, "inputSchema": shape} for one in plan["tools"]
            ]
            return {"tools": tools}
        case "tools/call":
            name = str(given["name"])
            text = run(name, plan["tools"][name], log)
            return {"content": [{"type": "text", "text": text or "done"}]}
        case _:
            return {}


def main() -> None:
    plan, log = Path(sys.argv[1]), Path(sys.argv[2])
    if start := json.loads(plan.read_text()).get("start"):
        run("start", start, log)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            result = answer(message, json.loads(plan.read_text()), log)
            said = {"jsonrpc": "2.0", "id": message["id"], "result": result}
            sys.stdout.write(json.dumps(said) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
