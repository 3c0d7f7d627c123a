"""The oracle of the chat template tests: transformers' own renderer, and a hone process that renders one request a line."""
import json
import os
import subprocess

from transformers.utils.chat_template_utils import render_jinja_template


def render_with_transformers(template, request):
    """("text", rendered text, answer spans in bytes) or ("error", message)."""
    variables = dict(request.get("vars", {}))
    try:
        texts, spans = render_jinja_template(
            conversations=[request.get("messages", [])],
            tools=request.get("tools"),
            documents=request.get("documents"),
            chat_template=template,
            return_assistant_tokens_mask=True,
            add_generation_prompt=request.get("add_generation_prompt", False),
            **variables,
        )
    except RecursionError:
        return ("error", "recursion")
    except Exception as reason:
        return ("error", f"{type(reason).__name__}: {reason}")
    text = texts[0]
    in_bytes = [[len(text[:begin].encode("utf-8", "replace")), len(text[:end].encode("utf-8", "replace"))] for begin, end in spans[0]]
    return ("text", text, in_bytes)


class HoneRenderer:
    def __init__(self, binary):
        self.process = subprocess.Popen(
            [binary, "render", "--format", "jsonl"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(os.environ)
        )

    def render(self, template, request):
        line = json.dumps({**request, "template": template}) + "\n"
        self.process.stdin.write(line.encode())
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"hone render ended with {self.process.wait()} on {line[:2000]}")
        result = json.loads(answer)
        if "error" in result:
            return ("error", result["error"])
        return ("text", result["text"], result["answers"])

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=10)


def differences(ours, theirs):
    """None when both refuse or both give the same text and spans."""
    if ours[0] != theirs[0]:
        return f"hone: {ours}\njinja2: {theirs}"
    if ours[0] == "text" and ours != theirs:
        return f"hone: {ours[1]!r} {ours[2]}\njinja2: {theirs[1]!r} {theirs[2]}"
    return None
