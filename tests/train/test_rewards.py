"""Reward models and KTO: curves compared with trl's trainers, LLaMA-Factory's losses in torch, folders that transformers and PEFT load."""
import json
import random
import subprocess

import numpy
import pytest
import torch
import trl
from test_tasks import ask, classifier, verdicts, write_rows
from train_testing import ENVIRONMENT, hone_binary, sentence, steps_of

F = torch.nn.functional
BATCH, STEPS, RATE = 4, 6, 1e-3
PLAIN = dict(verb="rlhf", tuner_type="full", max_steps=STEPS, per_device_train_batch_size=BATCH, learning_rate=RATE, lr_scheduler_type="constant", warmup_ratio=0, weight_decay=0,
             adam_beta2=0.999, max_grad_norm=1.0, dataset_shuffle="false", train_dataloader_shuffle="false", save_steps=3)


def question(rng):
    return [{"role": "user", "content": sentence(rng, rng.randint(2, 6))}]


def answer(text):
    return [{"role": "assistant", "content": text}]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    rng = random.Random(2)
    rows = [{"messages": question(rng) + answer(sentence(rng, rng.randint(3, 12))), "rejected_response": sentence(rng, rng.randint(3, 12)), "margin": rng.random()}
            for _ in range(BATCH * STEPS)]
    return write_rows(tmp_path_factory.mktemp("pairs") / "pairs.jsonl", rows), rows


@pytest.fixture(scope="module")
def feedback(tmp_path_factory):
    rng = random.Random(4)
    rows = [{"messages": question(rng) + answer(sentence(rng, rng.randint(3, 12))), "label": rng.random() < 0.6} for _ in range(BATCH * STEPS)]
    return write_rows(tmp_path_factory.mktemp("feedback") / "feedback.jsonl", rows), rows


def encoded(model_folder, rows, folder, mode):
    """(prompt, answer) of every text as the token ids that hone makes of them."""
    done = ask("export", "--model", model_folder, "--dataset", rows, "--to_cached_dataset", "true", "--template_mode", mode, "--output_dir", folder, "--max_length", 256,
               "--split_dataset_ratio", 0, "--dataset_shuffle", "false")
    assert done.returncode == 0, done.stderr
    about = json.loads((folder / "train/encoded_rows.json").read_text())
    tokens = numpy.fromfile(folder / "train/tokens.bin", dtype=numpy.int32)
    ends = numpy.fromfile(folder / "train/parts.bin", dtype=numpy.int64).reshape(-1, 2)[:, 1]
    texts = []
    for start, end in zip([0, *ends[:-1]], ends):
        first = int((tokens[about["tokens"] + start:about["tokens"] + end] != -100).argmax())
        texts.append((tokens[start:start + first].tolist(), tokens[start + first:end].tolist()))
    return texts


def trl_steps(Trainer, Config, model, rows, folder, **options):
    """What trl's trainer logs over rows of token ids."""
    from datasets import Dataset
    from transformers import AutoTokenizer

    class Given(Trainer):
        def _prepare_dataset(self, dataset, *_, **__):
            return dataset

    args = Config(output_dir=str(folder), per_device_train_batch_size=BATCH, max_steps=STEPS, learning_rate=RATE, lr_scheduler_type="constant", logging_steps=1, report_to=[],
                  use_cpu=True, bf16=False, train_sampling_strategy="sequential", save_strategy="no", gradient_checkpointing=False, adam_beta2=0.999, disable_tqdm=True, **options)
    trainer = Given(model=str(model), args=args, train_dataset=Dataset.from_list(rows), processing_class=AutoTokenizer.from_pretrained(model))
    trainer.train()
    return [line for line in trainer.state.log_history if "loss" in line]


def column(lines, name):
    return [line[name] for line in lines]


def weights(folder):
    from safetensors.torch import load_file
    return load_file(folder / "model.safetensors")


