"""`hone infer` generates the same text as transformers, alone and in a batch, and its chat commands work."""
import json
import pathlib
import subprocess

import pytest
from tiny_models import tiny_model

ROOT = pathlib.Path(__file__).resolve().parents[2]
QUESTIONS = ["hello there", "what is in the ring?", "a", "the other thing and the one behind it, then the next one in line"]


def made_model(family, tmp_path_factory, **config):
    return tiny_model(tmp_path_factory.mktemp("infer") / family, family, **config)


@pytest.fixture(scope="session", params=["qwen2", "qwen3", "llama3", "mistral"])
def folder(request, tmp_path_factory):
    return made_model(request.param, tmp_path_factory)


@pytest.fixture(scope="session", params=["qwen2_moe", "qwen3_moe", "mixtral"])
def mixture(request, tmp_path_factory):
    return made_model(request.param, tmp_path_factory)


def peer_answers(folder, new_tokens):
    import transformers
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    answers = []
    for question in QUESTIONS:
        ids = tokenizer.apply_chat_template([{"role": "user", "content": question}], add_generation_prompt=True, return_tensors="pt",
                                            return_dict=True)["input_ids"]
        out = model.generate(ids, max_new_tokens=new_tokens, do_sample=False)[0, ids.shape[1]:]
        answers.append(tokenizer.decode(out, skip_special_tokens=True))
    return answers


def greedy_answers(hone, folder, tmp_path, batch, *more):
    data = tmp_path / "questions.jsonl"
    data.write_text("".join(json.dumps({"messages": [{"role": "user", "content": q}, {"role": "assistant", "content": "x"}]}) + "\n" for q in QUESTIONS))
    result = tmp_path / f"answers-{len(list(tmp_path.iterdir()))}.jsonl"  # a file that is there is continued
    done = hone("infer", "--model", folder, "--template_backend", "jinja", "--val_dataset", data, "--result_path", result, "--max_new_tokens", 24,
                "--temperature", 0, "--max_batch_size", batch, "--torch_dtype", "float32", *more)
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["response"] for line in result.read_text().splitlines()]


@pytest.mark.parametrize("batch, more", [(1, []), (4, []), (2, ["--vllm_data_parallel_size", 2]), (4, ["--vllm_tensor_parallel_size", 2])],
                         ids=["alone", "together", "two-copies", "two-slices"])
def test_greedy_answers_equal_transformers(hone, folder, tmp_path, batch, more):
    assert greedy_answers(hone, folder, tmp_path, batch, *more) == peer_answers(folder, 24)


def test_experts_answer_as_transformers_alone_in_a_batch_one_by_one_and_in_slices(hone, mixture, tmp_path):
    theirs = peer_answers(mixture, 24)
    for batch, more in ((1, ()), (4, ()), (4, ("--experts_impl", "eager")), (4, ("--vllm_tensor_parallel_size", 2))):
        assert greedy_answers(hone, mixture, tmp_path, batch, *more) == theirs


@pytest.mark.parametrize("family", ["gemma3", "seed_oss", "granite"])
def test_other_families_answer_as_transformers_alone_in_a_batch_and_in_slices(hone, tmp_path_factory, tmp_path, family):
    fields = {"gemma3": {"sliding_window": 8, "_sliding_window_pattern": 2},
              "granite": {"embedding_multiplier": 12.0, "attention_multiplier": 0.1, "residual_multiplier": 0.3, "logits_scaling": 7.0}}
    made = made_model(family, tmp_path_factory, **fields.get(family, {}))
    theirs = peer_answers(made, 24)
    assert any(theirs)
    for batch, more in ((1, ()), (4, ()), (4, ("--vllm_tensor_parallel_size", 2))):
        assert greedy_answers(hone, made, tmp_path, batch, *more) == theirs
    assert any(greedy_answers(hone, made, tmp_path, 4, "--quant_bits", "8"))


def test_experts_of_eight_bits_answer(hone, mixture, tmp_path):
    answers = greedy_answers(hone, mixture, tmp_path, 4, "--quant_bits", "8")
    assert len(answers) == len(QUESTIONS) and any(answers)


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


