"""Checks of the Python package, each a function; test_python_package.py runs them all in the environment where the wheel is installed.

    python checks.py FOLDER    writes FOLDER/results.json: the name of each check and "ok" or its traceback
"""
import asyncio
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path

import hone  # before torch, whose threads would else spin

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[2]
NANO, DEMO = str(ROOT / "models/nano"), str(ROOT / "data/demo.jsonl")
STEPS = 4
QUESTIONS = ["Who are you?", "Who trained you?", "What is two plus two?", "Name a colour."]


def raises(kind, work):
    try:
        work()
    except kind as error:
        return error
    raise AssertionError(f"nothing was raised; expected {kind.__name__}")


def a_trainer(dtype=None, **settings):
    model = hone.Model(NANO, dtype=dtype)
    loader = hone.DataLoader(hone.Dataset(DEMO, hone.Template(model)), batch_size=8)
    return hone.Trainer(model, hone.LoraConfig(rank=16), learning_rate=2e-3, total_steps=STEPS, **settings), loader


def losses_of(trainer, loader, steps):
    return [trainer.train_step(loader.next())["loss"] for _ in range(steps)]


def no_dropout(rank=4):
    return hone.LoraConfig(rank=rank, dropout=0)


def check_losses_are_those_of_hone_sft(folder):
    """The same settings, the same numbers, step by step."""
    command = [sys.executable, "-m", "hone", "sft", "--model", NANO, "--dataset", DEMO, "--lora_rank", "16", "--learning_rate", "2e-3", "--max_steps", str(STEPS),
               "--per_device_train_batch_size", "8", "--gradient_accumulation_steps", "1", "--logging_steps", "1", "--output_dir", str(folder / "sft"),
               "--add_version", "false"]
    subprocess.run(command, check=True, capture_output=True)
    lines = [json.loads(line) for line in (folder / "sft/logging.jsonl").read_text().splitlines()]
    expected = [line for line in lines if "loss" in line]
    trainer, loader = a_trainer()
    for line in expected:
        got = trainer.train_step(loader.next())
        assert abs(got["loss"] - line["loss"]) < 1e-6, (got, line)
        assert abs(got["grad_norm"] - line["grad_norm"]) < 1e-5, (got, line)
        assert abs(got["learning_rate"] - line["learning_rate"]) < 1e-8, (got, line)
    assert len(expected) == STEPS


def check_a_saved_trainer_continues_exactly(folder):
    trainer, loader = a_trainer()
    losses_of(trainer, loader, 2)
    checkpoint = trainer.save(folder / "run", loader)
    assert Path(checkpoint).name == "checkpoint-2" and Path(checkpoint, "adapter_model.safetensors").exists()
    expected = losses_of(trainer, loader, 2)
    again, rows = a_trainer()
    again.load(checkpoint, rows)
    assert again.global_step == 2 and losses_of(again, rows, 2) == expected
    weights = Path(checkpoint, "adapter_model.safetensors")
    weights.write_bytes(weights.read_bytes()[:-8])
    assert "adapter_model.safetensors" in raises(hone.CheckpointError, lambda: again.load(checkpoint)).message


