"""Preference training on pairs against trl's trainers: the same rows in the same order, from the same weights."""
import functools
import json
import pathlib
import random
import subprocess
import types

import numpy
import pytest
import torch
import trl
from train_testing import ENVIRONMENT, hone_binary, sentence

torch.set_num_threads(1)

BATCH, RATE, BETA, STEPS = 2, 1e-3, 0.3, 12
LOSSES = "sigmoid hinge ipo exo_pair nca_pair robust sppo_hard aot aot_unpaired apo_zero apo_down discopop sft".split()


def hone(verb, *words, env=None, **options):
    """Runs `hone`; options as keywords, lists as several words."""
    line = [str(hone_binary()), verb, *map(str, words)]
    for key, value in options.items():
        line += [f"--{key}", *map(str, value if isinstance(value, list) else [value])]
    return subprocess.run(line, capture_output=True, text=True, env={**ENVIRONMENT, "OMP_NUM_THREADS": "1", **(env or {})}, timeout=300)


def events(folder):
    lines = [json.loads(line) for line in (pathlib.Path(folder) / "logging.jsonl").read_text().splitlines()]
    return [line for line in lines if "loss" in line and "log_history" not in line]


def column(lines, name):
    return [line[name] for line in lines]


def prepared(folder):
    """The token ids of rows that hone wrote to disk."""
    about = json.loads((folder / "encoded_rows.json").read_text())
    tokens = numpy.fromfile(folder / "tokens.bin", dtype=numpy.int32)
    ends = numpy.fromfile(folder / "parts.bin", dtype=numpy.int64).reshape(-1, 2)[:, 1]
    texts = []
    for start, end in zip([0, *ends[:-1]], ends):
        labels = tokens[about["tokens"] + start:about["tokens"] + end]
        first = int((labels != -100).argmax())
        texts.append((tokens[start:start + first].tolist(), tokens[start + first:end].tolist()))
    return [dict(prompt_ids=chosen[0], chosen_ids=chosen[1], rejected_ids=rejected[1]) for chosen, rejected in zip(texts[::2], texts[1::2])]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory, model_folder):
    """Rows of two answers: their file, and the token ids that hone makes of them."""
    folder, rng, rows = tmp_path_factory.mktemp("pairs"), random.Random(2), []
    for _ in range(BATCH * STEPS):
        question = [{"role": "user", "content": sentence(rng, rng.randint(2, 6))}]
        rows.append({"messages": question + [{"role": "assistant", "content": sentence(rng, rng.randint(3, 12))}], "rejected_response": sentence(rng, rng.randint(3, 12))})
    path = folder / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = hone("export", model=model_folder, dataset=path, to_cached_dataset="true", template_mode="rlhf", output_dir=folder / "ids", max_length=256, split_dataset_ratio=0,
                dataset_shuffle="false")
    assert done.returncode == 0, done.stderr
    return path, prepared(folder / "ids/train"), folder / "ids/train"


@pytest.fixture
def rlhf(model_folder, pairs, tmp_path):
    """rlhf(rlhf_type="dpo", …) runs `hone rlhf` over the pairs in their order; returns the steps that it logged."""
    def run(name="run", env=None, code=0, **options):
        settings = dict(model=model_folder, dataset=pairs[0], output_dir=tmp_path / name, add_version="false", torch_dtype="float32", tuner_type="full", max_steps=STEPS, beta=BETA,
                        per_device_train_batch_size=BATCH, gradient_accumulation_steps=1, learning_rate=RATE, lr_scheduler_type="constant", weight_decay=0, adam_beta2=0.999,
                        max_grad_norm=1.0, logging_steps=1, save_strategy="no", split_dataset_ratio=0, dataset_shuffle="false", train_dataloader_shuffle="false", max_length=256)
        settings.update(options)
        done = hone("rlhf", env=env, **settings)
        assert done.returncode == code, done.stderr
        return events(tmp_path / name) if code == 0 else done.stderr
    return run