def test_a_prompt_beyond_the_context_is_refused_and_the_chat_continues(hone, folder):
    done = hone("infer", "--model", folder, "--max_new_tokens", 4, "--temperature", 0, stdin="the " * 40000 + "\nclear\nhello\n")
    assert done.returncode == 0, done.stderr
    assert "context holds" in done.stdout


def test_missing_model_names_where_it_looked(hone):
    done = hone("infer", "--model", "nobody/nothing")
    assert done.returncode == 2
    assert "not in the caches" in done.stderr


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return tiny_model(tmp_path_factory.mktemp("infer") / "small")


@pytest.fixture
def answer(hone, small, tmp_path):
    """answer("--logprobs", "true") → result rows, in their order, and the process."""
    def run(*words, program=None, rows=QUESTIONS):
        data, result = tmp_path / "questions.jsonl", tmp_path / "answers.jsonl"
        data.write_text("".join(json.dumps({"messages": [{"role": "user", "content": q}, {"role": "assistant", "content": "x"}]}) + "\n" for q in rows))
        result.unlink(missing_ok=True)
        done = hone("infer", "--model", small, "--template_backend", "jinja", "--val_dataset", data, "--result_path", result, "--max_new_tokens", 12,
                    "--temperature", 0, "--torch_dtype", "float32", *words)
        return [json.loads(line) for line in result.read_text().splitlines()] if result.exists() else [], done

    return run


def test_logprobs_are_transformers(answer, small):
    import torch
    import transformers
    rows, done = answer("--logprobs", "true", "--top_logprobs", 3)
    assert done.returncode == 0, done.stderr
    tokenizer, model = transformers.AutoTokenizer.from_pretrained(small), transformers.AutoModelForCausalLM.from_pretrained(small)
    for row, question in zip(rows, QUESTIONS):
        ids = tokenizer.apply_chat_template([{"role": "user", "content": question}], add_generation_prompt=True, return_tensors="pt", return_dict=True)["input_ids"]
        out = model.generate(ids, max_new_tokens=12, do_sample=False, output_scores=True, return_dict_in_generate=True)
        entries = row["logprobs"]["content"]
        for entry, scores in zip(entries, out.scores):
            top = torch.log_softmax(scores[0], -1).topk(3)
            assert [one["logprob"] for one in entry["top_logprobs"]] == pytest.approx(top.values.tolist(), abs=1e-4)
            assert entry["logprob"] == pytest.approx(top.values[0].item(), abs=1e-4)


def test_answers_match_an_expression(answer):
    import re
    rows, done = answer("--structured_outputs_regex", "(yes|no), [0-9]{2}")
    assert done.returncode == 0, done.stderr
    assert all(re.fullmatch("(yes|no), [0-9]{2}", row["response"]) for row in rows)
    _, refused = answer("--structured_outputs_regex", "(")
    assert refused.returncode == 2 and "structured_outputs_regex" in refused.stderr


@pytest.mark.parametrize("words", [["--infer_backend", "vllm", "--vllm_enforce_eager", "true", "--vllm_enable_prefix_caching", "false"],
                                   ["--vllm_engine_kwargs", '{"max_num_seqs": 3, "max_num_batched_tokens": 32, "block_size": 8}'],
                                   ["--sglang_config", '{"max_running_requests": 3, "chunked_prefill_size": 32, "page_size": 8, "disable_radix_cache": true}'],
                                   ["--vllm_speculative_config", '{"method": "ngram", "num_speculative_tokens": 3}'], ["--write_batch_size", "1"]])
def test_settings_of_the_engine_do_not_change_answers(answer, words):
    rows, done = answer(*words)
    assert done.returncode == 0, done.stderr
    plain, _ = answer()
    assert [row["response"] for row in rows] == [row["response"] for row in plain]
    assert "without effect" not in done.stderr and "had no effect" not in done.stderr


@pytest.mark.parametrize("words,named", [(["--vllm_engine_kwargs", '{"swap_space": 4}'], "swap_space"),
                                         (["--vllm_engine_kwargs", '{"block_size": 6}'], "block_size"),
                                         (["--vllm_engine_kwargs", '{"max_num_seqs": "many"}'], "max_num_seqs"),
                                         (["--sglang_config", '{"max_num_seqs": 3}'], "max_running_requests"),
                                         (["--vllm_speculative_config", '{"method": "eagle", "model": "x"}'], "ngram"),
                                         (["--sglang_speculative_algorithm", "EAGLE"], "NGRAM"), (["--top_logprobs", "3"], "--logprobs")])