def test_a_reward_model_follows_trl_in_every_layout_and_resumes_bit_for_bit(sft, model_folder, pairs, tmp_path, figure):
    base = classifier(model_folder, tmp_path / model_folder.name, 1)  # whose name chooses the template
    options = dict(PLAIN, model=base, dataset=pairs[0], rlhf_type="rm", center_rewards_coefficient=0.02, val_dataset=pairs[0], eval_steps=STEPS)
    run = sft(tmp_path / "run", **options)
    ours = steps_of(run)
    texts = encoded(model_folder, pairs[0], tmp_path / "ids", "rlhf")
    rows = [dict(chosen_ids=sum(chosen, []), rejected_ids=sum(rejected, []), margin=row["margin"]) for chosen, rejected, row in zip(texts[::2], texts[1::2], pairs[1])]
    theirs = trl_steps(trl.RewardTrainer, trl.RewardConfig, base, rows, tmp_path / "trl", center_rewards_coefficient=0.02)
    assert column(ours, "loss") == pytest.approx(column(theirs, "loss"), rel=1e-4)
    for name, peer in {"rewards/margins": "margin", "rewards/accuracies": "accuracy"}.items():
        assert column(ours, name) == pytest.approx(column(theirs, peer), abs=1e-4)
    mean = [(line["rewards/chosen"] + line["rewards/rejected"]) / 2 for line in ours]
    assert mean == pytest.approx(column(theirs, "mean_reward"), abs=1e-4)
    evaluated = [line for line in run.log() if "eval_loss" in line][-1]
    assert {"eval_rewards/chosen", "eval_rewards/accuracies", "eval_center_rewards_loss"} <= set(evaluated)
    wanted = weights(run.folder / "checkpoint-6")
    again = sft(tmp_path / "again", **options, resume_from_checkpoint=run.folder / "checkpoint-3")
    assert column(steps_of(again), "loss") == column(ours, "loss")[3:]
    assert all(torch.equal(value, wanted[name]) for name, value in weights(again.folder / "checkpoint-6").items())
    for name, more in {"accumulated": dict(per_device_train_batch_size=2, gradient_accumulation_steps=2), "zero3": dict(per_device_train_batch_size=2, count=2, deepspeed="zero3")}.items():
        found = steps_of(sft(tmp_path / name, **{**options, **more, "save_strategy": "no"}))
        assert column(found, "loss") == pytest.approx(column(ours, "loss"), rel=1e-5), name
        assert column(found, "rewards/margins") == pytest.approx(column(ours, "rewards/margins"), abs=1e-5), name
    figure("rm: the last 3 of 6 steps again, equal to the bit")


def test_reward_models_are_read_back_by_transformers_and_peft(sft, model_folder, pairs, tmp_path):
    from peft import PeftModel
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    options = dict(PLAIN, dataset=pairs[0], rlhf_type="rm", save_steps=6, learning_rate="1e-2")
    lora, full = sft(tmp_path / "lora", **{**options, "tuner_type": "lora"}), sft(tmp_path / "full", **options)
    assert lora.code == 0 and full.code == 0, lora.err + full.err
    args = json.loads((lora.folder / "checkpoint-6/args.json").read_text())
    assert args["task_type"] == "seq_cls" and args["num_labels"] == 1
    texts = [torch.tensor([sum(text, [])]) for text in encoded(model_folder, pairs[0], tmp_path / "ids", "rlhf")[::2]]
    pad = AutoTokenizer.from_pretrained(model_folder).pad_token_id
    adapted = AutoModelForSequenceClassification.from_pretrained(model_folder, num_labels=1, pad_token_id=pad)
    models = {"lora": PeftModel.from_pretrained(adapted, lora.folder / "checkpoint-6"), "full": AutoModelForSequenceClassification.from_pretrained(full.folder / "checkpoint-6")}
    words = {"lora": ["--model", model_folder, "--adapters", lora.folder / "checkpoint-6"], "full": ["--model", full.folder / "checkpoint-6"]}
    for name, model in models.items():
        with torch.no_grad():
            wanted = [model.eval()(text).logits.item() for text in texts]
        found = [row["response"] for row in verdicts([*words[name], "--torch_dtype", "float32"], pairs[0], tmp_path, f"{name}.jsonl")]
        assert found == pytest.approx(wanted, abs=1e-4)
        assert numpy.std(found) > 1e-3
    learns_from_scores_that_are_numbers(sft, pairs[0], full.folder / "checkpoint-6", tmp_path)


