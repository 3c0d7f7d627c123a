"""Pooling models: classification and regression compared with transformers, embeddings and rerankers with formulas in torch."""
import json
import math
import random
import subprocess

import pytest
import torch

from train_testing import ENVIRONMENT, hone_binary, sentence

F = torch.nn.functional
PLAIN = dict(use_chat_template="false", tuner_type="full", optim="sgd", max_grad_norm=0, weight_decay=0, warmup_ratio=0, lr_scheduler_type="constant", learning_rate="0.1",
             gradient_checkpointing="false", max_steps=1, save_steps=1, train_dataloader_shuffle="false", dataset_shuffle="false")


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def user(text):
    return [{"role": "user", "content": text}]


def texts(count, seed=3):
    rng = random.Random(seed)
    return [sentence(rng, rng.randint(2, 9)) for _ in range(count)]


def classifier(model_folder, folder, labels, **more):
    """A classifier folder as transformers writes it, over the blocks of the small model."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    torch.manual_seed(5)
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    model = AutoModelForSequenceClassification.from_pretrained(model_folder, num_labels=labels, pad_token_id=tokenizer.pad_token_id, **more).float()
    model.score.weight.data.normal_(0, 0.3)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def stepped(model, loss, rate=0.1):
    """The weights after one plain step."""
    loss.backward()
    return {name: (p - rate * p.grad if p.grad is not None else p).detach() for name, p in model.named_parameters()}


def assert_same_step(run, model, loss, names=None):
    from safetensors.torch import load_file
    assert run.code == 0, run.err
    assert run.log()[0]["loss"] == pytest.approx(loss.item(), rel=2e-5)
    found = load_file(run.folder / "checkpoint-1" / "model.safetensors")
    wanted, before = stepped(model, loss), dict(model.named_parameters())
    assert set(found) <= set(wanted)
    for name in names or found:
        # A change is a gradient, which is rounded relative to its largest element.
        change = (wanted[name] - before[name].detach()).abs().max().item()
        assert torch.allclose(found[name], wanted[name], rtol=1e-4, atol=1e-6 * max(1.0, change)), name


CLASS_CASES = [dict(labels=3, problem="single_label_classification"), dict(labels=3, problem="multi_label_classification"), dict(labels=1, problem="regression"), dict(labels=2, problem="regression")]


def label_of(case, i):
    if case["problem"] == "single_label_classification":
        return i % 3
    if case["problem"] == "multi_label_classification":
        return [j for j in range(3) if (i >> j) & 1]
    return i / 4 if case["labels"] == 1 else [i / 4, -i / 8]


@pytest.mark.parametrize("case", CLASS_CASES, ids=lambda c: f"{c['problem']}-{c['labels']}")
def test_classes_and_values_step_as_transformers_does(sft, model_folder, tmp_path, case):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    folder = classifier(model_folder, tmp_path / "base", case["labels"], problem_type=case["problem"])
    rows = [{"query": text, "label": label_of(case, i)} for i, text in enumerate(texts(6))]
    run = sft(tmp_path / "run", dataset=write_rows(tmp_path / "rows.jsonl", rows), model=folder, task_type="seq_cls", num_labels=case["labels"], problem_type=case["problem"],
              per_device_train_batch_size=6, **PLAIN)
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForSequenceClassification.from_pretrained(folder)
    batch = tokenizer([row["query"] for row in rows], return_tensors="pt", padding=True)
    if case["problem"] == "multi_label_classification":
        labels = torch.tensor([[float(j in row["label"]) for j in range(3)] for row in rows])
    else:
        labels = torch.tensor([row["label"] for row in rows])
    output = model(**batch, labels=labels)
    assert_same_step(run, model, output.loss)
    if case["problem"] == "single_label_classification":
        assert run.log()[0]["acc"] == pytest.approx((output.logits.argmax(1) == labels).float().mean().item())


def ask(*words, env=None):
    return subprocess.run([str(hone_binary()), *map(str, words)], capture_output=True, text=True, env={**ENVIRONMENT, **(env or {})}, timeout=120)


def verdicts(folder_words, rows, tmp_path, name, *more):
    done = ask("infer", *folder_words, "--val_dataset", rows, "--result_path", tmp_path / name, *more)
    assert done.returncode == 0, done.stderr
    assert "newly initialized" not in done.stderr  # the head that was trained is used
    return [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]


def test_a_language_model_becomes_a_classifier_that_transformers_and_peft_load(sft, model_folder, tmp_path):
    from peft import PeftModel
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    rows = write_rows(tmp_path / "rows.jsonl", [{"query": text, "label": int("cat" in text)} for text in texts(24)])
    options = dict(dataset=rows, task_type="seq_cls", num_labels=2, use_chat_template="false", max_steps=30, save_steps=30, per_device_train_batch_size=12, learning_rate="1e-2")
    full, lora = sft(tmp_path / "full", tuner_type="full", **options), sft(tmp_path / "lora", lora_rank=4, **options)
    assert full.code == 0 and lora.code == 0, full.err + lora.err
    assert "the head with 2 outputs is newly initialized" in full.err + full.out
    checkpoint = {"full": full.folder / "checkpoint-30", "lora": lora.folder / "checkpoint-30"}
    saved = json.loads((checkpoint["lora"] / "adapter_config.json").read_text())
    assert saved["task_type"] == "SEQ_CLS" and saved["modules_to_save"] == ["classifier", "score"]
    tokenizer = AutoTokenizer.from_pretrained(checkpoint["full"])
    models = {"full": AutoModelForSequenceClassification.from_pretrained(checkpoint["full"])}
    base = AutoModelForSequenceClassification.from_pretrained(model_folder, num_labels=2, pad_token_id=tokenizer.pad_token_id)
    models["lora"] = PeftModel.from_pretrained(base, checkpoint["lora"])
    merged = ask("export", "--adapters", checkpoint["lora"], "--merge_lora", "true", "--output_dir", tmp_path / "merged")
    assert merged.returncode == 0, merged.stderr
    models["merged"] = AutoModelForSequenceClassification.from_pretrained(tmp_path / "merged")
    given = {"full": ["--model", checkpoint["full"]], "lora": ["--adapters", checkpoint["lora"]], "merged": ["--model", tmp_path / "merged"]}
    for kind, model in models.items():
        found = verdicts(given[kind], rows, tmp_path, f"{kind}.jsonl", "--use_chat_template", "false", "--top_logprobs", 2)
        assert len(found) == 24
        for row in found:
            with torch.no_grad():
                logps = model.eval()(**tokenizer([row["messages"][0]["content"]], return_tensors="pt")).logits[0].log_softmax(0)
            assert row["response"] == logps.argmax().item()
            assert row["logprobs"]["content"][0]["logprobs"] == pytest.approx(logps.max().item(), abs=1e-4)
            assert [top["index"] for top in row["logprobs"]["content"][0]["top_logprobs"]] == logps.argsort(descending=True).tolist()
        assert sum(row["response"] == row["labels"] for row in found) >= 22  # it has learned them


def embedded(model_folder, lists):
    """Of each text the last token's state, of length 1, by transformers."""
    from transformers import AutoModelForCausalLM, AutoTokenizer
    tokenizer, model = AutoTokenizer.from_pretrained(model_folder), AutoModelForCausalLM.from_pretrained(model_folder)
    states = [model.model(torch.tensor([tokenizer(text).input_ids])).last_hidden_state[0, -1] for text in lists]
    return model, F.normalize(torch.stack(states), dim=1)