def test_what_the_engine_does_not_have_is_refused(answer, words, named):
    rows, done = answer(*words)
    assert done.returncode == 2 and named in done.stderr and not rows, done.stderr


def test_a_limit_on_prompt_and_answer_together(answer):
    _, done = answer("--vllm_max_model_len", 8, rows=[QUESTIONS[3]])
    assert done.returncode == 3 and "8" in done.stderr, done.stderr


def test_scores_of_texts(answer):
    rows, done = answer("--metric", "rouge")
    summary = json.loads(done.stdout.splitlines()[-1])
    assert {"rouge-1", "rouge-2", "rouge-l", "bleu-4"} <= summary.keys()


def test_a_batch_can_be_watched(answer):
    rows, done = answer("--stream", "true")
    plain, _ = answer()
    assert [row["response"] for row in rows] == [row["response"] for row in plain]
    for question, row in zip(QUESTIONS, rows):
        assert f"[QUERY] {question}\n[LABELS] x\n[RESPONSE] {row['response']}\n" in done.stdout


def test_log_lines_do_not_continue_a_streamed_completion(hone, tmp_path):
    (tmp_path / "one.jsonl").write_text(json.dumps({"query": "Who are you?"}) + "\n")
    done = subprocess.run([hone.path, "infer", "--model", ROOT / "models/nano", "--val_dataset", tmp_path / "one.jsonl", "--result_path", tmp_path / "out.jsonl", "--stream", "true",
                           "--max_new_tokens", "4", "--temperature", "0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0 and not [line for line in done.stdout.splitlines() if "[RESPONSE]" in line and "completions written" in line], done.stdout


def test_layouts_that_cannot_be_are_refused_before_loading(hone, folder, tmp_path):
    for words, message in ((["--vllm_tensor_parallel_size", 3], "numbers that divide all of them: 1, 2"), (["--sglang_pp_size", 2], "need 2 devices; found: cpu"),
                        (["--vllm_engine_kwargs", json.dumps({"pipeline_parallel_size": 2})], "need 2 devices; found: cpu"),
                        (["--vllm_tensor_parallel_size", 0], "expected 1 or more"), (["--vllm_quantization", "awq"], "is not quantized"),
                        (["--vllm_quantization", "fp8"], "need an NVIDIA GPU"),
                        (["--sglang_kv_cache_dtype", "fp8_e5m2", "--lmdeploy_quant_policy", 4], "the cache cannot keep")):
        done = hone("infer", "--model", folder, "--max_new_tokens", 4, *words, stdin="hi\n")
        assert done.returncode == 2 and message in done.stderr, done.stderr


def test_few_bits_move_the_answers_a_little(hone, tmp_path):
    """Of the cache, by each engine's own words, and of weights that are rounded while loading."""
    def logprobs(*words):
        data, result = tmp_path / "questions.jsonl", tmp_path / "answers.jsonl"
        data.write_text("".join(json.dumps({"query": q}) + "\n" for q in ("Who are you?", "What is the capital of France?")))
        result.unlink(missing_ok=True)
        done = hone("infer", "--model", ROOT / "models/nano", "--val_dataset", data, "--result_path", result, "--max_new_tokens", 6, "--temperature", 0,
                    "--logprobs", "true", "--torch_dtype", "float32", *words)
        assert done.returncode == 0, done.stderr
        rows = [json.loads(line) for line in result.read_text().splitlines()]
        return [place["logprob"] for row in rows for place in row["logprobs"]["content"]]

    plain = logprobs()
    for words, most in ((["--lmdeploy_quant_policy", 8], 0.05), (["--vllm_engine_kwargs", json.dumps({"kv_cache_dtype": "fp8"})], 0.3), (["--sglang_kv_cache_dtype", "fp8_e5m2"], 0.5),
                        (["--lmdeploy_quant_policy", 4], 1.5), (["--vllm_quantization", "bitsandbytes"], 1.5)):
        found = logprobs(*words)
        furthest = max(abs(a - b) for a, b in zip(plain, found))
        assert 0 < furthest < most, (words, furthest)
