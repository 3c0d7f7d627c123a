"""Tool calls in every supported format: calls rendered into a prompt are parsed from a response, complete and streamed, and a forced call
uses the format. Compared with ms-swift and LLaMA-Factory on the same texts (HONE_PEERS_PYTHON)."""
import json
import os
import shutil
import subprocess

import openai
import pytest
from peers import python_with

from serve_testing import MODEL

QUESTION = {"role": "user", "content": "Weather?"}
CITY = {"city": {"type": "string", "enum": ["Paris", "Rome"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}}
TOOLS = [{"type": "function", "function": {"name": "forecast", "description": "The weather.", "parameters": {"type": "object", "properties": CITY, "required": ["city"]}}},
         {"type": "function", "function": {"name": "clock", "description": "The time.", "parameters": {"type": "object", "properties": {}}}}]
CALLS = [{"name": "forecast", "arguments": {"city": "Paris", "days": 3}}, {"name": "clock", "arguments": {}}]
SWIFT = {"react_zh": "Observation:", "qwen_en_parallel": "✿RESULT✿:", "hunyuan_hermes": "", "qwen3_coder": "", "qwen3_5": "", "glm4": "<|observation|>", "glm4_7": "<|observation|>",
         "mistral": "</s>"}
FACTORY = ["default", "qwen", "mistral", "seed_oss", "minimax1", "minimax2", "lfm2"]
BARE = [("swift", "glm4"), ("factory", "mistral")]  # without a mark, so only where an answer begins
FORMS = [("swift", name) for name in SWIFT] + [("factory", name) for name in FACTORY]


def start(serve, dialect, name):
    if dialect == "swift":
        return serve("--verbose", "false", "--agent_template", name)
    return serve("--template", "qwen", "--tool_format", name, program="llamafactory-cli", verb="api")


def rendered(server, messages):
    body = json.loads(server.post("/tokenize", {"messages": messages, "tools": TOOLS})[2])
    return json.loads(server.post("/detokenize", {"tokens": body["tokens"]})[2])["prompt"]


def written(server, dialect, name):
    """The calls as a prompt shows them: what stands between the question's end and the result."""
    calls = [{"id": str(i), "type": "function", "function": {"name": c["name"], "arguments": json.dumps(c["arguments"])}} for i, c in enumerate(CALLS)]
    history = [QUESTION, {"role": "assistant", "content": None, "tool_calls": calls}, {"role": "tool", "tool_call_id": "0", "content": "THE RESULT"}]
    before, after = rendered(server, [QUESTION]), rendered(server, history)
    assert after.startswith(before), (before[-80:], after[len(before) - 80:])
    text = after[len(before):].split("THE RESULT")[0]
    for end in ("<|im_end|>", SWIFT.get(name, "") if dialect == "swift" else ""):
        if end and end in text:
            text = text[:text.index(end)]
    return text.strip()


def called(message):
    return [{"name": c.function.name, "arguments": json.loads(c.function.arguments)} for c in message.tool_calls or []]


def ask(client, stream=False, **more):
    fields = {"model": "nano", "messages": [QUESTION], "tools": TOOLS, "temperature": 0, "max_tokens": 300, **more}
    if not stream:
        return client.chat.completions.create(**fields).choices[0]
    with client.chat.completions.stream(**fields) as events:  # the SDK puts the deltas together
        for _ in events:
            pass
        return events.get_final_completion().choices[0]


@pytest.mark.parametrize("dialect, name", FORMS, ids=[name for _, name in FORMS])
def test_what_is_written_is_read(serve, dialect, name):
    server = start(serve, dialect, name)
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none")
    text = written(server, dialect, name)
    assert "forecast" in text and "clock" in text
    prose = "" if (dialect, name) in BARE else "Well."
    for stream in (False, True):
        choice = ask(client, stream, extra_body={"structured_outputs": {"choice": [prose + text]}})
        assert called(choice.message) == CALLS and choice.finish_reason == "tool_calls", (text, choice)
        assert (choice.message.content or "") == prose
    forced = ask(client, True, tool_choice="required").message
    assert called(forced)[0]["name"] in ("forecast", "clock") and not forced.content
    named = called(ask(client, tool_choice={"type": "function", "function": {"name": "forecast"}}).message)
    assert len(named) == 1 and named[0]["name"] == "forecast" and named[0]["arguments"]["city"] in ("Paris", "Rome")
    assert named[0]["arguments"].get("days", 1) in range(1, 10)
    torn = text[:text.index("forecast") + 5]
    choice = ask(client, extra_body={"structured_outputs": {"choice": [torn]}})
    assert choice.message.content.strip() == torn.strip() and not choice.message.tool_calls, "text that is not a call is the answer"
    server.stop()


def test_the_template_determines_the_tool_format(serve, tmp_path):
    folder = tmp_path / "nano"
    shutil.copytree(MODEL, folder)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config["chat_template"] = "{{ tools }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{# <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>name<｜tool▁sep｜>{} #}"
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    client = openai.OpenAI(base_url=serve("--verbose", "false", model=folder).url + "/v1", api_key="none")
    text = '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>forecast<｜tool▁sep｜>{"city": "Paris", "days": 3}<｜tool▁call▁end｜><｜tool▁call▁begin｜>clock<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
    assert called(ask(client, extra_body={"structured_outputs": {"choice": [text]}}).message) == CALLS


PEERS = {"swift": "from swift.agent_template import agent_template_map as forms\nread = lambda name, text: [[f.name, f.arguments] for f in forms[name]().get_toolcall(text)]",
         "llamafactory": "from llamafactory.data.tool_utils import get_tool_utils\nread = lambda name, text: [list(f) for f in get_tool_utils(name).tool_extractor(text)]"}


def reads(python, module, questions):
    code = f"import json, sys\n{PEERS[module]}\nprint('ANSWER' + json.dumps([read(*q) for q in json.load(sys.stdin)]))"
    done = subprocess.run([python, "-c", code], input=json.dumps(questions), capture_output=True, text=True, env={**os.environ, "DISABLE_VERSION_CHECK": "1", "HF_HUB_OFFLINE": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.rsplit("ANSWER", 1)[1])


@pytest.mark.parametrize("module, dialect", [pytest.param(name, dialect, marks=pytest.mark.peer(name)) for name, dialect in (("swift", "swift"), ("llamafactory", "factory"))])
def test_peers_read_the_same(serve, module, dialect):
    python = python_with(module)
    python_literals = {"react_zh", "qwen_en_parallel", "glm4"}  # ms-swift hands on what Python printed; hone makes JSON of it
    unread = {"mistral", "hunyuan_hermes", "qwen3_5"} if dialect == "swift" else {"minimax2", "glm4_moe"}  # forms whose writer and reader disagree there
    names = [name for form, name in FORMS if form == dialect and name not in unread]
    texts = []
    for name in names:
        server = start(serve, dialect, name)
        texts.append(written(server, dialect, name) + SWIFT.get(name, "") * (dialect == "swift"))
        server.stop()
    for name, text, theirs in zip(names, texts, reads(python, module, list(zip(names, texts)))):
        assert [call[0].strip() for call in theirs] == [call["name"] for call in CALLS], (name, text, theirs)
        if name in python_literals:
            continue
        for (_, arguments), ours in zip(theirs, CALLS):
            given = json.loads(arguments) if isinstance(arguments, str) else arguments
            assert {k: str(v) for k, v in given.items()} == {k: str(v) for k, v in ours["arguments"].items()}, (name, theirs)
