"""A real MCP server over stdin and stdout, of the kind with a handshake, that plays a script: `mcp_server.py SCRIPT LOG`.

The script is JSON, read anew for every request, so a test may change it while the server runs:

    {"tools": [{"name": "send", "description": "...", "inputSchema": {...}, "annotations": {...}}],
     "outputs": {"send": [{"arguments": {"to": "bob"}, "text": "sent"}, {"text": "what holds for all other arguments"}]}}

Of the outputs of a tool the first whose "arguments" are exactly those of the call is taken, or the first without any; with none
the arguments come back as JSON. An output may have:

    "text", "content" (a list of MCP content blocks instead of the text), "structured" (structuredContent), "error": true
    "rpc_error": {"code", "message"}   the request itself fails
    "result": anything                 is the result, in place of all that
    "raw": {...} or text               is the whole answer; $ID in a text is the request's id
    "delay": seconds                   before the answer
    "crash": "before" | "after"        the server dies before or after it has done what was asked, without an answer
    "kills": "before" | "after"        so does, by its hand and by SIGKILL, the process that started it
    "silent": true                     it is done, but never answered
    "becomes": {...}                   keys of the script that are different from now on; list_changed is told before the answer
    "asks": [{"method", "params"}]     requests to the client before the answer; what it said is in the log. With "patience" it
                                       waits only so many seconds, and then withdraws the request

Keys of the script itself: "crash_at": "start" | "list" (dies then), "slow_start": seconds, "stderr": text printed at the start,
"noise": a line of rubbish on stdout, "stubborn": stays when its input has ended, "page": tools per page of tools/list,
"bare": the tools are listed exactly as they stand here, "answers": {"METHOD" or "METHOD CURSOR": the result, as it is}.

LOG gets a JSON line for everything that was executed: {"tool", "arguments"}, and {"started": pid, "for": parent} for every start,
{"listed": n} for every tools/list, {"answer": ...} for every answer of the client.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

Json = dict[str, Any]
MINE = "ask-"


class Server:
    def __init__(self, script: Path, log: Path) -> None:
        self.file, self.log = script, log
        self.becomes: Json = {}
        self.answered: dict[str, threading.Event] = {}
        self.writing = threading.Lock()

    @property
    def script(self) -> Json:
        return json.loads(self.file.read_text()) | self.becomes

    def note(self, line: Json) -> None:
        with self.writing, self.log.open("a") as log:
            log.write(json.dumps(line) + "\n")

    def send(self, message: Json) -> None:
        with self.writing:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            sys.stdout.flush()

    def send_raw(self, raw: object, number: int) -> None:
        text = raw if isinstance(raw, str) else json.dumps(raw)
        with self.writing:
            sys.stdout.write(text.replace("$ID", str(number)) + "\n")
            sys.stdout.flush()

    def serve(self) -> None:
        self.note({"started": os.getpid(), "for": os.getppid(), "env": sorted(os.environ)})
        script = self.script
        sys.stderr.write(script.get("stderr", ""))
        sys.stderr.flush()
        if script.get("crash_at") == "start":
            os._exit(3)
        time.sleep(script.get("slow_start", 0))
        if "noise" in script:
            sys.stdout.write(script["noise"] + "\n")
        for line in sys.stdin:
            self.take(json.loads(line))
        while script.get("stubborn"):
            time.sleep(60)

    def take(self, message: Json) -> None:
        if "method" not in message:
            self.note({"answer": message.get("error") or message.get("result")})
            self.answered[message["id"]].set()
        elif "id" in message:
            threading.Thread(target=self.answer, args=(message,), daemon=True).start()
        elif message["method"] == "notifications/cancelled":
            self.note({"cancelled": message["params"].get("requestId")})

    def answer(self, message: Json) -> None:
        method, params = message["method"], message.get("params") or {}
        known = {"initialize": self.initialize, "tools/list": self.tools, "tools/call": self.call}
        by_script = self.script.get("answers", {}).get(f"{method} {params.get('cursor') or ''}".strip())
        if by_script is not None:
            said: Json | None = {"result": by_script}
        elif method not in known:
            said = {"error": {"code": -32601, "message": f"no method {method}"}}
        else:
            said = known[method](params)
        if said is not None and "raw" in said:
            self.send_raw(said["raw"], message["id"])
        elif said is not None:
            self.send({"id": message["id"], **said})

    def initialize(self, params: Json) -> Json:
        info = {"name": "scripted", "version": "1"}
        version = params.get("protocolVersion", "2025-06-18")
        return {
            "result": {
                "protocolVersion": version,
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": info,
            }
        }

    def tools(self, params: Json) -> Json:
        script = self.script
        if script.get("crash_at") == "list":
            os._exit(4)
        tools = script.get("tools", [])
        if not script.get("bare"):
            tools = [{"inputSchema": {"type": "object"}, **tool} for tool in tools]
        self.note({"listed": len(tools) if isinstance(tools, list) else 0})
        if "page" not in script:
            return {"result": {"tools": tools}}
        begin = int(params.get("cursor") or 0)
        end = begin + script["page"]
        more = {"nextCursor": str(end)} if end < len(tools) else {}
        return {"result": {"tools": tools[begin:end], **more}}

    def call(self, params: Json) -> Json | None:
        name, arguments = params["name"], params.get("arguments") or {}
        output = self.output(name, arguments)
        self.die(output, "before")
        self.note({"tool": name, "arguments": arguments})
        self.die(output, "after")
        for number, request in enumerate(output.get("asks", ())):
            self.ask(f"{MINE}{name}-{number}", request)
        if "becomes" in output:
            self.becomes |= output["becomes"]
            self.send({"method": "notifications/tools/list_changed"})
        time.sleep(output.get("delay", 0))
        return None if output.get("silent") else self.said(output, arguments)

    def die(self, output: Json, when: str) -> None:
        if output.get("kills") == when:
            os.kill(os.getppid(), signal.SIGKILL)
        if output.get("crash") == when:
            os._exit(5)

    def output(self, name: str, arguments: Json) -> Json:
        outputs = self.script.get("outputs", {}).get(name, [])
        exact = [one for one in outputs if one.get("arguments") == arguments]
        return next(iter(exact or [one for one in outputs if "arguments" not in one]), {})

    def said(self, output: Json, arguments: Json) -> Json:
        if "rpc_error" in output:
            return {"error": output["rpc_error"]}
        if "raw" in output or "result" in output:
            return {key: output[key] for key in ("raw", "result") if key in output}
        content = output.get("content")
        if content is None:
            text = output.get("text", None if "structured" in output else json.dumps(arguments))
            content = [] if text is None else [{"type": "text", "text": text}]
        structured = {"structuredContent": output["structured"]} if "structured" in output else {}
        return {"result": {"content": content, "isError": bool(output.get("error")), **structured}}

    def ask(self, number: str, request: Json) -> None:
        self.answered[number] = threading.Event()
        patience = request.pop("patience", 10)
        self.send({"id": number, **request})
        if not self.answered[number].wait(patience):
            self.send({"method": "notifications/cancelled", "params": {"requestId": number}})


if __name__ == "__main__":
    Server(Path(sys.argv[1]), Path(sys.argv[2])).serve()
