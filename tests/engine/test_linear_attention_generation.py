"""Models with gated delta nets (Qwen3-Next, Qwen3.5) generate the same text as transformers: alone, in a batch, in chunks, preempted, with beams
and behind the server."""
import concurrent.futures
import json
import pathlib
import sys

import pytest
from tiny_models import tiny_model

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/serve"))
QUESTIONS = ["hello there", "what is in the ring?", "a", "the other thing and the one behind it, then the next one in line " * 3]
SHAPE = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
             linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=32, initializer_range=0.15,
             max_position_embeddings=2048, tie_word_embeddings=True)
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=48, shared_expert_intermediate_size=48)


@pytest.fixture(scope="module", params=["Qwen3Next", "Qwen3_5Text", "Qwen3_5MoeText"])
def folder(request, tmp_path_factory):
    import torch
    import transformers
    out = tmp_path_factory.mktemp("linear") / request.param
    tiny_model(out, "qwen3")
    old = json.loads((out / "config.json").read_text())
    experts = {} if request.param == "Qwen3_5Text" else EXPERTS
    config = getattr(transformers, request.param + "Config")(**SHAPE, **experts, vocab_size=old["vocab_size"], eos_token_id=old["eos_token_id"])
    torch.manual_seed(3)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(out)
    return out


def peer_answers(folder, **more):
    import transformers
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
    answers = []
    for question in QUESTIONS:
        prompt = tokenizer.apply_chat_template([{"role": "user", "content": question}], add_generation_prompt=True, return_tensors="pt", return_dict=True)
        found = model.generate(**prompt, max_new_tokens=24, do_sample=False, **more)[0, prompt["input_ids"].shape[1]:]
        answers.append(tokenizer.decode(found, skip_special_tokens=True))
    return answers


def answers(hone, folder, tmp_path, *more, batch=4):
    data, result = tmp_path / "questions.jsonl", tmp_path / f"answers-{len(list(tmp_path.iterdir()))}.jsonl"
    data.write_text("".join(json.dumps({"query": q}) + "\n" for q in QUESTIONS))
    done = hone("infer", "--model", folder, "--template_backend", "jinja", "--val_dataset", data, "--result_path", result, "--max_new_tokens", 24,
                "--temperature", 0, "--max_batch_size", batch, "--torch_dtype", "float32", *more)
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["response"] for line in result.read_text().splitlines()], done.stderr


def test_greedy_answers_equal_transformers(hone, folder, tmp_path):
    theirs = peer_answers(folder)
    assert len(set(theirs)) > 1
    assert answers(hone, folder, tmp_path, batch=1)[0] == theirs
    ways = [(), ("--vllm_engine_kwargs", '{"max_num_batched_tokens": 7}'), ("--vllm_max_num_seqs", 2), ("--vllm_data_parallel_size", 2)]
    for more in ways:
        assert answers(hone, folder, tmp_path, *more)[0] == theirs, more


def test_beams_equal_transformers(hone, folder, tmp_path):
    theirs = peer_answers(folder, num_beams=4, length_penalty=0.5)
    for batch in (1, 4):
        assert answers(hone, folder, tmp_path, "--num_beams", 4, "--length_penalty", 0.5, batch=batch)[0] == theirs


def test_what_states_cannot_do_is_said(hone, folder, tmp_path):
    theirs = peer_answers(folder)
    found, log = answers(hone, folder, tmp_path, "--vllm_speculative_config", '{"method": "ngram", "num_speculative_tokens": 4}')
    assert found == theirs and "speculative decoding is off" in log
    refused = hone("infer", "--model", folder, "--vllm_tensor_parallel_size", 2, stdin="hello\n")
    assert refused.returncode == 2 and "linear attention" in refused.stderr


def test_the_plan_counts_states(hone, folder):
    done = hone("plan", "deploy", "--model", folder, "--target_device", "H200", "--format", "json")
    assert done.returncode == 0, done.stderr
    asked = json.loads(done.stdout)["asked"]
    channels, states = 2 * 2 * 16 + 4 * 32, 4 * 16 * 32 * 4
    assert asked["recurrent_states"] == 256 * 3 * (3 * channels * 4 + states) and asked["max_num_seqs"] == 256


def test_the_server_answers_alone_in_a_batch_and_after_cancelled_requests(folder):
    from serve_testing import Server
    theirs = peer_answers(folder)
    server = Server("--torch_dtype", "float32", "--template_backend", "jinja", "--vllm_max_num_seqs", 3, "--vllm_engine_kwargs", '{"max_num_batched_tokens": 16}', model=folder)
    try:
        chat = lambda question, **more: [choice["message"]["content"] for choice in server.chat(question, **more)["choices"]]
        for _ in range(3):
            server.open_stream("a long one", max_tokens=500).close()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            assert [found[0] for found in pool.map(chat, QUESTIONS * 2)] == theirs * 2
        assert chat(QUESTIONS[1], n=3) == [theirs[1]] * 3
        assert server.wait_for(lambda: server.metric("hone_requests_running") == 0)
        assert chat(QUESTIONS[3]) == [theirs[3]]
        status, _, body = server.post("/v1/embeddings", {"input": "hello there"})
        assert status == 200, body
    finally:
        server.stop()