def pair_rows(count):
    names = texts(2 * count, seed=8)
    return [{"messages": user(names[2 * i]), "positive_messages": [user(names[2 * i + 1])], "label": [1.0, 0.0, 0.4][i % 3]} for i in range(count)]


def group_rows(count, negatives):
    names = iter(texts(count * 8, seed=9))
    return [{"messages": user(next(names)), "positive_messages": [user(next(names))], "negative_messages": [user(next(names)) for _ in range(negatives(i))]} for i in range(count)]


def row_texts(row):
    return [row["messages"][0]["content"], *(m[0]["content"] for m in row["positive_messages"]), *(m[0]["content"] for m in row.get("negative_messages", []))]


def pair_loss(kind, vectors, labels):
    similarity = torch.cosine_similarity(vectors[0::2], vectors[1::2])
    if kind == "cosine_similarity":
        return F.mse_loss(similarity, labels)
    distance = 1 - similarity
    if kind == "contrastive":
        return (0.5 * (labels * distance**2 + (1 - labels) * F.relu(0.5 - distance)**2)).mean()
    apart, like = distance[labels == 0], distance[labels == 1]
    hard_apart, hard_like = apart[apart < like.max()], like[like > apart.min()]
    return (hard_like**2).sum() + (F.relu(0.5 - hard_apart)**2).sum()