def learns_from_scores_that_are_numbers(sft, rows, judge, tmp_path):
    """A broken reward model ends the run, named with the row, instead of having nothing to say."""
    from safetensors.torch import load_file, save_file
    options = dict(verb="rlhf", rlhf_type="grpo", dataset=rows, reward_model=judge, num_generations=2, per_device_train_batch_size=2, max_completion_length=4, max_steps=1, save_strategy="no")
    assert sft(tmp_path / "learns", **options).code == 0
    broken = load_file(judge / "model.safetensors")
    broken["score.weight"].fill_(float("nan"))
    save_file(broken, judge / "model.safetensors", metadata={"format": "pt"})
    run = sft(tmp_path / "broken", **options)
    assert run.code == 1 and "the reward model checkpoint-6 returned nan" in run.err and "pairs.jsonl:" in run.err, run.err


def write_qwen_reward_model(source, folder, architecture, labels):
    """Qwen2.5-Math-PRM-7B or Qwen2.5-Math-RM-72B in small: the body of a language model, a head of two layers, a token that ends a step."""
    from safetensors.torch import save_file
    from transformers import AutoTokenizer, Qwen2ForCausalLM
    tokenizer, model = AutoTokenizer.from_pretrained(source), Qwen2ForCausalLM.from_pretrained(source)
    tokenizer.add_tokens(["<extra_0>"], special_tokens=True)
    model.resize_token_embeddings(len(tokenizer))
    width = model.config.hidden_size
    head = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, labels))
    tokenizer.save_pretrained(folder)
    model.config.architectures = [architecture]
    model.config.save_pretrained(folder)
    weights = {f"model.{name}": value for name, value in model.model.state_dict().items()} | {f"score.{name}": value for name, value in head.state_dict().items()}
    save_file({name: value.contiguous() for name, value in weights.items()}, folder / "model.safetensors", metadata={"format": "pt"})
    return tokenizer, model.model.eval(), head


@pytest.mark.parametrize("architecture, labels", [("Qwen2ForProcessRewardModel", 2), ("Qwen2ForRewardModel", 1)])
def test_qwens_reward_models_score_completions(sft, model_folder, pairs, tmp_path, architecture, labels):
    torch.manual_seed(3)
    tokenizer, body, head = write_qwen_reward_model(model_folder, tmp_path / "judge", architecture, labels)
    run = sft(tmp_path / "run", verb="rlhf", rlhf_type="grpo", dataset=pairs[0], reward_model=tmp_path / "judge", num_generations=2, per_device_train_batch_size=4, max_completion_length=8, max_steps=1,
              save_strategy="no", log_completions="true", torch_dtype="float32")
    assert run.code == 0, run.err
    assert "are not part of" not in run.err
    table = json.loads((run.folder / "completions.jsonl").read_text().splitlines()[0])
    for prompt, completion, score in zip(table["prompt"], table["completion"], table["judge"]):
        own = prompt[prompt.index("<|im_start|>user"):]  # the judge's template has no system prompt of its own
        text = own + completion + ("<extra_0>" if labels == 2 else "<|im_end|>\n")
        with torch.no_grad():
            logits = head(body(torch.tensor([tokenizer.encode(text)])).last_hidden_state[0, -1])
        assert score == pytest.approx(logits.softmax(0)[1].item() if labels == 2 else logits.item(), abs=1e-5)
    assert numpy.std(table["judge"]) > 1e-5