def check_the_program_reads_what_a_trainer_saved(folder):
    trainer, loader = a_trainer()
    losses_of(trainer, loader, 2)
    checkpoint = trainer.save(folder / "run")
    done = subprocess.run([sys.executable, "-m", "hone", "infer", "--adapters", checkpoint], input="Who are you?\nexit\n", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def check_logits_are_those_of_the_weights(folder):
    """The tensors that Python sees are the model's own."""
    model = hone.Model(NANO, dtype="float32")
    batch = hone.Batch.from_rows([{"input_ids": model.encode("Hello there")}])
    before = model.logits(batch)
    assert before.shape == (len(batch.input_ids), model.vocab_size) and before.dtype == torch.float32
    weight = model.parameters()["model.norm.weight"]
    assert weight.data_ptr() == model.parameters()["model.norm.weight"].data_ptr()
    assert np.from_dlpack(weight.detach()).ctypes.data == weight.data_ptr()  # others read them in place
    with torch.no_grad():
        weight.mul_(2)
    assert torch.allclose(model.logits(batch), 2 * before, rtol=1e-5, atol=1e-5)


def check_rows_come_from_lists_numpy_and_torch(folder):
    ids = [3, 1, 4, 1, 5]
    batches = [hone.Batch.from_rows([{"input_ids": make(ids)}, {"input_ids": make(ids[:3]), "labels": make([-100, 1, 4])}])
               for make in (list, np.array, torch.tensor, lambda x: np.array(x, np.int32))]
    for batch in batches:
        assert batch.input_ids.tolist() == ids + ids[:3] and batch.cu_seqlens == [0, 5, 8] and batch.num_samples == len(batch) == 2
        assert batch.targets.tolist() == [1, 4, 1, 5, -100, 1, 4, -100] and batch.num_targets == 6
        assert batch.input_ids.data_ptr() == batch.input_ids.data_ptr()  # no copies


def check_template_and_dataset(folder):
    model = hone.Model(NANO)
    template = hone.Template(model)
    rows = [{"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": "Yes."}]} for question in QUESTIONS]
    dataset = hone.Dataset(rows, template)
    assert len(dataset) == 4
    row = dataset[1]
    prompt = template.prompt("Who trained you?")
    assert row["input_ids"][:len(prompt)].tolist() == prompt and (row["labels"][:len(prompt)] == -100).all()
    assert model.decode(row["input_ids"][row["labels"] != -100]).startswith("Yes.")
    assert {name: array.tolist() for name, array in template.encode(rows[1]).items()} == {name: array.tolist() for name, array in row.items()}
    raises(IndexError, lambda: dataset[4])
    assert dataset[np.int64(-3)]["input_ids"].tolist() == row["input_ids"].tolist() and [len(each["labels"]) for each in dataset[1:3]] == [len(dataset[i]["labels"]) for i in (1, 2)]
    loader = hone.DataLoader(dataset, 3, shuffle=False)
    assert repr(dataset) == "Dataset(4 rows)" and repr(loader) == "DataLoader(2 batches of 3)" and repr(template).startswith("Template('"), (dataset, loader, template)
    assert re.fullmatch(r"Batch\(1 rows, \d+ tokens, \d+ targets\)", repr(hone.Batch.from_rows([row])))
    assert [len(batch) for batch in loader] == [3, 1] and loader.epoch == 1
    state = loader.state()
    expected = loader.next().input_ids.tolist()
    loader.next()
    loader.restore(state)
    assert loader.next().input_ids.tolist() == expected


def check_a_loss_of_your_own_has_the_gradients_of_ours(folder):
    gradients = []
    for own in (False, True):
        model = hone.Model(NANO, dtype="float32")
        batch = next(iter(hone.DataLoader(hone.Dataset(DEMO, hone.Template(model)), 4)))
        trainer = hone.Trainer(model, no_dropout())
        if own:
            logps = trainer.logprobs(batch)
            assert logps.requires_grad and logps.shape == batch.input_ids.shape
            trainer.backward(-logps.sum(), batch.num_targets)
        else:
            loss = trainer.forward_backward(batch)["loss"]
            assert abs(loss + float(model.logprobs(batch).sum()) / batch.num_targets) < 1e-5
        gradients.append({name: value.grad.clone() for name, value in trainer.parameters().items() if value.grad is not None})
    assert gradients[0] and gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        assert (gradient - gradients[1][name]).abs().max() <= 1e-5 * gradient.abs().max(), name  # two ways of rounding the same sums


def check_accumulation_is_a_mean_over_all_tokens(folder):
    norms = []
    for way in ("one call", "two calls"):
        model = hone.Model(NANO, dtype="float32")
        loader = hone.DataLoader(hone.Dataset(DEMO, hone.Template(model)), 3)
        trainer = hone.Trainer(model, no_dropout())
        batches = [loader.next(), loader.next()]
        for part in ([batches] if way == "one call" else batches):
            trainer.forward_backward(part)
        norms.append(trainer.clip_grad_norm(0))
        assert trainer.step() and trainer.global_step == 1
    assert abs(norms[0] / norms[1] - 1) < 1e-5, norms


def check_full_tuning_in_bfloat16(folder):
    model = hone.Model(NANO, dtype="bfloat16")
    loader = hone.DataLoader(hone.Dataset(DEMO, hone.Template(model)), 8, packing="binpack", seed=7)
    trainer = hone.Trainer(model, "full", learning_rate=1e-3, master_weights=True)
    first, _, last = losses_of(trainer, loader, 3)
    assert last < first and model.dtype == "bfloat16", (first, last)
    assert "float16" in raises(hone.UsageError, lambda: hone.Trainer(hone.Model(NANO, dtype="float16"))).message