@pytest.mark.parametrize("kind", ["cosine_similarity", "contrastive", "online_contrastive"])
def test_pairs_step_by_their_formula(sft, model_folder, tmp_path, kind):
    rows = pair_rows(6)
    if kind == "online_contrastive":
        rows = [{**row, "label": float(i % 2)} for i, row in enumerate(rows)]
    run = sft(tmp_path / "run", dataset=write_rows(tmp_path / "rows.jsonl", rows), task_type="embedding", loss_type=kind, per_device_train_batch_size=6, **PLAIN)
    model, vectors = embedded(model_folder, [text for row in rows for text in row_texts(row)])
    assert_same_step(run, model, pair_loss(kind, vectors, torch.tensor([row["label"] for row in rows])))


@pytest.mark.parametrize("count", [1, 2])
def test_pairs_are_measured_over_the_whole_set(sft, model_folder, tmp_path, count):
    """Correlations of likeness and label, over batches and processes, as torch computes them over all rows."""
    rows = pair_rows(7)
    path = write_rows(tmp_path / "rows.jsonl", rows)
    run = sft(tmp_path / "run", dataset=path, val_dataset=path, eval_steps=1, per_device_eval_batch_size=2, task_type="embedding", loss_type="cosine_similarity", count=count,
              eval_metric="paired", **{**PLAIN, "learning_rate": "0"})
    assert run.code == 0, run.err
    _, vectors = embedded(model_folder, [text for row in rows for text in row_texts(row)])
    first, second = vectors[0::2].detach().double(), vectors[1::2].detach().double()
    labels = torch.tensor([row["label"] for row in rows]).double()
    ranks = lambda values: torch.stack([(values < v).sum() + ((values == v).sum() + 1) / 2 for v in values]).double()
    related = lambda a, b: torch.corrcoef(torch.stack([a, b]))[0, 1].item()
    likeness = {"cosine": torch.cosine_similarity(first, second), "euclidean": -(first - second).norm(dim=1), "manhattan": -(first - second).abs().sum(1), "dot_product": (first * second).sum(1)}
    (measured,) = [event for event in run.log() if "eval_loss" in event]
    for name, values in likeness.items():
        assert measured[f"eval_pearson_{name}"] == pytest.approx(related(labels, values), abs=1e-3)
    assert measured["eval_spearman_manhattan"] == pytest.approx(related(ranks(labels), ranks(likeness["manhattan"])), abs=1e-6)


def infonce(vectors, sizes, *, temperature=0.1, use_batch=True, hard=None, mask=False, margin=0.1, qq=False, dd=False):
    groups, at = [], 0
    for size in sizes:
        group = vectors[at:at + size]
        groups.append(group if hard is None else group[:hard + 2])
        at += size
    if not use_batch:
        return torch.stack([F.cross_entropy((g[:1] @ g[1:].T) / temperature, torch.tensor([0])) for g in groups]).mean()
    queries, documents = torch.stack([g[0] for g in groups]), torch.cat([g[1:] for g in groups])
    targets = torch.tensor([sum(len(g) - 1 for g in groups[:i]) for i in range(len(groups))])
    rows = torch.arange(len(groups))
    scores = queries @ documents.T
    limit = scores[rows, targets].detach()[:, None] + margin
    hide = lambda values: torch.where(values > limit, torch.full_like(values, -math.inf), values) if mask else values
    parts = [hide(scores)]
    if qq:
        parts.append(hide((queries @ queries.T).masked_fill(torch.eye(len(groups), dtype=torch.bool), -math.inf)))
    if dd:
        own = torch.zeros_like(scores, dtype=torch.bool)
        own[rows, targets] = True
        parts.append((documents[targets] @ documents.T).masked_fill(own, -math.inf))
    return F.cross_entropy(torch.cat(parts, 1) / temperature, targets)


INFONCE_CASES = {
    "plain": ({}, {}, lambda i: 2),
    "uneven": ({}, {}, lambda i: i % 3),
    "own negatives": (dict(INFONCE_USE_BATCH="False", INFONCE_TEMPERATURE="0.05"), dict(use_batch=False, temperature=0.05), lambda i: 1 + i % 2),
    "all terms": (dict(INFONCE_INCLUDE_QQ="True", INFONCE_INCLUDE_DD="true", INFONCE_MASK_FAKE_NEGATIVE="1", INFONCE_FAKE_NEG_MARGIN="0.01"), dict(qq=True, dd=True, mask=True, margin=0.01), lambda i: 2),
    "hard": (dict(INFONCE_HARD_NEGATIVES="1"), dict(hard=1), lambda i: 2 + i % 2),
}


