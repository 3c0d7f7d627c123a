"""Token ids and labels equal to the peers', token for token, on the same rows.

HONE_PEERS_PYTHON names one or more Python programs (separated by ":") whose environments have ms-swift 4.6 and/or llamafactory 0.9.5.
"""
import itertools
import json
import os
import pathlib
import random
import subprocess
import sys

import pytest
from peers import python_with

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def probe():
    """The unit-test program that answers encoding requests."""
    path = os.environ.get("HONE_DATA_TEST") or ROOT / "build" / "data_test"
    if not pathlib.Path(path).exists():
        pytest.fail(f"{path} is not built; make test builds it")
    return str(path)


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    folder = pathlib.Path(os.environ.get("HONE_TEST_MODELS") or tmp_path_factory.mktemp("models"))
    for family in ("qwen2", "qwen3", "llama3"):
        if not (folder / f"{family}-tiny" / "tokenizer.json").exists():
            subprocess.run([sys.executable, ROOT / "tools" / "make_model.py", "--family", family, "--size", "tiny", "--out", folder / f"{family}-tiny"], check=True)
    return folder


WORDS = ["Hello", "world", "你好", "  spaces", "tab\there", "line\nbreak", "émigré", "123456", "🙂", "def f(x):\n    return x", "\n\n", "“quoted”", "<b>tag</b>",
         "The quick brown fox", "こんにちは", "a" * 40, "ends ", ".", "مرحبا"]


def text(rng):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 8)))


def thought(rng):
    return rng.choice(["", "<think>\n" + text(rng) + "\n</think>\n\n", "<think>\n\n</think>\n\n", "<think>short</think>"])


def talk(rng, rounds, system=None, thoughts=False):
    messages = [] if system is None else [{"role": "system", "content": system}]
    for _ in range(rounds):
        messages.append({"role": "user", "content": text(rng)})
        messages.append({"role": "assistant", "content": (thought(rng) if thoughts else "") + text(rng)})
    return messages


TOOLS = json.dumps([
    {"type": "function", "function": {"name": "get_weather", "description": "Weather of a city", "parameters": {
        "type": "object", "properties": {"city": {"type": "string", "description": "城市"}, "days": {"type": "integer"}, "unit": {"type": "string", "enum": ["C", "F"]}},
        "required": ["city"]}}},
    {"type": "function", "function": {"name": "add", "description": "Adds numbers", "parameters": {
        "type": "object", "properties": {"values": {"type": "array", "items": {"type": "number"}}}, "required": ["values"]}}}], ensure_ascii=False)


def call(name="get_weather", **arguments):
    return {"role": "tool_call", "content": json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)}


def tool_rows(parallel):
    one = [{"role": "user", "content": "Weather in Paris?"}, call(city="Paris", days=2), {"role": "tool", "content": '{"t": 20.5}'},
           {"role": "assistant", "content": "It is 20.5."}]
    rows = [{"messages": one, "tools": TOOLS},
            {"messages": [{"role": "system", "content": "Be brief."}] + one, "tools": TOOLS},
            {"messages": one[:2], "tools": TOOLS}]
    if parallel:
        both = [one[0], call(city="Paris"), call("add", values=[1, 2.5, -3]), one[2], {"role": "tool", "content": "0.5"}, one[3]]
        rows += [{"messages": both, "tools": TOOLS}, {"messages": both + [{"role": "user", "content": "Thanks"}, {"role": "assistant", "content": "Bye"}], "tools": TOOLS}]
    return rows


def rows_of(seed, thoughts=False, count=12):
    rng = random.Random(seed)
    systems = [None, "You are terse.", "多语言\n助手", ""]
    return [{"messages": talk(rng, rng.randint(1, 4), rng.choice(systems), thoughts)} for _ in range(count)]


def swift_only_rows(seed):
    """Shapes LLaMA-Factory has no form for."""
    rng = random.Random(seed)
    user = lambda: {"role": "user", "content": text(rng)}
    answer = lambda **more: {"role": "assistant", "content": text(rng), **more}
    return [{"messages": m} for m in (
        [user(), user(), answer()],
        [user(), answer(), answer()],
        [user(), answer(loss=False), user(), answer()],
        [user(), answer(loss=True), user(), answer(loss=False)],
        [user(), answer(loss_scale=0.5), user(), answer()],
        [user(), answer(loss=False), answer(), user(), answer(loss=True), answer(loss=False)],
        [answer()], [user(), answer(), user()],
        [user(), {"role": "assistant", "content": "done<|im_end|>"}],
        [user(), {"role": "assistant", "content": "x\nAction: search\nAction Input: q\nObservation: r\nThought: ok\nFinal Answer: 5"}],
        [user(), {"role": "assistant", "content": "<tool_call>\n{}\n</tool_call> and <tool_call>1</tool_call>"}])]