def check_sampling_follows_training(folder):
    """A trainer and a sampler on one model: answers are those of the newest weights."""
    trainer, loader = a_trainer(dtype="float32")
    sampler = hone.Sampler(trainer.model)
    prompt = sampler.template.prompt("Who trained you?")
    before, after = [], []
    for answers in (before, after):
        answers += sampler.sample([prompt], hone.SamplingParams(logprobs=True, max_tokens=8))
        batch = hone.Batch.from_rows([{"input_ids": np.concatenate([answers[0].prompt, answers[0].tokens])}])
        logps = trainer.model.logprobs(batch)[len(prompt) - 1:-1].numpy()
        assert np.allclose(logps, answers[0].logprobs, atol=1e-4), (logps, answers[0].logprobs)
        losses_of(trainer, loader, 3)
    assert not np.allclose(before[0].logprobs[:1], after[0].logprobs[:1], atol=1e-4)


def check_a_text_alone_is_one_prompt(folder):
    sampler = hone.Sampler(hone.Model(NANO))
    params = hone.SamplingParams(max_tokens=2)
    assert [answer.text for answer in sampler.sample("Who are you?", params)] == [answer.text for answer in sampler.sample(["Who are you?"], params)]


def check_prompts_have_log_probabilities(folder):
    model = hone.Model(NANO, dtype="float32")
    sampler, ids = hone.Sampler(model), model.encode("Who trained you? You did.")
    answer, = sampler.sample([ids], hone.SamplingParams(max_tokens=0, prompt_logprobs=3))
    assert answer.text == "" and len(answer.tokens) == 0 and len(answer.prompt_logprobs) == len(ids) - 1
    logps = model.logits(hone.Batch.from_rows([{"input_ids": ids}])).log_softmax(-1)
    for position, tokens in enumerate(answer.prompt_logprobs):
        assert tokens[0][0] == ids[position + 1] and len(tokens) == 4
        for token, logprob in tokens:
            assert abs(logprob - float(logps[position, token])) < 1e-3
        assert [logprob for _, logprob in tokens[1:]] == sorted((logprob for _, logprob in tokens[1:]), reverse=True)


def check_asyncio_streams_and_seeds(folder):
    sampler = hone.Sampler(hone.Model(NANO))
    greedy = [sampler.chat(question) for question in QUESTIONS]

    async def ask():
        together = await asyncio.gather(*(sampler.asample([question]) for question in QUESTIONS))
        return [answers[0].text for answers in together], "".join([piece async for piece in sampler.stream(QUESTIONS[0])])

    texts, streamed = asyncio.run(ask())
    assert texts == greedy and streamed == greedy[0]
    params = hone.SamplingParams(temperature=3.0, n=3, max_tokens=12, seed=5)
    first, second = ([answer.tokens.tolist() for answer in sampler.sample(QUESTIONS[:2], params)] for _ in range(2))
    assert first == second and len(first) == 6 and len({tuple(tokens) for tokens in first}) > 3


def check_the_event_loop_runs_on_while_requests_start(folder):
    sampler = hone.Sampler(hone.Model(NANO))
    submit, threads = sampler._submit, []

    def slow(*request):
        time.sleep(0.5)
        futures = submit(*request)
        threads.append(threading.current_thread())
        return futures

    async def ask():
        sampler._submit = slow
        asked = asyncio.ensure_future(sampler.asample([QUESTIONS[0]]))
        ticks = 0
        while not asked.done():
            await asyncio.sleep(0.02)
            ticks += 1
        text = "".join([piece async for piece in sampler.stream(QUESTIONS[0])])
        dropped = asyncio.ensure_future(sampler.asample([QUESTIONS[0]], hone.SamplingParams(temperature=1.0, max_tokens=1500)))
        await asyncio.sleep(0.1)
        dropped.cancel()  # before its requests are in the engine
        try:
            await dropped
        except asyncio.CancelledError:
            pass
        for _ in range(200):
            await asyncio.sleep(0.02)
            if len(threads) == 3 and not sampler._answers and not sampler._thread:
                break
        return asked.result()[0].text, text, ticks

    sampled, streamed, ticks = asyncio.run(ask())
    assert sampled == streamed and ticks >= 10 and len(threads) == 3 and threading.main_thread() not in threads
    assert not sampler._answers and sampler.chat(QUESTIONS[0]) == sampled