def kto_rows(texts, rows, block):
    made = [dict(prompt_ids=prompt, completion_ids=text, label=row["label"]) for (prompt, text), row in zip(texts, rows)]
    for i, row in enumerate(made):
        row["KL_completion_ids"] = made[i - 1 if i % block else min(i + block, len(made)) - 1]["completion_ids"]
    return made


def test_kto_follows_trl_in_every_layout_and_resumes_bit_for_bit(sft, model_folder, feedback, tmp_path):
    weighed = dict(beta=0.3, desirable_weight=1.2, undesirable_weight=0.7)
    options = dict(PLAIN, dataset=feedback[0], rlhf_type="kto", val_dataset=feedback[0], eval_steps=STEPS, **weighed)
    run = sft(tmp_path / "run", **options)
    ours = steps_of(run)
    texts = encoded(model_folder, feedback[0], tmp_path / "ids", "kto")
    rows = kto_rows(texts, feedback[1], BATCH)
    theirs = trl_steps(trl.KTOTrainer, trl.KTOConfig, model_folder, rows, tmp_path / "trl", max_length=None, **weighed)
    assert column(ours, "loss") == pytest.approx(column(theirs, "loss"), rel=1e-4)
    assert max(column(theirs, "kl")) > 1e-3
    for mine, peer in zip(ours, theirs):
        for name in ("kl", "rewards/chosen", "rewards/rejected", "rewards/margins", "logps/chosen", "logps/rejected"):
            assert mine.get(name) == pytest.approx(peer.get(name), rel=1e-3, abs=1e-3), name
    assert {"eval_kl", "eval_rewards/margins", "eval_logps/chosen"} <= set([line for line in run.log() if "eval_loss" in line][-1])
    again = sft(tmp_path / "again", **options, resume_from_checkpoint=run.folder / "checkpoint-3")
    assert column(steps_of(again), "loss") == column(ours, "loss")[3:]
    wanted = weights(run.folder / "checkpoint-6")
    assert all(torch.equal(value, wanted[name]) for name, value in weights(again.folder / "checkpoint-6").items())
    # The same rows pass their answers round, wherever they are, and what all of them say about the distance counts everywhere.
    for name, more in {"two": {}, "zero3": dict(deepspeed="zero3")}.items():
        found = steps_of(sft(tmp_path / name, **{**options, **more, "per_device_train_batch_size": 2, "count": 2, "save_strategy": "no"}))
        assert column(found, "loss") == pytest.approx(column(ours, "loss"), rel=1e-5), name
        assert column(found, "kl") == pytest.approx(column(ours, "kl"), abs=1e-4), name
    unpaired = steps_of(sft(tmp_path / "apo", **{**options, "loss_type": "apo_zero_unpaired", "save_strategy": "no"}))
    theirs = trl_steps(trl.KTOTrainer, trl.KTOConfig, model_folder, rows, tmp_path / "trl-apo", max_length=None, loss_type="apo_zero_unpaired", **weighed)
    assert column(unpaired, "loss") == pytest.approx(column(theirs, "loss"), rel=1e-4)


def test_kto_needs_two_rows_a_label_and_the_whole_data(sft, feedback, pairs, tmp_path):
    options = dict(verb="rlhf", rlhf_type="kto", max_steps=1)
    for more, message in ((dict(dataset=feedback[0], per_device_train_batch_size=1), "needs at least 2 rows per optimizer step"), (dict(dataset=pairs[0]), "the row has no \"label\""),
                       (dict(dataset=feedback[0], streaming="true"), "which a stream does not have"), (dict(dataset=feedback[0], loss_type="sigmoid"), "expected kto, apo_zero_unpaired")):
        refused = sft(tmp_path / "refused", **options, **more)
        assert refused.code != 0 and message in refused.err, refused.err