def ours(probe, requests, tmp_path):
    path = tmp_path / "requests.json"
    path.write_text(json.dumps(requests, ensure_ascii=False))
    done = subprocess.run([probe, "--gtest_filter=EncodeProbe.Answers"], env={**os.environ, "HONE_ENCODE_PROBE": str(path)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(pathlib.Path(str(path) + ".answer").read_text())


def theirs(python, script, requests, tmp_path):
    question, answer = tmp_path / "question.json", tmp_path / "peer.json"
    question.write_text(json.dumps(requests, ensure_ascii=False))
    done = subprocess.run([python, HERE / script, question, answer], capture_output=True, text=True, env={**os.environ, "PYTHONWARNINGS": "ignore"})
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(answer.read_text())


def compare(requests, mine, peers):
    problems, compared = [], 0
    for request, our_rows, their_rows in zip(requests, mine, peers):
        for row, a, b in zip(request["rows"], our_rows, their_rows):
            compared += 1
            if "error" in b:
                if "error" not in a:
                    problems.append((request["config"], row, "only the peer refuses", b["error"]))
                continue
            if "error" in a:
                problems.append((request["config"], row, "only hone refuses", a["error"]))
                continue
            for key in b:
                if key in a and a[key] != b[key]:
                    problems.append((request["config"], row, key, a[key], b[key]))
    assert not problems, f"{len(problems)} of {compared} differ; first: " + json.dumps(problems[0], ensure_ascii=False)[:6000]
    assert compared > 0


SWIFT_TEMPLATES = {"qwen2": ["qwen", "qwen2_5", "chatml", "qwen3_coder", "qwen3_guard", "gpt_oss"], "qwen3": ["qwen3", "qwen3_nothinking", "qwen3_thinking", "qwq", "qwen3_5", "ernie_thinking", "deepseek_v4", "deepseek_v4_flash", "glm5_2", "glm5_3",
                             "hy_v3", "hy_v3_preview", "kimi_k25", "ling3", "spark2_5", "gemma4", "gemma4_nothinking", "seed_oss"],
                   "llama3": ["llama3", "llama3_2", "youtu_llm"]}
EMPTY_SYSTEM = {"role": "system", "content": ""}
FIXED_THINKING = ["glm5_3", "ling3"]  # ms-swift does not ask the option there; hone does
AGENTS = ["hermes", "react_en", "react_zh", "qwen_en", "qwen_zh", "qwen_en_parallel", "llama3", "qwen3_coder", "qwen3_5", "glm4", "glm4_5", "mistral", "minicpm5", "seed_oss", "deepseek_v3_1",
          "deepseek_v4", "deepseek_v41", "minimax_m2", "minimax_m3", "hy_v3_preview", "hy_v3", "kimi_k25", "kimi_k3", "youtu", "toolbench"]


def swift_request(models, family, config, rows):
    return {"model": str(models / f"{family}-tiny"), "model_type": {"llama3": "llama"}.get(family, family), "config": {"dialect": "swift", **config}, "rows": rows}


def is_merged(row):
    """Answers in a row become one turn of several parts, which ms-swift's ernie_thinking cannot add text to (TypeError)."""
    roles = [message["role"] for message in row["messages"]]
    answers = ("assistant", "tool_call")
    return any(a in answers and b in answers for a, b in zip(roles, roles[1:]))


@pytest.mark.peer("swift")
def test_ms_swift(probe, models, tmp_path):
    python = python_with("swift")
    requests = []
    for family, templates in SWIFT_TEMPLATES.items():
        for template in templates:
            thoughts = family == "qwen3" or template == "youtu_llm"
            rows = rows_of(template, thoughts) + swift_only_rows(template)
            if template == "ernie_thinking":
                rows = [row for row in rows if not is_merged(row)]
            if template == "kimi_k25":  # an empty system text gives an empty turn there, none in hone
                rows = [row for row in rows if row["messages"][0] != EMPTY_SYSTEM]
            prompts = [{**row, "prompt": True} for row in rows_of(template + "p", thoughts, 6) if template != "kimi_k25" or row["messages"][0] != EMPTY_SYSTEM]
            prompts = [{**row, "messages": row["messages"][:-1]} for row in prompts]
            add = lambda rows=rows, **config: requests.append(swift_request(models, family, {"template": template, **config}, rows))
            add()
            add(prompts)
            add(system="Custom system")
            for loss_scale in ("last_round", "all", "react", "hermes", "last_round+hermes+ignore_empty_think", "ignore_think_prefix", "alpha_umi"):
                add(loss_scale=loss_scale)
            for truncation in ("left", "right", "split") if template not in ("kimi_k25", "gemma4", "gemma4_nothinking") else ():  # ms-swift asks its image processor there
                add(truncation=truncation, max_length=24)
            if template not in ("ernie_thinking", "seed_oss"):  # wrap plain text in tags too; hone learns it as it is written
                add(use_chat_template=False, loss_scale="all", rows=[{"messages": [{"role": "assistant", "content": text(random.Random(i))}]} for i in range(5)])
            if thoughts and template not in FIXED_THINKING:
                for flag in (True, False):
                    add(enable_thinking=flag)
                    add(prompts, enable_thinking=flag)
                    add(preserve_thinking=flag)
            rejected = [{"messages": r["messages"], "rejected": r["messages"][:-1] + [{"role": "assistant", "content": "no"}]} for r in rows_of(template + "r", thoughts, 5)
                        if template != "kimi_k25" or r["messages"][0] != EMPTY_SYSTEM]
            add(rejected, loss_scale="last_round")
    for agent in AGENTS:
        family = "llama3" if agent == "llama3" else "qwen2"
        template = "llama3" if agent == "llama3" else "qwen2_5"
        requests.append(swift_request(models, family, {"template": template, "tool_format": agent}, tool_rows(True)))
        requests.append(swift_request(models, family, {"template": template, "tool_format": agent, "loss_scale": "last_round"}, tool_rows(True)))
    compare(requests, ours(probe, requests, tmp_path), theirs(python, "ask_swift.py", requests, tmp_path))


@pytest.mark.peer("swift")
def test_templates_of_models_that_judge(probe, models, tmp_path):
    """Qwen3-Embedding closes every text; Qwen3-Reranker puts question and candidate into one turn."""
    pair = lambda rng, *system: {"messages": [*system, {"role": "user", "content": text(rng)}, {"role": "assistant", "content": text(rng)}]}
    rng, task = random.Random(5), {"role": "system", "content": "Find the answer."}
    texts = [{"messages": pair(rng, *more)["messages"][:-1]} for more in ((), (task,)) for _ in range(4)]
    requests = [swift_request(models, "qwen3", {"template": "qwen3_emb"}, texts + rows_of("emb", count=4)),
                swift_request(models, "qwen3", {"template": "qwen3_reranker"}, [pair(rng, *more) for more in ((), (task,)) for _ in range(4)])]
    compare(requests, ours(probe, requests, tmp_path), theirs(python_with("swift"), "ask_swift.py", requests, tmp_path))


# Templates whose stop words the vocabulary has: others make the peer add tokens to its tokenizer.
FACTORY_TEMPLATES = {"qwen2": ["qwen", "chatml", "default", "alpaca", "vicuna", "empty", "fewshot", ""], "qwen3": ["qwen3", "qwen3_nothink", ""],
                     "llama3": ["llama3", "llama2", "mistral", "deepseek3", ""]}


@pytest.mark.peer("llamafactory")
def test_llama_factory(probe, models, tmp_path):
    python = python_with("llamafactory")
    requests = []
    for family, templates in FACTORY_TEMPLATES.items():
        for template in templates:
            thoughts = family == "qwen3"
            rows = rows_of(template, thoughts)
            add = lambda rows=rows, **config: requests.append(
                {"model": str(models / f"{family}-tiny"), "config": {"dialect": "factory", "template": template, **config}, "rows": rows})
            add()
            for cutoff, history in itertools.product((20, 50, 100, 1000), (False, True)):
                add(max_length=cutoff, mask_history=history)
            if template != "fewshot":  # efficient EOS
                add(train_on_prompt=True, max_length=60)
            add(system="Custom system")
            add([{"messages": [{"role": "user", "content": text(random.Random(i))}], "plain_text": True} for i in range(5)], pretraining=True)
            if thoughts:
                for enable, history, preserve in itertools.product((True, False, None), (True, False), (True, False)):
                    add(enable_thinking=enable, mask_history=history, preserve_thinking=preserve)
            rejected = [{"messages": r["messages"], "rejected": r["messages"][:-1] + [{"role": "assistant", "content": "no"}]} for r in rows_of(template + "r", thoughts, 5)]
            add(rejected, max_length=40)
    for tool_format in ("default", "glm4", "llama3", "mistral", "qwen", "qwen3_5", "glm4_moe", "seed_oss", "ling", "minimax1", "minimax2", "lfm2"):
        requests.append({"model": str(models / "qwen2-tiny"), "config": {"dialect": "factory", "template": "qwen", "tool_format": tool_format}, "rows": tool_rows(False)})
    requests.append({"model": str(models / "qwen2-tiny"), "config": {"dialect": "factory", "template": "qwen"}, "rows": tool_rows(False)})
    requests.append({"model": str(models / "llama3-tiny"), "config": {"dialect": "factory", "template": "llama3"}, "rows": tool_rows(False)})
    compare(requests, ours(probe, requests, tmp_path), theirs(python, "ask_factory.py", requests, tmp_path))