def trl_steps(model, ids, folder, steps=STEPS, **options):
    """What trl's own trainer logs."""
    from datasets import Dataset
    from transformers import AutoTokenizer

    class Given(trl.DPOTrainer):
        def _prepare_dataset(self, dataset, *_, **__):
            return dataset  # ids already

    args = trl.DPOConfig(output_dir=str(folder), per_device_train_batch_size=BATCH, max_steps=steps, learning_rate=RATE, lr_scheduler_type="constant", logging_steps=1, report_to=[],
                         use_cpu=True, bf16=False, beta=BETA, train_sampling_strategy="sequential", save_strategy="no", gradient_checkpointing=False, adam_beta2=0.999, disable_tqdm=True,
                         **options)
    tokenizer = AutoTokenizer.from_pretrained(model if isinstance(model, (str, pathlib.Path)) else model.name_or_path)
    trainer = Given(model=str(model) if isinstance(model, pathlib.Path) else model, args=args, train_dataset=Dataset.from_list(ids), processing_class=tokenizer)
    trainer.train()
    return [line for line in trainer.state.log_history if "loss" in line]


def test_full_tuning_follows_trl(rlhf, model_folder, pairs, tmp_path):
    ours, theirs = rlhf(), trl_steps(model_folder, pairs[1], tmp_path / "trl", loss_type=["sigmoid"])
    assert column(ours, "loss") == pytest.approx(column(theirs, "loss"), rel=1e-4)
    for name in ("rewards/chosen", "rewards/rejected", "rewards/margins", "rewards/accuracies", "logps/chosen", "logps/rejected", "logits/chosen", "logits/rejected"):
        assert column(ours, name) == pytest.approx(column(theirs, name), rel=1e-3, abs=1e-4), name