TAGS = {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant", "system_tag": "system"}
SYSTEM = {"role": "system", "content": "answer"}


@pytest.fixture
def factory(model_folder, pairs, feedback, tmp_path):
    """factory(stage="rm", …) runs `llamafactory-cli train` over the same rows and returns its results."""
    (tmp_path / "pairs.json").write_text(json.dumps([{"messages": [SYSTEM, *row["messages"][:1]], "chosen": row["messages"][1], "rejected": answer(row["rejected_response"])[0]}
                                                     for row in pairs[1]]))
    (tmp_path / "feedback.json").write_text(json.dumps([{"messages": [SYSTEM, *row["messages"]], "label": row["label"]} for row in feedback[1]]))
    entry = dict(formatting="sharegpt", tags=TAGS)
    (tmp_path / "dataset_info.json").write_text(json.dumps({
        "rm": dict(entry, file_name="pairs.json", ranking=True, columns=dict(messages="messages", chosen="chosen", rejected="rejected")),
        "kto": dict(entry, file_name="feedback.json", columns=dict(messages="messages", kto_tag="label"))}))

    def run(name, stage, **changes):
        settings = dict(model_name_or_path=str(model_folder), stage=stage, finetuning_type="lora", lora_target="all", dataset_dir=str(tmp_path), template="qwen", cutoff_len=256,
                        output_dir=str(tmp_path / name), logging_steps=1, save_strategy="no", per_device_train_batch_size=4, per_device_eval_batch_size=24, learning_rate=1e-2, max_steps=4,
                        plot_loss=True, lr_scheduler_type="constant", overwrite_output_dir=True)
        settings.update({"dataset": stage} if changes.get("do_train") else {"eval_dataset": stage, "do_eval": True}, **changes)
        (tmp_path / "run.yaml").write_text(json.dumps(settings))
        done = subprocess.run([hone_binary().with_name("llamafactory-cli"), "train", tmp_path / "run.yaml"], capture_output=True, text=True, env=ENVIRONMENT, timeout=300)
        assert done.returncode == 0, done.stderr
        return json.loads((tmp_path / name / "all_results.json").read_text())

    return run


def qwen_ids(tokenizer, row, text):
    """LLaMA-Factory's prompt and answer, slot by slot."""
    prompt = "<|im_start|>system\nanswer<|im_end|>\n", f"<|im_start|>user\n{row['messages'][0]['content']}<|im_end|>\n<|im_start|>assistant\n"
    ids = [tokenizer(slot, add_special_tokens=False).input_ids for slot in (*prompt, text + "<|im_end|>\n")]
    return ids[0] + ids[1], ids[2]


def adapted_model(model_folder, folder):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM
    base = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    return (PeftModel.from_pretrained(base, folder) if (folder / "adapter_config.json").exists() else AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)).eval()


@pytest.mark.parametrize("tuning", ["lora", "full"])
def test_value_heads_are_those_of_llama_factory(factory, model_folder, pairs, tmp_path, tuning):
    from safetensors.torch import load_file
    from transformers import AutoTokenizer
    factory("out", "rm", do_train=True, finetuning_type=tuning)
    found = (tmp_path / "out", "adapter_name_or_path" if tuning == "lora" else "model_name_or_path")
    results = factory("eval", "rm", do_predict=True, finetuning_type=tuning, **{found[1]: str(found[0])})
    head = load_file(tmp_path / "out/value_head.safetensors")
    assert {name: list(value.shape) for name, value in head.items()} == {"v_head.summary.weight": [1, 64], "v_head.summary.bias": [1]}
    model, tokenizer = adapted_model(model_folder, tmp_path / "out"), AutoTokenizer.from_pretrained(model_folder)

    def score(row, text):
        with torch.no_grad():
            state = model(torch.tensor([sum(qwen_ids(tokenizer, row, text), [])]), output_hidden_states=True).hidden_states[-1][0, -1]
        return (state @ head["v_head.summary.weight"][0] + head["v_head.summary.bias"][0]).item()

    chosen = torch.tensor([score(row, row["messages"][1]["content"]) for row in pairs[1]])
    rejected = torch.tensor([score(row, row["rejected_response"]) for row in pairs[1]])
    assert results["eval_loss"] == pytest.approx(-F.logsigmoid(chosen - rejected).mean().item(), rel=1e-4)
    assert results["eval_accuracy"] == pytest.approx((chosen > rejected).float().mean().item())
    lines = [json.loads(line) for line in (tmp_path / "eval/generated_predictions.jsonl").read_text().splitlines()]
    assert [line["chosen"] for line in lines] == pytest.approx(chosen.tolist(), abs=0.0051)
    assert [line["rejected"] for line in lines] == pytest.approx(rejected.tolist(), abs=0.0051)
    if tuning == "lora":
        done = ask("export", "--adapters", tmp_path / "out", "--model", model_folder, "--merge_lora", "true", "--output_dir", tmp_path / "merged")
        assert done.returncode == 0, done.stderr
        assert all(torch.equal(value, head[name]) for name, value in load_file(tmp_path / "merged/value_head.safetensors").items())


