"""`hone render --template NAME`: the built-in templates by both peers' names, compared with the publishers' templates."""
import json
import os
import pathlib

import pytest
from jinja_peer import render_with_transformers

SHARED = pathlib.Path(os.environ.get("HONE_SHARED", "../shared")) / "data" / "templates"
TALK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi <b>there</b>"}, {"role": "assistant", "content": "Hello!"}, {"role": "user", "content": "你好吗？"}]
# Name, the publisher's file, and the variables it is rendered with.
PUBLISHED = [("qwen2_5", "Qwen-Qwen2.5-7B-Instruct", {}), ("qwen3_nothinking", "Qwen-Qwen3-0.6B", {"enable_thinking": True}), ("kimi_k2", "Kimi-K2-Instruct", {}),
             ("deepseek_v4", "deepseek-ai-DeepSeek-V4", {"bos_token": "<｜begin▁of▁sentence｜>", "enable_thinking": False}),
             ("spark2_5", "Spark2.5", {"enable_thinking": False}),
             ("gemma4", "google-gemma-4-31B-it", {"bos_token": "<bos>", "enable_thinking": False})]


def rendered(program, *words, talk=TALK):
    done = program("render", *words, stdin=json.dumps(talk))
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name, file, variables", PUBLISHED, ids=[row[0] for row in PUBLISHED])
def test_names_equal_what_was_published(hone, name, file, variables):
    path = SHARED / f"{file}.jinja"
    if not path.exists():
        pytest.skip(f"no templates in {SHARED}; set HONE_SHARED to the folder that holds data/templates")
    kind, text, *_ = render_with_transformers(path.read_text(), {"messages": TALK, "add_generation_prompt": True, "vars": variables})
    assert kind == "text", text
    assert rendered(hone, "--template", name, "--add_generation_prompt") == text


def test_each_front_end_has_its_names(hone, factory):
    assert rendered(factory, "--template", "qwen", talk=TALK[1:]).startswith("<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.")
    assert rendered(hone, "--template", "fewshot", talk=TALK[1:2]) == "Hi <b>there</b>"  # LLaMA-Factory's alone
    assert rendered(factory, "--template", "llama2", talk=TALK[1:3]) == "<bos>[INST] Hi <b>there</b> [/INST]Hello!<eos>"


def test_a_models_tokens_stand_in_its_text(hone):
    nano = pathlib.Path(__file__).resolve().parents[2] / "models/nano"
    by_name = rendered(hone, "--model", nano, "--template", "chatml", talk=TALK[:3])
    assert by_name == rendered(hone, "--model", nano, talk=TALK[:3])


def test_lines_in_lines_out(hone):
    done = hone("render", "--template", "chatml", "--format", "jsonl", stdin=json.dumps(TALK[1:2]) + "\n[]\nnonsense\n")
    first, second, third = map(json.loads, done.stdout.splitlines())
    assert first["text"] == "<|im_start|>user\nHi <b>there</b><|im_end|>\n<|im_start|>assistant\n" and "error" in second and "error" in third


def test_mistakes(hone):
    done = hone("render", "--template", "qwen25", stdin=json.dumps(TALK))
    assert done.returncode == 2 and "neither a file nor a built-in template" in done.stderr
    done = hone("render", "--template", "chatml", "--add_generation_prompt", stdin=json.dumps(TALK[:3]))
    assert done.returncode == 2 and "ends with an assistant message" in done.stderr
    done = hone("render", "--template", "chatml", stdin='[{"role": "user"}]')
    assert done.returncode == 3 and "standard input:1" in done.stderr
