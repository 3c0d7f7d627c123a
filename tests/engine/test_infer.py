"""`hone infer` answers as transformers' generate does, alone and in a batch, and its chat obeys its words."""
import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
QUESTIONS = ["hello there", "what is in the ring?", "a", "the other thing and the one behind it, then the next one in line"]


@pytest.fixture(scope="session", params=["qwen2", "qwen3", "llama3", "mistral"])
def folder(request, tmp_path_factory):
    out = tmp_path_factory.mktemp("infer") / request.param
    subprocess.run([sys.executable, str(ROOT / "tools/make_model.py"), "--family", request.param, "--vocab", "small", "--out", str(out)],
                   check=True, capture_output=True)
    return out


def peer_answers(folder, new_tokens):
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    answers = []
    for question in QUESTIONS:
        ids = tokenizer.apply_chat_template([{"role": "user", "content": question}], add_generation_prompt=True, return_tensors="pt",
                                            return_dict=True)["input_ids"]
        out = model.generate(ids, max_new_tokens=new_tokens, do_sample=False)[0, ids.shape[1]:]
        answers.append(tokenizer.decode(out, skip_special_tokens=True))
    return answers


@pytest.mark.parametrize("batch", [1, 4])
def test_greedy_answers_equal_transformers(hone, folder, tmp_path, batch):
    data = tmp_path / "questions.jsonl"
    data.write_text("".join(json.dumps({"messages": [{"role": "user", "content": q}, {"role": "assistant", "content": "x"}]}) + "\n" for q in QUESTIONS))
    result = tmp_path / "answers.jsonl"
    done = hone("infer", "--model", folder, "--template_backend", "jinja", "--val_dataset", data, "--result_path", result, "--max_new_tokens", 24,
                "--temperature", 0, "--max_batch_size", batch, "--torch_dtype", "float32")
    assert done.returncode == 0, done.stderr
    ours = [json.loads(line)["response"] for line in result.read_text().splitlines()]
    assert ours == peer_answers(folder, 24)


def test_rows_may_be_questions_alone(hone, folder, tmp_path):
    data, result = tmp_path / "questions.jsonl", tmp_path / "answers.jsonl"
    data.write_text("".join(json.dumps({"query": q}) + "\n" for q in QUESTIONS))
    done = hone("infer", "--model", folder, "--template_backend", "jinja", "--val_dataset", data, "--result_path", result, "--max_new_tokens", 24,
                "--temperature", 0, "--torch_dtype", "float32")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in result.read_text().splitlines()]
    assert [row["response"] for row in rows] == peer_answers(folder, 24)
    assert [row["labels"] for row in rows] == [None] * len(QUESTIONS)


def test_sampling_repeats_with_the_same_seed(hone, folder):
    def ask(seed):
        done = hone("infer", "--model", folder, "--max_new_tokens", 16, "--temperature", 1.0, "--seed", seed, stdin="hello\n")
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert ask(1) == ask(1)
    assert ask(1) != ask(2)


def test_chat_remembers_until_cleared(hone, folder):
    talk = lambda text: hone("infer", "--model", folder, "--max_new_tokens", 8, "--temperature", 0, stdin=text).stdout
    first = talk("hello\n").split("<<< ")[1]
    assert talk("the ring\nclear\nhello\n").split("<<< ")[3] == first
    assert talk("hello\nexit\nhello\n").count("<<< ") == 2
    assert "/multi-line" in talk("/help\n") and "/multi-line" not in talk("hello\n")


def test_a_prompt_beyond_the_context_is_refused_and_the_chat_goes_on(hone, folder):
    done = hone("infer", "--model", folder, "--max_new_tokens", 4, "--temperature", 0, stdin="the " * 40000 + "\nclear\nhello\n")
    assert done.returncode == 0, done.stderr
    assert "context holds" in done.stdout


def test_missing_model_names_where_it_looked(hone):
    done = hone("infer", "--model", "nobody/nothing")
    assert done.returncode == 2
    assert "not in the caches" in done.stderr
