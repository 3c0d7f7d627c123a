"""The serving commands: names, adapters, the front ends' settings, and errors before the model is loaded."""
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from serve_testing import MODEL, ROOT


@pytest.fixture(scope="module")
def adapter(tmp_path_factory, request):
    """A small LoRA adapter of models/nano, made by peft."""
    import peft
    import torch
    import transformers
    folder = tmp_path_factory.mktemp("adapters") / "loud"
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
    tuned = peft.get_peft_model(model, peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False))
    tuned.save_pretrained(folder)
    return folder


def answer(server, model, text="Who are you?"):
    return server.chat(text, model=model)["choices"][0]["message"]["content"]


def vector(server, model):
    status, _, body = server.post("/v1/embeddings", {"model": model, "input": "the sea at night"})
    assert status == 200, body
    return json.loads(body)["data"][0]["embedding"]


def models(server):
    return [m["id"] for m in json.loads(server.get("/v1/models")[2])["data"]]


def test_named_adapters_answer_by_their_name(serve, adapter):
    server = serve("--adapters", f"loud={adapter}", "--infer_backend", "vllm", "--served_model_name", "plain", "--torch_dtype", "float32")
    assert models(server) == ["plain", "loud"]
    assert answer(server, "plain") != answer(server, "loud")
    assert "hone runs its own engine" in server.log()
    alone = serve("--adapters", adapter, "--torch_dtype", "float32")
    merged = serve("--adapters", adapter, "--merge_lora", "true", "--torch_dtype", "float32")
    assert answer(server, "loud") == answer(alone, "nano") == answer(merged, "nano")
    loud, plain = vector(server, "loud"), vector(server, "plain")
    assert loud == pytest.approx(vector(merged, "nano"), abs=1e-4) and vector(alone, "nano") == pytest.approx(loud, abs=1e-6)
    assert max(abs(a - b) for a, b in zip(loud, plain)) > 1e-2, "embeddings are of the named model too"


@pytest.mark.parametrize("names, message", [(["nano"], 'the served model is called "nano" too'), (["a", "a"], '--adapters names "a" twice')])
def test_each_name_is_of_one_model(hone, adapter, names, message):
    done = hone("deploy", "--model", MODEL, "--adapters", *[f"{name}={adapter}" for name in names])
    assert done.returncode == 2 and message in done.stderr, done.stderr


def test_adapters_come_and_go_inside_the_named_folder(serve, adapter, tmp_path):
    shutil.copytree(adapter, tmp_path / "root/a/loud")
    (tmp_path / "outside").mkdir()
    shutil.copytree(adapter, tmp_path / "outside/secret")
    (tmp_path / "root/link").symlink_to(tmp_path / "outside")
    server = serve("--adapter_root", tmp_path / "root", "--verbose", "false", "--max_loras", "2")
    for name in ("../x", "a/../b", "/a", "a//b", "a/", ".", "..", "a b"):
        status, _, body = server.post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": "a/loud"})
        assert status == 400 and "lora_name" in body, name
    for path in ("../outside/secret", str(tmp_path / "outside/secret"), "link/secret", "a", "a/loud/adapter_config.json", "a/loud\0x"):
        status, _, body = server.post("/v1/load_lora_adapter", {"lora_name": "x", "lora_path": path})
        assert status == 400 and str(tmp_path) not in body, path
    assert server.post("/v1/load_lora_adapter", {"lora_name": "loud", "lora_path": "a/loud"})[0] == 200
    assert models(server) == ["nano", "loud"]
    assert answer(server, "loud") != answer(server, "nano")
    assert server.post("/v1/load_lora_adapter", {"lora_name": "loud", "lora_path": "a/loud"})[0] == 400
    assert server.post("/v1/unload_lora_adapter", {"lora_name": "loud"})[0] == 200
    assert server.post("/v1/load_lora_adapter", {"lora_name": "loud", "lora_path": str(tmp_path / "root/a/loud")})[0] == 200, "vLLM's clients send full paths"
    assert server.post("/v1/unload_lora_adapter", {"lora_name": "loud"})[0] == 200
    assert server.post("/v1/unload_lora_adapter", {"lora_name": "loud"})[0] == 404
    assert models(server) == ["nano"]
    load = lambda name: server.post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": "a/loud"})
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(load, [f"many/{i}" for i in range(8)]))
    assert sorted(answer[0] for answer in answers) == [200] * 2 + [409] * 6, "no more than --max_loras, however they come"
    assert all("at most 2 adapters" in answer[2] for answer in answers if answer[0] == 409)
    assert len(models(server)) == 3


def test_an_adapter_in_use_stays_until_its_answers_are_done(serve, adapter, endless, tmp_path):
    shutil.copytree(adapter, tmp_path / "root/loud")
    server = serve("--adapter_root", tmp_path / "root", "--verbose", "false", model=endless)
    load = lambda name, **more: server.post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": "loud", **more})[0]
    unload = lambda name: server.post("/v1/unload_lora_adapter", {"lora_name": name})[0]
    assert load("busy") == 200
    stream = server.open_stream(model="busy", max_tokens=None)
    assert server.wait_for(lambda: server.metric("hone_requests_running") == 1)
    assert unload("busy") == 409 and load("busy", load_inplace=True) == 409
    assert load("other") == 200 and unload("other") == 200, "others are loaded and unloaded at the same time"
    stream.close()
    assert server.wait_for(lambda: unload("busy") == 200), "whoever leaves lets go of it"
    assert models(server) == ["nano"]