@pytest.mark.parametrize("name", INFONCE_CASES)
def test_infonce_steps_by_its_formula(sft, model_folder, tmp_path, name):
    variables, settings, negatives = INFONCE_CASES[name]
    rows = group_rows(4, negatives)
    run = sft(tmp_path / "run", dataset=write_rows(tmp_path / "rows.jsonl", rows), task_type="embedding", loss_type="infonce", per_device_train_batch_size=4, env=variables, **PLAIN)
    model, vectors = embedded(model_folder, [text for row in rows for text in row_texts(row)])
    assert_same_step(run, model, infonce(vectors, [len(row_texts(row)) for row in rows], **settings))


def test_nested_sizes_add_up_and_measures_are_logged(sft, model_folder, tmp_path):
    rows = group_rows(4, lambda i: 2)
    path = write_rows(tmp_path / "rows.jsonl", rows)
    run = sft(tmp_path / "run", dataset=path, val_dataset=path, eval_steps=1, per_device_eval_batch_size=4, task_type="embedding", mrl_dims='{"64": 1.0, "16": 0.5}',
              per_device_train_batch_size=4, **{**PLAIN, "learning_rate": "0"})
    model, vectors = embedded(model_folder, [text for row in rows for text in row_texts(row)])
    sizes = [4] * 4
    loss = infonce(vectors, sizes) + 0.5 * infonce(F.normalize(vectors[:, :16], dim=1), sizes)
    assert run.code == 0, run.err
    assert run.log()[0]["loss"] == pytest.approx(loss.item(), rel=2e-5)
    scores = vectors[0::4] @ torch.cat([vectors[4 * i + 1:4 * i + 4] for i in range(4)]).T
    positive = torch.tensor([scores[i, 3 * i] for i in range(4)])
    others = torch.stack([torch.cat([scores[i, :3 * i], scores[i, 3 * i + 1:]]) for i in range(4)])
    (measured,) = [event for event in run.log() if "eval_loss" in event]
    assert measured["eval_margin"] == pytest.approx((positive - others.max(1).values).mean().item(), abs=1e-5)
    assert measured["eval_mean_pos"] == pytest.approx(positive.mean().item(), abs=1e-5)
    assert measured["eval_mean_neg"] == pytest.approx(others.mean().item(), abs=1e-5)


def candidate_rows(count, positives, negatives):
    names = iter(texts(count * 16, seed=4))
    answer = lambda text: [{"role": "assistant", "content": text}]
    return [{"messages": user(next(names) + " "), "positive_messages": [answer(next(names)) for _ in range(positives)], "negative_messages": [answer(next(names)) for _ in range(negatives)]}
            for _ in range(count)]


def candidate_ids(tokenizer, row):
    """A question and an answer without a template: both texts and the end of the answer."""
    return [tokenizer(row["messages"][0]["content"]).input_ids + tokenizer(c[0]["content"]).input_ids + [tokenizer.eos_token_id] for c in row["positive_messages"] + row["negative_messages"]]


@pytest.mark.parametrize("kind", ["pointwise_reranker", "listwise_reranker"])
@pytest.mark.parametrize("task", ["reranker", "generative_reranker"])
def test_rerankers_step_by_their_formula(sft, model_folder, tmp_path, task, kind):
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer
    folder = classifier(model_folder, tmp_path / "base", 1) if task == "reranker" else model_folder
    rows = candidate_rows(3, 1, 3)
    variables = dict(LISTWISE_RERANKER_TEMPERATURE="2.0", GENERATIVE_RERANKER_POSITIVE_TOKEN="cat", GENERATIVE_RERANKER_NEGATIVE_TOKEN="dog")
    run = sft(tmp_path / "run", dataset=write_rows(tmp_path / "rows.jsonl", rows), model=folder, task_type=task, loss_type=kind, per_device_train_batch_size=3, env=variables, **PLAIN)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = (AutoModelForSequenceClassification if task == "reranker" else AutoModelForCausalLM).from_pretrained(folder)
    yes, no = tokenizer.convert_tokens_to_ids(["cat", "dog"])
    scores = []
    for ids in (ids for row in rows for ids in candidate_ids(tokenizer, row)):
        logits = model(torch.tensor([ids])).logits[0]
        scores.append(logits[0] if task == "reranker" else logits[-1, yes] - logits[-1, no])
    scores = torch.stack(scores).view(3, 4)
    labels = torch.tensor([[1.0, 0, 0, 0]] * 3)
    if kind == "pointwise_reranker":
        loss = F.binary_cross_entropy_with_logits(scores, labels)
    else:
        loss = F.cross_entropy(scores / 2.0, torch.zeros(3, dtype=torch.long))
    ranks = 1 + (scores[:, 1:] > scores[:, :1]).sum(1)
    if run.code == 0:
        assert run.log()[0]["mrr"] == pytest.approx((1 / ranks).mean().item(), abs=1e-6)
        assert run.log()[0]["ndcg"] == pytest.approx((1 / torch.log2(ranks + 1.0)).mean().item(), abs=1e-6)
    assert_same_step(run, model, loss)


