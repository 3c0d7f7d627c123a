"""Contents of responses: reasoning models, best_of, seeds, log-probabilities to the byte, embeddings."""
import json
import math
import re
import shutil

import pytest
import torch

from serve_testing import MODEL, ROOT

QUESTION = [{"role": "user", "content": "Who are you?"}]
PERSON = {"type": "object", "properties": {"name": {"enum": ["Ann", "Bo"]}}, "required": ["name"], "additionalProperties": False}
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"], "additionalProperties": False}}}


def ask(server, path, body, status=200):
    code, _, text = server.post(path, body)
    assert code == status, text
    return json.loads(text)


def complete(server, **fields):
    return ask(server, "/v1/completions", {"max_tokens": 16, **fields})["choices"]


def events(server, path, body):
    code, _, text = server.post(path, {**body, "stream": True})
    assert code == 200, text
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]


def ids_of(server, text):
    return ask(server, "/tokenize", {"prompt": text})["tokens"]


@pytest.fixture(scope="module")
def thinker(serve, tmp_path_factory):
    """models/nano with a template that opens the thought, spelled in many tokens."""
    folder = tmp_path_factory.mktemp("thinker") / "nano"
    shutil.copytree(MODEL, folder)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config["chat_template"] = config["chat_template"].replace("<|im_start|>assistant\\n' }}", "<|im_start|>assistant\\n<think>\\n' }}")
    assert "<think>" in config["chat_template"]
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return serve("--verbose", "false", model=folder)


def test_a_held_answer_of_a_thinking_model_is_its_content(thinker):
    shaped = {"type": "json_schema", "json_schema": {"name": "p", "schema": PERSON}}
    message = thinker.chat(response_format=shaped, max_tokens=200)["choices"][0]["message"]
    assert json.loads(message["content"])["name"] in ("Ann", "Bo") and "reasoning_content" not in message
    text = "".join(e["choices"][0]["delta"].get("content", "") for e in events(thinker, "/v1/chat/completions", {"messages": QUESTION, "response_format": shaped, "max_tokens": 200}))
    assert json.loads(text)["name"] in ("Ann", "Bo")
    call = thinker.chat(tools=[WEATHER], tool_choice="required", max_tokens=200)["choices"][0]["message"]["tool_calls"][0]
    assert json.loads(call["function"]["arguments"])["city"] in ("Paris", "Rome")


def test_a_thought_that_the_prompt_opens_is_a_thought(thinker):
    assert len(ids_of(thinker, "<think>\n")) > 4
    message = thinker.chat(max_tokens=12, ignore_eos=True)["choices"][0]["message"]
    assert message["reasoning_content"] and message["content"] == ""


def test_an_empty_completion_is_not_the_best_beam(server):
    end = str(ids_of(server, "<|im_end|>")[0])
    asked = {"prompt": "The sky is", "max_tokens": 6, "temperature": 1, "seed": 3, "logit_bias": {end: 12}}
    every = complete(server, **asked, n=16, logprobs=0)
    assert any(choice["text"] == "" for choice in every) and any(choice["text"] for choice in every), "some end at once"
    assert complete(server, **asked, n=1, best_of=16)[0]["text"], "an end that is unlikely counts as unlikely"
    two = complete(server, **asked, n=2, best_of=16, logprobs=0)
    assert two[0]["text"] == complete(server, **asked, n=1, best_of=16)[0]["text"], "the most likely comes first"


def test_neighbouring_seeds_share_no_answer(server):
    def answers(seed):
        return {choice["text"] for choice in complete(server, prompt="Once", temperature=3, seed=seed, n=4, max_tokens=24, ignore_eos=True)}

    assert answers(7) == answers(7)
    assert not answers(7) & answers(8) and not answers(8) & answers(9)


def test_each_chat_of_a_list_is_read_by_its_own_settings(server):
    plain = {"messages": QUESTION, "structured_outputs": {"choice": ['{"name": "x", "arguments": {}} is text']}}
    calls = {"messages": QUESTION, "tools": [WEATHER], "tool_choice": "required"}
    for requests in ([calls, plain], [plain, calls]):
        found = ask(server, "/infer/", {"infer_requests": requests, "request_config": {"max_tokens": 100}})
        for reply, request in zip(found, requests, strict=True):
            message = reply["choices"][0]["message"]
            if request is calls:
                assert message["tool_calls"][0]["function"]["name"] == "get_weather"
            else:
                assert message["content"] == plain["structured_outputs"]["choice"][0] and "tool_calls" not in message


def test_log_probabilities_name_the_bytes_of_parts_of_characters(server):
    held = {"structured_outputs": {"choice": ["a 🙂 b"]}}
    entries = server.chat(**held, logprobs=True, top_logprobs=20)["choices"][0]["logprobs"]["content"]
    assert bytes(byte for entry in entries for byte in entry["bytes"]).decode() == "a 🙂 b"
    assert any("\ufffd" in entry["token"] for entry in entries), "a token here is a part of a character"
    choice = complete(server, prompt="x", **held, logprobs=20)[0]
    shown = choice["logprobs"]
    assert len({len(top) for top in shown["top_logprobs"]}) == 1 and len(shown["top_logprobs"][0]) == 20, "none of the alternatives is lost"
    assert re.search(r"bytes:(\\x[0-9a-f]{2})+", "".join(shown["tokens"]))
    read = b"".join(bytes.fromhex(t[6:].replace("\\x", "")) if t.startswith("bytes:") else t.encode() for t in shown["tokens"])
    assert read.decode() == choice["text"]
    assert shown["text_offset"][-1] < len(choice["text"])