def test_adapters_come_and_go_under_load(serve, adapter, tmp_path):
    for name in ("a", "b"):
        shutil.copytree(adapter, tmp_path / "root" / name)
    server = serve("--adapter_root", tmp_path / "root", "--verbose", "false", "--log_interval", "-1")
    plain = answer(server, "nano")

    def work(i):
        name = "ab"[i % 2]
        kind = i % 5
        if kind == 0:
            return server.post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": name})[0]
        if kind == 1:
            return server.post("/v1/unload_lora_adapter", {"lora_name": name})[0]
        return server.post("/v1/chat/completions", {"model": name if kind < 4 else "nano", "messages": [{"role": "user", "content": "Who are you?"}], "max_tokens": 8})[0]

    with ThreadPoolExecutor(12) as pool:
        statuses = set(pool.map(work, range(300)))
    assert 200 in statuses and statuses <= {200, 400, 404, 409}, statuses
    assert answer(server, "nano") == plain
    assert server.stop() == 0


def test_llamafactorys_api(serve):
    server = serve(program="llamafactory-cli", verb="api", env={"API_KEY": "k", "API_HOST": "127.0.0.1"})
    assert server.get("/v1/models")[0] == 401
    key = {"Authorization": "Bearer k"}
    assert json.loads(server.get("/v1/models", headers=key)[2])["data"][0]["id"] == "gpt-3.5-turbo"
    status, _, body = server.post("/v1/chat/completions", {"model": "whatever", "messages": [{"role": "user", "content": "hi"}], "do_sample": False}, headers=key)
    assert status == 200 and json.loads(body)["choices"][0]["message"]["content"]


@pytest.mark.parametrize("program, verb", [("swift", "app"), ("llamafactory-cli", "webchat")])
def test_the_page_is_served_from_the_binary(serve, program, verb):
    server = serve(program=program, verb=verb)
    status, headers, page = server.get("/")
    assert status == 200 and "text/html" in headers["Content-Type"] and "default-src 'none'" in headers["Content-Security-Policy"]
    for name in ("chat.js", "api.js", "markdown.js", "store.js", "style.css", "icon.svg"):
        assert server.get(f"/page/{name}")[0] == 200
    assert "innerHTML" not in "".join(p.read_text() for p in (ROOT / "src/hone/serve/page").glob("*.js"))
    assert server.get("/page/../server.cpp")[0] == 404


@pytest.mark.parametrize("flags, word", [
    (["--ssl_certfile", "x.pem"], "go together"),
    (["--adapters", f"bad name={ROOT / 'tests/train/checkpoints/schema-1/checkpoint-2'}"], "not a name for an adapter"),
    (["--adapters", "good=nowhere"], "no such folder"),
    (["--adapter_root", "/nowhere"], "no such folder"),
    (["--api_key", ""], "api_key is empty"),
    (["--max_new_tokens", "0"], "-1 fills the model's context"),
    (["--host", "300.300.300.300"], "--host"),
    (["--share", "true"], "third party"),
])
def test_mistakes_are_reported(hone, flags, word):
    done = hone("deploy", "--model", MODEL, "--port", "0", *flags)
    assert done.returncode == 2 and word in done.stderr


def test_the_log_shows_requests_and_rates(serve):
    server = serve("--log_interval", "1")
    server.chat()
    assert server.wait_for(lambda: "tokens/s" in server.log())
    assert "POST /v1/chat/completions 200" in server.log()


def test_metrics_are_prometheus(server):
    server.chat()
    text = server.get("/metrics")[2]
    for name in ("hone_time_to_first_token_seconds_bucket", "hone_generation_tokens_total", "hone_cache_blocks", "hone_http_responses_total"):
        assert name in text
    assert server.metric("hone_prompt_tokens_total") > 0


def test_tokenize_and_back(server):
    reply = json.loads(server.post("/tokenize", {"prompt": "The sky is blue.", "return_token_strs": True})[2])
    assert reply["count"] == len(reply["tokens"]) == len(reply["token_strs"]) and reply["max_model_len"] == 1024
    assert json.loads(server.post("/detokenize", {"tokens": reply["tokens"]})[2])["prompt"] == "The sky is blue."


def test_request_fields_are_documented(hone):
    assert (ROOT / "docs/request-fields.md").read_text() == hone("options", "--format", "requests").stdout


def test_copies_answer_as_one_and_share_adapters(serve, adapter):
    one = serve("--adapters", f"loud={adapter}", "--torch_dtype", "float32", "--verbose", "false")
    two = serve("--adapters", f"loud={adapter}", "--torch_dtype", "float32", "--verbose", "false", "--sglang_dp_size", 2)
    questions = [(text, model) for text in ("Who are you?", "hi", "Tell me a story.", "What is 2 + 2?") for model in ("nano", "loud")]
    wanted = [answer(one, model, text) for text, model in questions]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda question: answer(two, question[1], question[0]), questions)) == wanted
    assert one.metric("hone_generation_tokens_total") == two.metric("hone_generation_tokens_total") > 0


def test_threads_are_as_many_as_requested(serve):
    """Of the process, once it has computed: those that serve it are the same, those that compute are counted."""
    def threads(count):
        server = serve("--verbose", "false", "--threads", count)
        server.post("/v1/completions", {"prompt": "hello " * 300, "max_tokens": 4})
        assert "no effect" not in server.log()
        return len(list(Path(f"/proc/{server.process.pid}/task").iterdir()))

    assert threads(5) - threads(1) >= 4