def check_a_forked_process_is_refused(folder):
    """A child of a process that had computed; one that was forked before may compute."""
    code = f"""
import os, sys
import hone
def in_child(work):
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        work()
        os._exit(0)
    except hone.Error as problem:
        print(problem, flush=True)
        os._exit(9)
load = lambda: hone.Sampler(hone.Model({NANO!r})).chat("Who are you?")
print(in_child(load), flush=True)
sampler = hone.Sampler(hone.Model({NANO!r}))
sampler.chat("Who are you?")
print(in_child(lambda: sampler.chat("Who are you?")), in_child(load), flush=True)
if not os.fork():
    sys.exit(0)  # with its exit handlers
print(os.waitstatus_to_exitcode(os.wait()[1]), sampler.chat("Who are you?") != "")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "0" and lines.count("  hint: start processes with multiprocessing.get_context(\"spawn\")") == 2, done.stdout
    assert lines[-2:] == ["9 9", "0 True"] and "forked from" in lines[1], done.stdout


def check_a_closed_event_loop_ends_its_answers_alone(folder):
    sampler, loop = hone.Sampler(hone.Model(NANO)), asyncio.new_event_loop()
    endless = hone.SamplingParams(temperature=1.0, max_tokens=400, min_tokens=400)

    async def begin():
        pieces = sampler.stream(QUESTIONS[0], endless)
        return pieces, await anext(pieces)

    pieces, first = loop.run_until_complete(begin())
    loop.close()
    assert first and sampler.chat(QUESTIONS[1])  # the thread that steps the engine goes on
    deadline = time.monotonic() + 30
    while not sampler._engine.idle() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert sampler._engine.idle() and not sampler._answers


def check_adapters_by_name(folder):
    trainer, loader = a_trainer()
    losses_of(trainer, loader, STEPS)
    checkpoint = trainer.save(folder / "run")
    sampler = hone.Sampler(hone.Model(NANO))
    sampler.load_adapter("taught", checkpoint)
    assert sampler.adapters == ["taught"]
    params = hone.SamplingParams(max_tokens=8)
    assert sampler.chat("Who trained you?", params, adapter="taught") == hone.Sampler(trainer.model).chat("Who trained you?", params)
    raises(hone.Error, lambda: sampler.chat("Who?", adapter="nobody"))


def check_threads_run_while_hone_computes(folder):
    model = hone.Model(NANO)
    loader = hone.DataLoader(hone.Dataset(DEMO, hone.Template(model)), 16)
    trainer = hone.Trainer(model)
    batches, counted, over = [loader.next() for _ in range(2)], [0], threading.Event()

    def count():
        while not over.is_set():
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    before = counted[0]
    trainer.forward_backward(batches)
    after = counted[0]
    over.set()
    thread.join()
    assert after - before > 10_000, (before, after)


def check_ctrl_c_ends_what_runs(folder):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin with the signal ignored
    sampler = hone.Sampler(hone.Model(NANO))
    endless = hone.SamplingParams(temperature=1.0, n=64, max_tokens=400, min_tokens=400)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    raises(KeyboardInterrupt, lambda: sampler.sample(QUESTIONS, endless))
    assert sampler.chat("Who are you?")  # it continues
    trainer, loader = a_trainer()
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    raises(KeyboardInterrupt, lambda: losses_of(trainer, loader, 100_000))


def check_errors_have_three_parts(folder):
    error = raises(hone.Error, lambda: hone.Model(str(folder / "nowhere")))
    assert error.message and error.hint and error.exit_code and f"hint: {error.hint}" in str(error)
    usage = raises(hone.UsageError, lambda: hone.Model(NANO, dtype="int3"))
    assert isinstance(usage, ValueError) and "int3" in usage.message and "float32" in usage.hint
    model = hone.Model(NANO)
    template = hone.Template(model)
    raises(hone.UsageError, lambda: hone.Template(model, truncation="sideways"))
    raises(hone.UsageError, lambda: hone.Dataset([], template))
    raises(hone.Error, lambda: hone.Dataset(str(folder / "no.jsonl"), template))
    raises(hone.DataError, lambda: template.encode({"nothing": 1}))
    raises(hone.DataError, lambda: hone.Dataset([{"messages": "no list"}], template)[0])
    raises(hone.DataError, lambda: hone.Batch.from_rows([]))
    raises(hone.DataError, lambda: hone.Batch.from_rows([{"input_ids": [1, 2], "labels": [1]}]))
    raises(hone.DataError, lambda: hone.Batch.from_rows([{"input_ids": [1.5]}]))
    raises(hone.UsageError, lambda: template.decode([1.5]))
    for row in ({"input_ids": [10**6]}, {"input_ids": [-1, 2]}, {"input_ids": [1, 2], "labels": [1, 10**6]}):
        raises(hone.DataError, lambda: model.logits(hone.Batch.from_rows([row])))
    raises(hone.DataError, lambda: hone.Sampler(model).sample([[10**6]]))
    raises(hone.UsageError, lambda: hone.DataLoader(hone.Dataset(DEMO, template), 0))
    raises(hone.UsageError, lambda: hone.DataLoader(hone.Dataset(DEMO, template), 2, packing="tight"))
    raises(hone.UsageError, lambda: hone.Trainer(model, "loar"))
    raises(hone.UsageError, lambda: hone.Trainer(model, lr_scheduler="cosine"))
    raises(hone.UsageError, lambda: hone.Trainer(model, hone.LoraConfig(target_modules=["nothing"])))
    raises(hone.UsageError, lambda: hone.Trainer(model, hone.LoraConfig(rank=0)))
    for setting in ({"temperature": -1}, {"top_p": 0}, {"max_tokens": -1}, {"prompt_logprobs": -1}, {"n": 0}, {"n": 10**9}, {"seed": -1}):
        raises(hone.UsageError, lambda: hone.SamplingParams(**setting))
    dataset = hone.Dataset(DEMO, template)
    sampler = hone.Sampler(model)
    for wrong in (lambda: hone.Trainer(NANO), lambda: hone.Sampler(NANO), lambda: hone.Template(3), lambda: hone.Dataset(template, DEMO), lambda: hone.Dataset(DEMO, model), lambda: hone.Dataset({"query": "x", "response": "y"}, template),
                  lambda: hone.DataLoader(DEMO, 2), lambda: hone.DataLoader(dataset, "2"), lambda: sampler.chat(None), lambda: sampler.chat({"role": "user", "content": "x"}),
                  lambda: sampler.sample(["x"], {"temperature": 1})):
        error = raises(hone.UsageError, wrong)
        assert " is " in error.message and error.hint.startswith("expected "), str(error)
    for setting in ({"adam_beta1": 1.0}, {"adam_beta2": 1.0}, {"adam_epsilon": -1.0}, {"weight_decay": float("nan")}, {"warmup_steps": -1}, {"warmup_ratio": 2}, {"tuner": hone.LoraConfig(rank="8")},
                    {"tuner": hone.LoraConfig(alpha=0)}):
        raises(hone.UsageError, lambda: hone.Trainer(model, **setting))
    for setting in ({"max_model_len": -1}, {"max_num_seqs": 0}, {"template": "qwen"}):
        raises(hone.UsageError, lambda: hone.Sampler(model, **setting))
    for row in ({"messages": [{"role": "user", "content": b"x"}]}, {"messages": [{"role": "user", "content": float("nan")}]}, {"messages": [{"role": "user", "content": "\ud800"}]}):
        raises(hone.DataError, lambda: hone.Dataset([row], template))
    for rows in (["text"], {"input_ids": [1]}, [{"labels": [1]}], [{"input_ids": [1, 2, 3], "labels": [1, -5, 3]}]):
        raises(hone.DataError, lambda: hone.Batch.from_rows(rows))
    assert "list of rows" in raises(hone.DataError, lambda: hone.Batch.from_rows({"input_ids": [1]})).hint
    raises(hone.DataError, lambda: hone.Batch.from_rows([{"input_ids": [2**63]}]))
    for large in (2**31, 2**40, -2**40):
        for name in ("input_ids", "labels"):
            error = raises(hone.DataError, lambda: hone.Batch.from_rows([{"input_ids": [1, 2]}, {"input_ids": [1, 2], name: [1, large]}]))
            assert error.message.startswith(f"{name} of row 1 are from ") and "vocabulary" in error.hint, str(error)
    assert raises(hone.DataError, lambda: hone.Batch.from_rows([{"input_ids": [1, 2], "labels": [1, -5]}])).message == "labels of row 0 have -5"
    for name, wrong in (("weights", "ab"), ("weights", [None, 1.0]), ("weights", [[1.0, 1.0]]), ("routed_experts", "x"), ("routed_experts", [[1], [1, 2]]), ("routed_experts", [[[1.7]]]), ("routed_experts", [1, 2])):
        assert f"{name} of row 0" in raises(hone.DataError, lambda: hone.Batch.from_rows([{"input_ids": [1, 2], name: wrong}])).message
    assert hone.Batch.from_rows([{"input_ids": [1, 2], "weights": torch.tensor([0.5, 0.25], dtype=torch.bfloat16)}]).weights.tolist()[0] == 0.25
    assert hone.Batch.from_rows([{"input_ids": np.array([3, 1], np.uint64)}]).input_ids.tolist() == [3, 1]
    assert hone.LoraConfig(target_modules="all-linear").target_modules == ("all-linear",) and hone.SamplingParams(stop="end").stop == ("end",)
    trainer = hone.Trainer(model, hone.LoraConfig(rank=np.int64(8)))
    batch = hone.Batch.from_rows([dataset[0]])
    for wrong in (lambda: trainer.logprobs(batch, 0), lambda: trainer.base_logprobs(batch, float("nan")), lambda: trainer.backward(trainer.logprobs(batch).sum(), -1),
                  lambda: trainer.step(float("nan")), lambda: trainer.step(-1.0)):
        raises(hone.UsageError, wrong)
    for wrong in (None, dataset[0], [dataset[0]], "rows"):
        assert "hone.Batch.from_rows" in raises(hone.UsageError, lambda: trainer.train_step(wrong)).hint
        assert "hone.Batch.from_rows" in raises(hone.UsageError, lambda: trainer.logprobs(wrong)).hint
    assert "'rows'" in raises(hone.UsageError, lambda: trainer.train_step("rows")).message
    raises(hone.UsageError, trainer.step)
    raises(hone.UsageError, lambda: hone.Trainer(model))
    raises(hone.CheckpointError, lambda: trainer.load(folder))
    raises(TypeError, lambda: trainer.backward("loss"))


def check_rewards(folder):
    texts = ["<think>t</think> <answer>4</answer>", "no"]
    scores = hone.rewards.score(["format", "accuracy"], texts, [{"solution": "4"}, {"solution": "4"}])
    assert scores.shape == (2, 2) and scores[0].max() == 1 and scores[1].tolist() == [0, 0], scores
    assert hone.rewards.score("format", texts).shape == (2,)
    raises(hone.UsageError, lambda: hone.rewards.score("beauty", texts))
    raises(hone.Error, lambda: hone.rewards.score("accuracy", texts))


def check_everything_public_is_typed_and_documented(folder):
    for name in hone.__all__:
        thing = getattr(hone, name)
        assert thing.__doc__, name
        for method, function in inspect.getmembers(thing, inspect.isfunction) if inspect.isclass(thing) else []:
            if method.startswith("_") or thing.__module__.split(".")[0] != "hone":
                continue
            assert function.__doc__ and "return" in function.__annotations__, f"{name}.{method}"


def run_as_printed(code, folder):
    """What code prints and leaves behind, in a folder like a fresh checkout."""
    for name in ("models", "data"):
        (folder / name).symlink_to(ROOT / name)
    names, output = {"__name__": "__main__"}, StringIO()
    with chdir(folder), redirect_stdout(output):
        exec(compile(code, "page", "exec"), names)
    return output.getvalue(), names


def check_the_page_runs_as_printed(folder):
    """docs/python.md: its Python blocks one after the other, then its commands for the program."""
    text = (ROOT / "docs/python.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) >= 6
    output, _ = run_as_printed("\n".join(blocks), folder)
    assert 'dtype is "int3" | expected float32, bfloat16 or float16' in output, output
    commands = re.findall(r"^python -m hone .*", text, re.M)
    assert commands
    for command in commands:
        subprocess.run([sys.executable, *command.split()[1:]], cwd=folder, check=True, capture_output=True)


def check_the_notebook_runs(folder):
    cells = json.loads((ROOT / "cookbook/python/teach.ipynb").read_text())["cells"]
    output, names = run_as_printed("\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"), folder)
    assert names["after"] == "You trained me, with hone." != names["before"], (names["before"], names["after"])
    assert names["losses"][-1] < 0.5 and Path(folder, names["checkpoint"], "adapter_config.json").exists()


def main(folder, names):
    checks = {name: check for name, check in names.items() if name.startswith("check_")}
    results = {}
    for name, check in checks.items():
        place = folder / name
        place.mkdir(parents=True)
        began = time.perf_counter()
        try:
            check(place)
            results[name] = "ok"
        except Exception:
            results[name] = traceback.format_exc()
        print(f"{name}: {time.perf_counter() - began:.1f} s", flush=True)
        (folder / "results.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]), globals())