def test_lora_follows_trl_and_needs_no_second_model(rlhf, model_folder, pairs, tmp_path):
    import peft
    from transformers import AutoModelForCausalLM

    torch.manual_seed(3)
    base = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    model = peft.get_peft_model(base, peft.LoraConfig(r=4, lora_alpha=16, lora_dropout=0.1, target_modules="all-linear", task_type="CAUSAL_LM"))
    model.save_pretrained(tmp_path / "start")
    # Dropout is off in both, whatever the adapter's config says.
    ours = rlhf(tuner_type="lora", adapters=tmp_path / "start", lora_rank=4, lora_alpha=16, lora_dropout=0.1)
    theirs = trl_steps(model, pairs[1], tmp_path / "trl", loss_type=["sigmoid"])
    assert column(ours, "loss") == pytest.approx(column(theirs, "loss"), rel=1e-4)
    # The same adapter as the reference's own leaves nothing to tell apart before the first step.
    same = rlhf("same", tuner_type="lora", adapters=tmp_path / "start", ref_adapters=tmp_path / "start", lora_rank=4, lora_alpha=16, max_steps=1)
    assert same[0]["loss"] == pytest.approx(numpy.log(2), rel=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_follows_trl(rlhf, model_folder, pairs, tmp_path, loss):
    doubt = 0.1 if loss in ("robust", "exo_pair", "aot", "aot_unpaired") else 0
    ours = rlhf(loss_type=loss, label_smoothing=doubt, max_steps=3)
    theirs = trl_steps(model_folder, pairs[1], tmp_path / "trl", steps=3, loss_type=[loss], label_smoothing=doubt)
    assert column(ours, "loss") == pytest.approx(column(theirs, "loss"), rel=1e-4)


def test_several_losses_add_up(rlhf, model_folder, pairs, tmp_path):
    names, weights = ["sigmoid", "apo_zero", "sft"], [0.8, 0.2, 1.0]
    ours = rlhf(loss_type=names, loss_weights=weights, max_steps=3)
    theirs = trl_steps(model_folder, pairs[1], tmp_path / "trl", steps=3, loss_type=names, loss_weights=weights)
    assert column(ours, "loss") == pytest.approx(column(theirs, "loss"), rel=1e-4)
    assert "nll_loss" in ours[0]


def plain_steps(model_folder, ids, loss_of, steps):
    """A loop over the rows; loss_of gets the log-probabilities of each token of the chosen and of the rejected answers."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=0)

    def tokens(prompt, answer):
        logps = model(torch.tensor([prompt + answer])).logits[0, :-1].log_softmax(-1)
        return logps[len(prompt) - 1:].gather(1, torch.tensor(answer)[:, None])[:, 0]

    losses = []
    for step in range(steps):
        rows = ids[step * BATCH:(step + 1) * BATCH]
        loss = loss_of([tokens(row["prompt_ids"], row["chosen_ids"]) for row in rows], [tokens(row["prompt_ids"], row["rejected_ids"]) for row in rows])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def of_answers(reduce, answers):
    return torch.stack([reduce(answer) for answer in answers])


def peer(**settings):
    """What the methods of trl's trainers ask of themselves."""
    return types.SimpleNamespace(accelerator=types.SimpleNamespace(device="cpu"), beta=BETA, **settings)


@pytest.mark.parametrize("method, loss", [("cpo", "sigmoid"), ("cpo", "hinge"), ("cpo", "ipo"), ("simpo", "simpo")])
def test_cpo_and_simpo_follow_trl(rlhf, model_folder, pairs, method, loss):
    from trl.experimental.cpo import CPOTrainer

    formula = functools.partial(CPOTrainer.cpo_loss, peer(loss_type=loss, label_smoothing=0.1, simpo_gamma=0.7, alpha=0.0))

    def loss_of(chosen, rejected):
        reduce = torch.mean if loss in ("ipo", "simpo") else torch.sum
        return formula(of_answers(reduce, chosen), of_answers(reduce, rejected))[0].mean() - 0.5 * torch.cat(chosen).mean()

    ours = rlhf(rlhf_type=method, loss_type=loss, cpo_alpha=0.5, simpo_gamma=0.7, label_smoothing=0.1, max_steps=4)
    assert column(ours, "loss") == pytest.approx(plain_steps(model_folder, pairs[1], loss_of, 4), rel=1e-4)


def test_orpo_follows_trl(rlhf, model_folder, pairs):
    from trl.experimental.orpo import ORPOTrainer

    formula = functools.partial(ORPOTrainer.odds_ratio_loss, peer())

    def loss_of(chosen, rejected):
        return -formula(of_answers(torch.mean, chosen), of_answers(torch.mean, rejected))[0].mean() - torch.cat(chosen).mean()

    ours = rlhf(rlhf_type="orpo")
    assert column(ours, "loss") == pytest.approx(plain_steps(model_folder, pairs[1], loss_of, STEPS), rel=1e-4)
    assert {"nll_loss", "log_odds_ratio", "log_odds_chosen"} <= set(ours[0])


def test_what_only_ms_swift_has(rlhf, model_folder, pairs):
    """rpo_alpha, ld_alpha, smoothing of the sigmoid loss and no reference, in its own definitions."""
    sums = functools.partial(of_answers, torch.sum)
    alone = lambda scaled: -torch.nn.functional.logsigmoid(scaled) * 0.9 - torch.nn.functional.logsigmoid(-scaled) * 0.1  # noqa: E731
    ours = rlhf(reference_free="true", rpo_alpha=0.4, label_smoothing=0.1, max_steps=3)
    theirs = plain_steps(model_folder, pairs[1], lambda chosen, rejected: alone(BETA * (sums(chosen) - sums(rejected))).mean() - 0.4 * torch.cat(chosen).mean(), 3)
    assert column(ours, "loss") == pytest.approx(theirs, rel=1e-4)

    def shortened(chosen, rejected):
        cut = lambda answer, other: answer[:len(other)].sum() + 0.25 * answer[len(other):].sum()  # noqa: E731
        margins = [cut(a, b) - a.sum().detach() - cut(b, a) + b.sum().detach() for a, b in zip(chosen, rejected)]  # before the first step, both models are one
        return -torch.nn.functional.logsigmoid(BETA * torch.stack(margins)).mean()

    assert rlhf("ld", ld_alpha=0.25, max_steps=1)[0]["loss"] == pytest.approx(plain_steps(model_folder, pairs[1], shortened, 1)[0], rel=1e-4)
    bco = rlhf("bco", loss_type="bco_pair", max_steps=2)
    assert bco[0]["loss"] == pytest.approx(2 * numpy.log(2), rel=1e-5)


def test_batches_processes_and_packs_do_not_change_the_step(rlhf, pairs, tmp_path):
    together = rlhf("together", per_device_train_batch_size=4, max_steps=2)
    several = {"accumulated": dict(per_device_train_batch_size=1, gradient_accumulation_steps=4), "two": dict(env={"NPROC_PER_NODE": "2"}),
               "sharded": dict(env={"NPROC_PER_NODE": "2"}, deepspeed="zero3"), "fsdp": dict(env={"NPROC_PER_NODE": "2"}, fsdp="full_shard")}
    for name, options in several.items():
        steps = rlhf(name, max_steps=2, **options)
        for key in ("loss", "grad_norm", "rewards/margins", "logps/chosen"):
            assert column(steps, key) == pytest.approx(column(together, key), rel=2e-4), (name, key)
    lora = dict(tuner_type="lora", target_modules="all-linear", max_steps=2)
    whole, sharded = rlhf("lora", per_device_train_batch_size=4, **lora), rlhf("lora3", env={"NPROC_PER_NODE": "2"}, deepspeed="zero3", **lora)
    assert column(sharded, "loss") == pytest.approx(column(whole, "loss"), rel=2e-4)
    # One pack of all pairs is one batch of all pairs.
    packed = rlhf("packed", packing="true", packing_length=8192, per_device_train_batch_size=1, max_steps=1)
    assert packed[0]["loss"] == pytest.approx(rlhf("all", per_device_train_batch_size=BATCH * STEPS, max_steps=1)[0]["loss"], rel=1e-5)
    # Rows that were prepared before are the same rows.
    cached = rlhf("cached", dataset=[], cached_dataset=pairs[2], per_device_train_batch_size=4, max_steps=2)
    assert column(cached, "loss") == column(together, "loss")


def test_a_resumed_run_is_bit_identical(rlhf, tmp_path, figure):
    options = dict(loss_type="bco_pair", max_steps=6, save_strategy="steps", save_steps=3, train_dataloader_shuffle="true")
    whole = rlhf("whole", **options)
    resumed = rlhf("resumed", resume_from_checkpoint=tmp_path / "whole/checkpoint-3", **options)
    assert [column(resumed[-3:], key) for key in ("loss", "grad_norm", "rewards/chosen")] == [column(whole[-3:], key) for key in ("loss", "grad_norm", "rewards/chosen")]
    # What was learnt by another method or loss is not gone on with.
    for other, message in ((dict(loss_type="hinge"), 'loss_type was ["bco_pair"] and is now ["hinge"]'), (dict(rlhf_type="orpo", loss_type=[]), 'method was "dpo" and is now "orpo"')):
        assert message in rlhf("other", code=4, resume_from_checkpoint=tmp_path / "whole/checkpoint-3", **{**options, **other})
    figure("dpo: the last 3 of 6 steps again, equal to the bit")


def test_evaluation_reports_rewards(rlhf, pairs, tmp_path):
    rlhf("run", tuner_type="lora", val_dataset=pairs[0], eval_strategy="steps", eval_steps=6, per_device_eval_batch_size=3, metric_for_best_model="rewards/margins",
         save_strategy="steps", save_steps=6, load_best_model_at_end="true")
    lines = [json.loads(line) for line in (tmp_path / "run/logging.jsonl").read_text().splitlines()]
    measured = [line for line in lines if "eval_loss" in line and "log_history" not in line]
    assert len(measured) == 2 and measured[1]["eval_rewards/margins"] > measured[0]["eval_rewards/margins"] > 0
    assert {f"eval_{name}" for name in ("rewards/chosen", "rewards/rejected", "rewards/accuracies", "logps/chosen", "logits/rejected")} <= set(measured[0])


@pytest.mark.parametrize("options, message", [
    (dict(loss_type="sigmod"), "does not go with dpo"),
    (dict(rlhf_type="orpo", ref_model="x"), "compares with no reference"),
    (dict(loss_type=["sigmoid", "hinge"], loss_weights=[1]), "1 number for 2 losses"),
    (dict(rlhf_type="cpo", loss_type="apo_zero"), "does not go with cpo"),
    (dict(loss_type="robust", label_smoothing=0.5), "divides by zero"),
    (dict(rlhf_type="orpo", packing="true"), "cannot be packed"),
    (dict(beta=0), "above 0"),
    (dict(task_type="seq_cls", num_labels=2), "--task_type seq_cls does not go with --rlhf_type dpo"),
    (dict(rlhf_type="rm", task_type="embedding"), "--task_type embedding does not go with --rlhf_type rm"),
    (dict(rlhf_type="rm", num_labels=3), "a reward model outputs one score"),
    (dict(rlhf_type="kto", loss_type="sigmoid"), "does not go with kto"),
])
def test_mistakes_are_reported_before_anything_is_loaded(rlhf, options, message):
    assert message in rlhf(code=2, **options)


def test_what_judges_texts_is_no_model_to_write(rlhf, model_folder, tmp_path):
    """Folders of classifiers and reward models, as the model that trains and as its reference; none of their weights is read."""
    (tmp_path / "judge").mkdir()
    for file in model_folder.iterdir():
        if file.suffix != ".safetensors":
            (tmp_path / "judge" / file.name).write_bytes(file.read_bytes())
    config = json.loads((model_folder / "config.json").read_text())
    (tmp_path / "judge/config.json").write_text(json.dumps({**config, "architectures": [config["architectures"][0].replace("CausalLM", "SequenceClassification")]}))
    for options in (dict(model=tmp_path / "judge"), dict(model=tmp_path / "judge", rlhf_type="kto"), dict(model=tmp_path / "judge", rlhf_type="grpo", reward_funcs="format"),
                    dict(model=tmp_path / "judge", task_type="causal_lm"), dict(ref_model=tmp_path / "judge")):
        assert "is not a generative model" in rlhf(code=2, **options), options


def test_what_has_no_effect_is_reported(rlhf, model_folder, pairs, tmp_path):
    for options, message in ((dict(rlhf_type="dpo", simpo_gamma=0.5, discopop_tau=0.1), ("--simpo_gamma has no effect without the loss simpo", "--discopop_tau has no effect without the loss discopop")),
                             (dict(rlhf_type="rm", loss_type="hinge"), ("--loss_type has no effect on rm", "--beta has no effect on rm")), (dict(rlhf_type="orpo", loss_type="hinge"), ("--loss_type has no effect on orpo",))):
        done = hone("rlhf", model=model_folder, dataset=pairs[0], output_dir=tmp_path / "run", max_steps=1, max_length=256, beta=BETA, save_strategy="no", **options)
        assert done.returncode == 0 and all(words in done.stdout + done.stderr for words in message), done.stderr
    simpo = hone("rlhf", model=model_folder, dataset=pairs[0], output_dir=tmp_path / "simpo", max_steps=1, max_length=256, save_strategy="no", rlhf_type="simpo", simpo_gamma=0.5)
    assert simpo.returncode == 0 and "no effect" not in simpo.stderr, simpo.stderr


@pytest.mark.parametrize("words, message", [(["--tuner_type", "bone"], "expected one of"), (["--loss_type", "sigmod"], "does not go with dpo")])
def test_neither_plan_nor_conversion_promises_what_is_not_there(model_folder, pairs, words, message):
    line = ["rlhf", "--model", model_folder, "--dataset", pairs[0], *words]
    for done in (hone("plan", *line), hone("convert-config", "hone", *line)):
        assert done.returncode == 2 and message in done.stderr, done.stderr


def test_llama_factory_stage_dpo(model_folder, pairs, tmp_path):
    """Its YAML, its sum of losses and its output: sigmoid with pref_ftx and BCO, and orpo, which adds up rows instead of tokens."""
    rows = [json.loads(line) for line in pairs[0].read_text().splitlines()]
    rows = [dict(conversations=[{"from": "human", "value": row["messages"][0]["content"]}], chosen={"from": "gpt", "value": row["messages"][1]["content"]},
                 rejected={"from": "gpt", "value": row["rejected_response"]}) for row in rows]
    (tmp_path / "pairs.json").write_text(json.dumps(rows))
    (tmp_path / "dataset_info.json").write_text(json.dumps({"pairs": dict(file_name="pairs.json", ranking=True, formatting="sharegpt", columns=dict(messages="conversations", chosen="chosen", rejected="rejected"))}))

    def run(name, **options):
        settings = dict(stage="dpo", do_train=True, model_name_or_path=str(model_folder), dataset="pairs", dataset_dir=str(tmp_path), template="qwen", finetuning_type="full", cutoff_len=256, pref_beta=BETA,
                        output_dir=str(tmp_path / name), per_device_train_batch_size=BATCH, max_steps=3, learning_rate=RATE, lr_scheduler_type="constant", logging_steps=1, plot_loss=True,
                        disable_shuffling=True, save_strategy="no", **options)
        (tmp_path / f"{name}.yaml").write_text(json.dumps(settings))
        done = subprocess.run([str(hone_binary().parent / "llamafactory-cli"), "train", str(tmp_path / f"{name}.yaml")], capture_output=True, text=True, env={**ENVIRONMENT, "OMP_NUM_THREADS": "1"}, timeout=300)
        if done.returncode:
            return done.stderr
        return [json.loads(line) for line in (tmp_path / name / "trainer_log.jsonl").read_text().splitlines() if "loss" in line]

    def orpo(chosen, rejected):
        good, bad = of_answers(torch.mean, chosen), of_answers(torch.mean, rejected)
        odds = (good - bad) - (torch.log1p(-torch.exp(good)) - torch.log1p(-torch.exp(bad)))
        return (-good - BETA * torch.nn.functional.logsigmoid(odds)).mean()

    assert "rows of this method cannot be packed" in run("packed", packing=True)
    assert "orpo compares with no reference" in run("compared", pref_loss="orpo", ref_model=str(model_folder))
    logged = run("orpo", pref_loss="orpo", tokenized_path=str(tmp_path / "ids"))
    ids = prepared(tmp_path / "ids/train")
    assert column(logged[:3], "loss") == pytest.approx(plain_steps(model_folder, ids, orpo, 3), rel=2e-4)
    history = json.loads((tmp_path / "orpo/trainer_state.json").read_text())["log_history"]
    assert {"sft_loss", "odds_ratio_loss", "rewards/accuracies"} <= set(history[0])
    assert all((tmp_path / "orpo" / name).exists() for name in ("train_results.json", "training_loss.png", "training_rewards_accuracies.png", "model.safetensors"))
    # Before the first step every reward is zero: log 2, the mean of rows' own losses, and BCO's 2 log 2.
    own = plain_steps(model_folder, ids, lambda chosen, _: -of_answers(torch.mean, chosen).mean(), 1)[0]
    mixed = run("mixed", pref_loss="sigmoid", pref_ftx=0.5, pref_bco_weight=1.0, eval_dataset="pairs", do_eval=True, eval_strategy="steps", eval_steps=3)
    assert mixed[0]["loss"] == pytest.approx((numpy.log(2) + 2 * numpy.log(2)) / 2 + 0.5 * own, rel=2e-4)
    # The evaluation at the end continues from BCO's running mean, as the one after the last step did.
    history = json.loads((tmp_path / "mixed/trainer_state.json").read_text())["log_history"]
    assert json.loads((tmp_path / "mixed/eval_results.json").read_text())["eval_loss"] == pytest.approx([line["eval_loss"] for line in history if "eval_loss" in line][-1], rel=1e-6)


def test_rows_without_two_answers(model_folder, pairs, tmp_path):
    rows = [json.loads(line) for line in pairs[0].read_text().splitlines()]
    del rows[0]["rejected_response"]
    rows[1]["rejected_response"] = rows[1]["messages"][-1]["content"]
    rows[2]["rejected_response"] = "tree " * 300
    (tmp_path / "odd.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = hone("rlhf", model=model_folder, dataset=tmp_path / "odd.jsonl", output_dir=tmp_path / "odd", max_steps=1, max_length=256, torch_dtype="float32", save_strategy="no")
    assert done.returncode == 0, done.stderr
    for message in ("no rejected response", "equals the chosen one", "max_length is 256"):
        assert message in done.stderr + done.stdout, message


@pytest.mark.parametrize("options", [dict(quant_bits=4), dict(use_dora="true"), dict(modules_to_save="embed_tokens"), dict(init_weights="pissa")])
def test_what_lies_beneath_an_adapter_is_the_reference(rlhf, options):
    """Before the first step nothing has moved, whatever the adapter took out of the base or keeps in addition."""
    steps = rlhf(tuner_type="lora", max_steps=2, **options)
    assert steps[0]["loss"] == pytest.approx(numpy.log(2), rel=1e-4) and abs(steps[0]["rewards/chosen"]) < 2e-4 and steps[1]["rewards/chosen"] != 0


def test_the_plan_counts_both_answers_and_the_reference(model_folder, pairs):
    def plan(*words, **options):
        done = hone("plan", "--format", "json", words[0], "--model", model_folder, "--dataset", pairs[0], "--max_length", 256, *words[1:], **options)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    plain, full = plan("sft", "--tuner_type", "full"), plan("rlhf", "--tuner_type", "full")
    assert full["tokens"] == 2 * plain["tokens"] and full["asked"]["reference"] == full["asked"]["weights"] > 0
    assert plan("rlhf", "--tuner_type", "lora")["asked"]["reference"] == plan("rlhf", "--rlhf_type", "orpo", "--tuner_type", "full")["asked"]["reference"] == 0
