"""`hone infer --num_beams` and the server generate the same text as transformers' generate."""
import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models/nano"
QUESTIONS = ["Who are you?", "What is the capital of France?", "Tell me a story.", "hi"]


@pytest.fixture(scope="module")
def wanted():
    import transformers
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL)
    model = transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype="float32")
    answers = []
    for question in QUESTIONS:
        prompt = tokenizer.apply_chat_template([{"role": "user", "content": question}], add_generation_prompt=True, return_tensors="pt", return_dict=True)
        found = model.generate(**prompt, max_new_tokens=24, do_sample=False, num_beams=4, length_penalty=0.5)[0, prompt["input_ids"].shape[1]:]
        answers.append(tokenizer.decode(found, skip_special_tokens=True))
    return answers


@pytest.mark.parametrize("batch", [1, 4])
def test_beams_equal_transformers(hone, wanted, tmp_path, batch):
    data, result = tmp_path / "questions.jsonl", tmp_path / "answers.jsonl"
    data.write_text("".join(json.dumps({"query": q}) + "\n" for q in QUESTIONS))
    done = hone("infer", "--model", MODEL, "--template_backend", "jinja", "--val_dataset", data, "--result_path", result, "--max_new_tokens", 24, "--temperature", 0,
                "--num_beams", 4, "--length_penalty", 0.5, "--max_batch_size", batch, "--torch_dtype", "float32")
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["response"] for line in result.read_text().splitlines()] == wanted
