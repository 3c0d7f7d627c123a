"""Tool calls: what is a call and what only looks like one, truncated calls, and tools for models whose chat template has none."""
import json
import shutil

import pytest

from serve_testing import MODEL

QUESTION = {"role": "user", "content": "Weather?"}
F = {"type": "function", "function": {"name": "f", "description": "Does f.", "parameters": {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"]}}}
HISTORY = [QUESTION, {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"city": "Paris"}'}}]},
           {"role": "tool", "tool_call_id": "1", "content": "rain"}]


def answer(server, **fields):
    return server.chat("Weather?", tools=[F], **{"max_tokens": 200, **fields})["choices"][0]


def writes(text):
    """Holds the model's output to `text`."""
    return {"structured_outputs": {"choice": [text]}}


def prompt(server, messages=(QUESTION,), **fields):
    status, _, body = server.post("/tokenize", {"messages": list(messages), **fields})
    assert status == 200, body
    return json.loads(server.post("/detokenize", {"tokens": json.loads(body)["tokens"]})[2])["prompt"]


@pytest.fixture(scope="module")
def llama(serve):
    return serve("--verbose", "false", "--template", "llama3_2")


@pytest.fixture(scope="module")
def hermes(serve):
    return serve("--verbose", "false", "--agent_template", "hermes")


@pytest.mark.parametrize("text", ['{"name": "Bob", "age": 3}', '{"name": "Bob"} is my answer', '{"name": "f"}', '{"name": "f", "arg'])
def test_an_answer_in_json_is_no_call(llama, text):
    choice = answer(llama, **writes(text))
    assert choice["message"]["content"] == text and "tool_calls" not in choice["message"] and choice["finish_reason"] == "stop"


def test_a_call_of_llama_is_one(llama):
    choice = answer(llama, **writes('{"name": "f", "parameters": {"city": "Rome"}}'))
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"city": "Rome"}'} and choice["finish_reason"] == "tool_calls"


def test_a_call_without_arguments_has_none(server):
    choice = answer(server, **writes('<tool_call>{"name":"g"}</tool_call>'))
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "g", "arguments": "{}"}


@pytest.mark.parametrize("torn", ['<tool_call>{"name": "f", "arg', '<tool_call>{"name": "f", "arguments": {"city": '])
def test_a_call_that_breaks_off_is_text(server, torn):
    choice = answer(server, **writes(torn))
    assert choice["message"]["content"] == torn and "tool_calls" not in choice["message"] and choice["finish_reason"] == "stop"


@pytest.mark.parametrize("tokens", [2, 8, 12])
def test_a_forced_call_that_is_cut_is_text(server, tokens):
    choice = answer(server, tool_choice="required", max_tokens=tokens)
    assert choice["finish_reason"] == "length" and "tool_calls" not in choice["message"] and choice["message"]["content"].lstrip().startswith("{")


def test_tools_reach_a_model_whose_template_knows_none(server, hermes):
    plain, tooled = prompt(server), prompt(server, tools=[F])
    assert "Does f." in tooled and "Does f." not in plain and "<tool_call>" in tooled and tooled.endswith(plain)
    assert prompt(hermes, tools=[F]) == tooled
    text = prompt(server, [{"role": "system", "content": "Be brief."}, *HISTORY], tools=[F])
    assert text.startswith("<|im_start|>system\nBe brief.\n\n# Tools") and '<|im_start|>assistant\n<tool_call>\n{"name": "f", "arguments": {"city": "Paris"}}\n</tool_call><|im_end|>' in text
    assert "<|im_start|>user\n<tool_response>\nrain\n</tool_response><|im_end|>" in text
    assert '"arguments": {"city": "Paris"}' in prompt(server, HISTORY)


def test_an_agent_template_of_ones_own(serve, tmp_path):
    react = serve("--verbose", "false", "--agent_template", "react_en")
    assert "Action: f\nAction Input:" in prompt(react, HISTORY, tools=[F]) and "Use the following format:" in prompt(react, tools=[F])
    folder = tmp_path / "nano"  # its template has no place for a system text either
    shutil.copytree(MODEL, folder)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config["chat_template"] = "{% for m in messages %}{% if m.role != 'system' %}[{{ m.role }}]{{ m.content }}{% endif %}{% endfor %}"
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    text = prompt(serve("--verbose", "false", model=folder), tools=[F])
    assert text.startswith("[user]") and "Does f." in text and text.endswith("Weather?")


def test_a_template_without_agent_format_says_so(serve):
    status, _, body = serve("--verbose", "false", "--template", "zephyr").post("/v1/chat/completions", {"messages": [QUESTION], "tools": [F]})
    assert status == 400 and "agent_template" in body