def test_a_reranker_takes_several_candidates_and_returns_scores(sft, model_folder, tmp_path):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    rows = write_rows(tmp_path / "rows.jsonl", candidate_rows(4, 3, 9))
    lengths = {}
    for positives, negatives in [(1, 7), (2, 3)]:
        run = sft(tmp_path / f"run{positives}", dataset=rows, task_type="reranker", per_device_train_batch_size=4, include_num_input_tokens_seen="true",
                  env=dict(MAX_POSITIVE_SAMPLES=str(positives), MAX_NEGATIVE_SAMPLES=str(negatives)), **PLAIN)
        assert run.code == 0, run.err
        event = run.log()[0]
        lengths[positives] = event["acc"] * 4 * positives * (1 + negatives)
        assert lengths[positives] == pytest.approx(round(lengths[positives]), abs=1e-4)  # an integer of candidates was judged
    pairs = write_rows(tmp_path / "pairs.jsonl", [{"messages": user("the cat ") + [{"role": "assistant", "content": text}]} for text in texts(3)])
    checkpoint = tmp_path / "run1" / "checkpoint-1"
    raw = verdicts(["--model", checkpoint], pairs, tmp_path, "raw.jsonl", "--use_chat_template", "false", "--task_type", "reranker", "--reranker_use_activation", "false")
    squashed = verdicts(["--model", checkpoint], pairs, tmp_path, "squashed.jsonl", "--use_chat_template", "false", "--task_type", "reranker")
    tokenizer, model = AutoTokenizer.from_pretrained(checkpoint), AutoModelForSequenceClassification.from_pretrained(checkpoint)
    for text, one, other in zip(texts(3), raw, squashed):
        with torch.no_grad():
            score = model(torch.tensor([tokenizer("the cat ").input_ids + tokenizer(text).input_ids + [tokenizer.eos_token_id]])).logits[0, 0]
        assert one["response"] == pytest.approx([score.item()], abs=1e-4)
        assert other["response"] == pytest.approx([score.sigmoid().item()], abs=1e-4)


def test_two_processes_step_as_one(sft, model_folder, tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", [{"query": text, "label": i % 2} for i, text in enumerate(texts(8))])
    shared = dict(dataset=rows, model=classifier(model_folder, tmp_path / "base", 2), task_type="seq_cls", num_labels=2)
    one = sft(tmp_path / "one", per_device_train_batch_size=8, **shared, **PLAIN)
    two = sft(tmp_path / "two", per_device_train_batch_size=4, count=2, **shared, **PLAIN)
    assert one.code == 0 and two.code == 0, one.err + two.err
    assert two.log()[0]["loss"] == pytest.approx(one.log()[0]["loss"], rel=1e-5)
    assert two.log()[0]["acc"] == pytest.approx(one.log()[0]["acc"])


@pytest.mark.parametrize("options,row,words", [
    (dict(task_type="seq_cls"), {"query": "the cat", "label": 1}, "num_labels"),
    (dict(task_type="seq_cls", num_labels=2), {"query": "the cat", "label": 2}, "classes from 0 to 1"),
    (dict(task_type="seq_cls", num_labels=2), {"query": "the cat"}, "no \"label\""),
    (dict(task_type="embedding"), {"query": "the cat"}, "positive_messages"),
    (dict(task_type="embedding", loss_type="listwise_reranker"), {"query": "the cat"}, "expected infonce"),
    (dict(task_type="seq_cls", num_labels=2, eval_metric="paired"), {"query": "the cat", "label": 1}, "eval_metric"),
    (dict(task_type="embedding", packing="true", max_length=64), {"query": "the cat"}, "cannot be packed"),
    (dict(task_type="generative_reranker"), {"query": "the cat", "positive_messages": [[{"role": "assistant", "content": "a"}]]}, "GENERATIVE_RERANKER"),
])
def test_mistakes_are_named_before_the_model_is_loaded(sft, tmp_path, options, row, words):
    run = sft(tmp_path / "run", dataset=write_rows(tmp_path / "rows.jsonl", [row] * 2), max_steps=1, env=dict(GENERATIVE_RERANKER_POSITIVE_TOKEN="catdog"), **options)
    assert run.code in (2, 3), run.err
    assert words in run.err