def test_kto_measures_as_llama_factory_does(factory, model_folder, feedback, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer
    options = dict(pref_ftx=0.3, kto_chosen_weight=1.4, kto_rejected_weight=0.6, pref_beta=0.2)
    factory("out", "kto", do_train=True, **options)
    assert (tmp_path / "out/training_rewards_chosen.png").exists()
    results = factory("eval", "kto", adapter_name_or_path=str(tmp_path / "out"), **options)
    models = adapted_model(model_folder, tmp_path / "out"), AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    ids = [qwen_ids(tokenizer, row, row["messages"][1]["content"]) for row in feedback[1]]

    def logps(model, texts):
        sums = []
        for prompt, text in texts:
            with torch.no_grad():
                logits = model(torch.tensor([prompt + text])).logits[0, len(prompt) - 1:-1]
            sums.append(logits.log_softmax(-1).gather(1, torch.tensor(text)[:, None]).sum())
        return torch.stack(sums)

    kl_pairs = [(prompt, ids[i - 1][1]) for i, (prompt, _) in enumerate(ids)]  # of the row before in the file
    policy, reference = (logps(model, ids) for model in models)
    kl = (logps(models[0], kl_pairs) - logps(models[1], kl_pairs)).mean().clamp(min=0)
    good, ratio = torch.tensor([row["label"] for row in feedback[1]]), policy - reference
    losses = torch.where(good, 1.4 * (1 - torch.sigmoid(0.2 * (ratio - kl))), 0.6 * (1 - torch.sigmoid(0.2 * (kl - ratio))))
    own = -policy / torch.tensor([len(text) for _, text in ids])
    loss = losses.mean() + 0.3 * own[good].mean() / good.sum() * len(ids)
    assert results["eval_loss"] == pytest.approx(loss.item(), rel=1e-4)
    assert results["eval_kl"] == pytest.approx(kl.item(), rel=1e-3) and kl > 0
    assert results["eval_rewards/chosen"] == pytest.approx(0.2 * ratio[good].mean().item(), rel=1e-3, abs=1e-4)
    assert results["eval_rewards/margins"] == pytest.approx(0.2 * (ratio[good].mean() - ratio[~good].mean()).item(), rel=1e-3, abs=1e-4)
    assert results["eval_logps/rejected"] == pytest.approx(policy[~good].mean().item(), rel=1e-4)


def test_packed_feedback_is_the_same_step(sft, feedback, tmp_path):
    """KTO of the same rows, in one pack and in a batch of rows: the KL term has the same partners."""
    options = dict(PLAIN, dataset=feedback[0], rlhf_type="kto", max_steps=1, per_device_train_batch_size=len(feedback[1]), save_strategy="no", max_length=4096)
    (apart,), (packed,) = (steps_of(sft(tmp_path / packing, **options, packing=packing)) for packing in ("false", "true"))
    for name in ("loss", "grad_norm", "kl", "rewards/chosen", "logps/rejected"):
        assert packed[name] == pytest.approx(apart[name], rel=1e-4, abs=1e-6), name