def test_an_echoed_prompt_streams_with_its_log_probabilities(server):
    asked = {"prompt": ["The sky is", "I am"], "max_tokens": 4, "temperature": 0, "echo": True, "logprobs": 2, "n": 2}
    whole = complete(server, **asked)
    streamed = [{"text": "", "tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []} for _ in whole]
    for event in events(server, "/v1/completions", asked):
        part, choice = streamed[event["choices"][0]["index"]], event["choices"][0]
        part["text"] += choice["text"]
        for name, values in (choice["logprobs"] or {}).items():
            part[name] += values
    for part, choice in zip(streamed, whole, strict=True):
        assert part["text"] == choice["text"]
        for name in ("tokens", "text_offset"):
            assert part[name] == choice["logprobs"][name]
        assert part["token_logprobs"][0] is None
        assert part["token_logprobs"][1:] == pytest.approx(choice["logprobs"]["token_logprobs"][1:], abs=1e-2)


@pytest.mark.parametrize("path, body", [("/v1/chat/completions", {"messages": QUESTION}), ("/v1/completions", {"prompt": "x"})])
def test_what_a_stream_cannot_return_is_refused(server, path, body):
    assert ask(server, path, {**body, "stream": True, "prompt_logprobs": 1}, 400)["error"]["param"] == "prompt_logprobs"
    assert ask(server, path, {**body, "max_tokens": 1, "prompt_logprobs": 1})


def test_the_user_is_in_the_log(serve):
    server = serve("--log_interval", "-1")
    user = {"user": "ann\nfrom afar"}
    for path, body in (("/v1/chat/completions", {"messages": QUESTION, "max_tokens": 1, **user}), ("/v1/completions", {"prompt": "x", "max_tokens": 1, **user}),
                       ("/v1/embeddings", {"input": "x", **user}), ("/infer/", {"infer_requests": [{"messages": QUESTION}], "request_config": {"max_tokens": 1, **user}})):
        ask(server, path, body)
        assert server.wait_for(lambda: f"POST {path} 200" in server.log())
        line = next(line for line in server.log().splitlines() if f"POST {path} 200" in line)
        assert line.endswith('user "ann\\nfrom afar"'), "on one line, whatever the name"


def test_every_field_that_does_something_is_read(server):
    files = [f for f in (ROOT / "src/hone/serve").rglob("*.cpp") if f.parent.name not in ("schema", "bench")]
    read = set(re.findall(r'"(\w+)"', "".join(f.read_text() for f in files)))
    paths = json.loads(server.get("/openapi.json")[2])["paths"]
    fields = {name: field for path in paths.values() for name, field in path["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"].items()}
    unread = sorted(name for name, field in fields.items() if "Accepted without effect" not in field["description"] and name not in read)
    assert not unread, f"documented, yet nothing reads them: {unread}"


def pooled(hidden, how):
    count = len(hidden)
    weights = torch.arange(1, count + 1, dtype=hidden.dtype).unsqueeze(1)
    return {"last": lambda: hidden[-1], "cls": lambda: hidden[0], "mean": lambda: hidden.mean(0), "max": lambda: hidden.max(0).values,
            "weightedmean": lambda: (hidden * weights).sum(0) / weights.sum(), "mean_sqrt_len": lambda: hidden.sum(0) / math.sqrt(count)}[how]()


def test_embeddings_are_pooled_as_the_folder_says(serve, tmp_path):
    import transformers
    tokenizer, model = transformers.AutoTokenizer.from_pretrained(MODEL), transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
    folder = tmp_path / "nano"
    shutil.copytree(MODEL, folder)
    modules = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}, {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text(json.dumps({"word_embedding_dimension": model.config.hidden_size, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}))
    server = serve("--verbose", "false", "--torch_dtype", "float32", model=folder)
    for text in ("the sea", "a hill in spring and the river below it " * 60):  # the second is computed in parts
        ids = tokenizer.encode(text)
        with torch.no_grad():
            hidden = model.model(torch.tensor([ids])).last_hidden_state[0]
        found = ask(server, "/v1/embeddings", {"input": text})["data"][0]["embedding"]
        assert found == pytest.approx(pooled(hidden, "mean").tolist(), abs=1e-4), "and not made of length 1: no such module is there"
        for how in ("last", "cls", "max", "weightedmean", "mean_sqrt_len"):
            found = ask(server, "/v1/embeddings", {"input": text, "pooling": how})["data"][0]["embedding"]
            assert found == pytest.approx(pooled(hidden, how).tolist(), abs=2e-4), how
    assert len(ids) > 512
