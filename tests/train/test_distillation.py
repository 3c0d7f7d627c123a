"""GKD: trl's divergence and its gradients, live; rows and completions of the student's own, teachers that are models, servers or files; resume, processes, and what is refused."""
import json
import random
import subprocess

import pytest
import torch

from tiny_models import tiny_model
from train_testing import ENVIRONMENT, ROOT, hone_binary, processes, rlhf_runner, small_tokenizer, steps_of

BASE = dict(rlhf_type="gkd", lmbda=0, max_completion_length=12, per_device_train_batch_size=4, gradient_accumulation_steps=1, learning_rate="2e-3", torch_dtype="float32", max_steps=4, logging_steps=1, save_steps=2, seed=7,
            add_version="false", split_dataset_ratio=0, max_length=256, temperature=1.0, lora_dropout=0)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    """Twice as wide as the student, its vocabulary padded further, and other weights."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    folder, tokenizer = tmp_path_factory.mktemp("teacher") / "teacher", small_tokenizer()
    torch.manual_seed(5)
    config = Qwen2Config(vocab_size=len(tokenizer), hidden_size=128, intermediate_size=192, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512, tie_word_embeddings=False,
                         eos_token_id=tokenizer.eos_token_id, initializer_range=0.1)
    Qwen2ForCausalLM(config).float().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def gkd(model_folder, dataset):
    return rlhf_runner(BASE, model_folder, dataset)


def same_course(one, other, tolerance):
    assert len(one) == len(other) > 0
    for a, b in zip(one, other):
        for key in ("loss", "grad_norm", "completions/mean_length"):
            assert (key in a) == (key in b) and a.get(key, 0) == pytest.approx(b.get(key, 0), rel=tolerance), (key, a, b)


def test_the_divergence_and_its_gradients_are_trls(hone, model_folder, teacher, tmp_path):
    from transformers import AutoModelForCausalLM
    from trl.experimental.gkd import GKDTrainer

    rng = random.Random(2)
    rows = [[rng.randrange(3, 300) for _ in range(length)] for length in (9, 4, 12)]
    labels = [[-100 if i < 3 or rng.random() < 0.2 else token for i, token in enumerate(row)] for row in rows]
    batch = {"tokens": sum(rows, []), "targets": sum(([*row[1:], -100] for row in labels), []), "lengths": [len(row) for row in rows], "grades": [[]] * 3, "rows": [0, 1, 2], "policy_logps": None, "reference_logps": None, "notes": {}}
    cases = [(beta, temperature, topk) for beta in (0, 0.3, 0.5, 1) for temperature, topk in ((1.0, 0), (0.7, 0), (0.7, 6))]
    path = tmp_path / "asked.json"
    path.write_text(json.dumps({"model": str(model_folder), "teacher": str(teacher), "divergences": [{"beta": b, "temperature": t, "topk": k, "batch": batch} for b, t, k in cases]}))
    done = hone("policy-trace", path)
    assert done.returncode == 0, done.stderr
    student, other = (AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32) for folder in (model_folder, teacher))
    for (beta, temperature, topk), found in zip(cases, json.loads(done.stdout)["divergences"]):
        mine, theirs, wanted = [], [], []
        for row, label in zip(rows, labels):
            mine.append(student(torch.tensor([row])).logits[0, :-1])
            theirs.append(other(torch.tensor([row])).logits[0, :-1].detach())
            wanted += label[1:]
        mine, theirs = torch.cat(mine), torch.cat(theirs)
        if topk:  # ms-swift's: both are normalized among the teacher's most likely tokens
            theirs, ids = theirs.topk(topk)
            mine = mine.gather(1, ids)
        loss = GKDTrainer.generalized_jsd_loss(mine[None], theirs[None], torch.tensor([wanted]), beta=beta, temperature=temperature)
        student.zero_grad()
        loss.backward()
        assert found["loss"] == pytest.approx(loss.item(), rel=1e-4), (beta, temperature, topk)
        norms = {name: parameter.grad.norm().item() for name, parameter in student.named_parameters()}
        assert all(found["gradients"][name] == pytest.approx(norm, rel=1e-4, abs=1e-7) for name, norm in norms.items()), (beta, temperature, topk)


def test_rows_and_completions_of_ones_own(gkd, teacher, dataset, tmp_path):
    """The divergence falls, on rows and on what the student generates; a run in which both alternate resumes exactly."""
    for name, settings in (("rows", dict(sft_alpha=0.1)), ("own", dict(lmbda=1, log_completions="true")), ("teachers", dict(lmbda=0.5, seq_kd="true"))):
        run = gkd(tmp_path / name, teacher_model=teacher, tuner_type="full", max_steps=24, save_strategy="no", per_device_train_batch_size=8, val_dataset=dataset, eval_strategy="steps", eval_steps=24, **settings)
        assert run.code == 0, run.err
        losses = [step["loss"] for step in steps_of(run)]
        assert losses[-1] < 0.85 * losses[0] and any("eval_loss" in event for event in run.log()), (name, losses)
        assert ("completions/mean_length" in steps_of(run)[0]) == (name != "rows") and ("sft_loss" in steps_of(run)[0]) == (name == "rows")
    assert len((tmp_path / "own/completions.jsonl").read_text().splitlines()) == 24
    settings = dict(teacher_model=teacher, lmbda=0.5, gradient_accumulation_steps=2, max_steps=6, save_steps=3)
    whole, cut = gkd(tmp_path / "whole", **settings), gkd(tmp_path / "cut", fault="checkpoint.after_rename:kill", **settings)
    assert whole.code == 0 and cut.code != 0, whole.err
    resumed = gkd(tmp_path / "cut", resume_from_checkpoint=tmp_path / "cut/checkpoint-3", **settings)
    assert resumed.code == 0, resumed.err
    same_course(steps_of(whole)[3:], steps_of(resumed)[-3:], 0)
    generated = ["completions/mean_length" in step for step in steps_of(whole)]
    assert any(generated) and not all(generated)


def test_two_processes_train_as_one(gkd, teacher, tmp_path):
    settings = dict(teacher_model=teacher, tuner_type="full", per_device_train_batch_size=8, max_steps=3, save_strategy="no")
    alone = gkd(tmp_path / "alone", **settings)
    assert alone.code == 0, alone.err
    for name, more in (("ddp", {}), ("zero3", {"deepspeed": "zero3"}), ("fsdp", {"fsdp": "full_shard auto_wrap"})):
        both = gkd(tmp_path / name, count=2, **{**settings, "per_device_train_batch_size": 4}, **more)
        assert both.code == 0, (name, both.err)
        same_course(steps_of(alone), steps_of(both), 5e-4)
    # Adapters train without dropout, and the completion of a row does not depend on the process that has it.
    settings.update(tuner_type="lora", lora_dropout=0.2, lmbda=0.5, max_steps=4)
    alone = gkd(tmp_path / "alone-mixed", **settings)
    both = gkd(tmp_path / "ddp-mixed", count=2, **{**settings, "per_device_train_batch_size": 4})
    assert alone.code == both.code == 0, alone.err + both.err
    same_course(steps_of(alone), steps_of(both), 5e-4)
    generated = ["completions/mean_length" in step for step in steps_of(alone)]
    assert any(generated) and not all(generated)


def test_a_server_and_a_folder_teach_the_same(gkd, model_folder, teacher, tmp_path):
    """The server is hone's own; its scores are stored, and the second run needs no server."""
    from workers import free_port

    port = free_port()
    server = subprocess.Popen([hone_binary(), "deploy", "--model", teacher, "--port", str(port), "--torch_dtype", "float32", "--max_logprobs", "20"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT)
    try:
        settings = dict(gkd_logits_topk=8, max_steps=3, save_strategy="no", teacher_timeout=60)
        local = gkd(tmp_path / "local", teacher_model=teacher, **settings)
        served = gkd(tmp_path / "served", teacher_model_server=f"http://127.0.0.1:{port}", teacher_logps=tmp_path / "kept", **settings)
    finally:
        server.terminate()
        server.communicate(timeout=60)
    stored = gkd(tmp_path / "stored", teacher_logps=tmp_path / "kept", **settings)
    for run in (local, served, stored):
        assert run.code == 0, run.err
    same_course(steps_of(local), steps_of(served), 1e-3)
    same_course(steps_of(served), steps_of(stored), 0)
    gone = gkd(tmp_path / "gone", teacher_model_server=f"http://127.0.0.1:{port}", **{**settings, "teacher_timeout": 1})
    assert gone.code == 1 and "gave no log-probabilities" in gone.err, gone.err


def test_a_teacher_may_read_another_prompt(gkd, model_folder, teacher, dataset, tmp_path):
    """Completions of one token: the loss is trl's divergence of what the student says after the row's prompt and the teacher after its own. A prompt that is the row's changes nothing, of longer completions neither."""
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl.experimental.gkd import GKDTrainer

    rows = [json.loads(line) for line in dataset.read_text().splitlines()[:4]]
    question = [next(message["content"] for message in reversed(row["messages"]) if message["role"] == "user") for row in rows]
    hints = [f"{text} red red {i} one two" for i, text in enumerate(question)]

    def written(name, prompts):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps({**row, **({"teacher_prompt": prompt} if prompt else {})}) + "\n" for row, prompt in zip(rows, prompts)))
        return path

    settings = dict(teacher_model=teacher, lmbda=1, beta=0.5, save_strategy="no")
    (hinted,) = steps_of(gkd(tmp_path / "hinted", dataset=written("hinted", hints), max_steps=1, max_completion_length=1, **settings))
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    student, other = (AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32) for folder in (model_folder, teacher))
    losses = []
    for row, text, hint in zip(rows, question, hints):
        asked = row["messages"][:max(i for i, message in enumerate(row["messages"]) if message["role"] == "user") + 1]
        logits = []
        for model, words in ((student, text), (other, hint)):
            ids = tokenizer.apply_chat_template([*asked[:-1], {**asked[-1], "content": words}], add_generation_prompt=True, return_dict=False)
            logits.append(model(torch.tensor([ids])).logits[:, -1:].detach()[..., :len(tokenizer)])
        losses.append(GKDTrainer.generalized_jsd_loss(*logits, torch.tensor([[1]]), beta=0.5).item())
    assert hinted["loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-4)
    runs = [steps_of(gkd(tmp_path / name, dataset=written(name, prompts), max_steps=2, **settings)) for name, prompts in (("none", [None] * 4), ("same", question), ("some", [*question[:2], *hints[2:]]))]
    same_course(runs[0], runs[1], 1e-6)
    assert runs[0][0]["loss"] != pytest.approx(runs[2][0]["loss"], rel=1e-4)
    late = written("late", [None, hints[1], None, None])
    for count, code, more, complaint in ((1, 3, dict(lmbda=0.5), "before generated completions only"), (1, 3, dict(lmbda=0), "(--lmbda 1)"), (2, 2, dict(sequence_parallel_size=2), "needs full sequences")):
        refused = gkd(tmp_path / "refused", count, dataset=late, **{**settings, **more})
        assert refused.code == code and f"{late}:2: the row names a teacher_prompt" in refused.err and complaint in refused.err, refused.err
    refused = gkd(tmp_path / "stream", dataset=late, streaming="true", max_steps=1, **{**settings, "lmbda": 0})
    assert refused.code == 3 and f"{late}:2: the row names a teacher_prompt" in refused.err, refused.err
    evaluated = gkd(tmp_path / "evaluated", dataset=written("none", [None] * 4), val_dataset=late, eval_strategy="steps", eval_steps=1, max_steps=1, **{**settings, "lmbda": 0})
    assert evaluated.code == 0 and "rows of the validation data name a teacher_prompt" in evaluated.err, evaluated.err


@pytest.mark.parametrize("reply, code, complaint", [
    (lambda ids: (200, {"choices": [{"prompt_logprobs": [None] + [{str(id): {"logprob": -1.0, "decoded_token": f"w{id}"}} for id in ids[1:]]}]}), 2, "another vocabulary than the student: token"),
    (lambda ids: (400, {"error": {"message": "prompt_logprobs must be at most 0"}}), 1, "it answers 400 (prompt_logprobs must be at most 0)"),
    (lambda ids: (200, {"choices": [{"text": ""}]}), 1, "no prompt_logprobs for each of the tokens")], ids=["other words", "refusal", "no log-probabilities"])
def test_a_server_is_asked_before_a_model_is_loaded(gkd, tmp_path, reply, code, complaint):
    """Without a word of its address's password."""
    from local_server import Handler, serving

    class Teacher(Handler):
        def do_POST(self):
            status, content = reply(self.question()["prompt"][0])
            self.reply(status, json.dumps(content))

    with serving(Teacher) as address:
        run = gkd(tmp_path / "run", teacher_model_server=address.replace("http://", "http://me:secret@"), gkd_logits_topk=1, teacher_timeout=5)
    assert run.code == code and complaint in run.err and "secret" not in run.err, run.err
    assert not (tmp_path / "run").exists(), "the run had begun"


def test_the_base_beneath_an_adapter_teaches(gkd, model_folder, tmp_path):
    """A new adapter changes nothing, so it has nothing to learn from its own base."""
    run = gkd(tmp_path / "run", teacher_model=model_folder, max_steps=1, save_strategy="no")
    assert run.code == 0 and abs(steps_of(run)[0]["loss"]) < 1e-6, run.err


def test_what_is_refused_and_why(gkd, hone, model_folder, teacher, dataset, tmp_path):
    other = tmp_path / "other"
    tiny_model(other)
    for settings, complaint in ((dict(), "gkd has no teacher"), (dict(teacher_model=other), "another vocabulary than the student: token"), (dict(teacher_model_server="http://127.0.0.1:9"), "--gkd_logits_topk is needed"),
                                (dict(teacher_model=teacher, teacher_model_server="http://127.0.0.1:9"), "two teachers"), (dict(teacher_model_server="http://example.com", gkd_logits_topk=4), "on another machine"),
                                (dict(teacher_model=teacher, beta=1.5), "expected 0, forward KL, to 1, reverse KL"), (dict(teacher_logps=tmp_path / "none", gkd_logits_topk=4), "no stored log-probabilities"),
                                (dict(teacher_model_server="http://127.0.0.1:9", gkd_logits_topk=4, seq_kd="true"), "needs a model"),
                                (dict(teacher_model=model_folder, seq_kd="true", tuner_type="lora"), "it is the student's own base model")):
        run = gkd(tmp_path / "run", **settings)
        assert run.code in (2, 3, 4) and complaint in run.err, (settings, run.code, run.err)
    asked = ["swift", "rlhf", "--rlhf_type", "gkd", "--model", model_folder, "--dataset", dataset, "--teacher_model", teacher]
    for command in (["plan", *asked, "--device", "cpu"], ["preview", *asked]):
        done = hone(*command)
        assert done.returncode == 0, done.stderr
