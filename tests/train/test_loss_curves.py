"""The loss of every step against a plain transformers (and peft) loop over the same rows in the same order."""
import pytest
import torch
from train_testing import plain_steps, texts_of

STEPS, RATE, BATCH = 50, 1e-3, 2


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return texts_of(tmp_path_factory.mktemp("texts"), STEPS * BATCH)


def settings(**more):
    return plain_steps(STEPS, BATCH, RATE, gradient_checkpointing="false", **more)


def reference_losses(model, tokenizer, rows, trained):
    optimizer = torch.optim.AdamW(trained, lr=RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=0)
    losses = []
    for step in range(STEPS):
        batch = [tokenizer(row).input_ids + [tokenizer.eos_token_id] for row in rows[step * BATCH:(step + 1) * BATCH]]
        count = sum(len(ids) - 1 for ids in batch)
        total = 0.0
        for ids in batch:
            ids = torch.tensor([ids])
            logits = model(ids).logits[0, :-1]
            loss = torch.nn.functional.cross_entropy(logits.float(), ids[0, 1:], reduction="sum") / count
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    return losses


def test_full_tuning_follows_transformers(sft, model_folder, texts, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    path, rows = texts
    run = sft(tmp_path / "run", dataset=path, tuner_type="full", **settings())
    assert run.code == 0, run.err
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    theirs = reference_losses(model, AutoTokenizer.from_pretrained(model_folder), rows, list(model.parameters()))
    assert run.losses() == pytest.approx(theirs, rel=1e-4)


def test_lora_follows_peft_from_the_same_adapter(sft, model_folder, texts, tmp_path):
    import peft
    from transformers import AutoModelForCausalLM, AutoTokenizer

    path, rows = texts
    torch.manual_seed(3)
    base = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    config = peft.LoraConfig(r=4, lora_alpha=16, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM", init_lora_weights="gaussian")
    model = peft.get_peft_model(base, config)
    model.save_pretrained(tmp_path / "start")
    run = sft(tmp_path / "run", dataset=path, adapters=tmp_path / "start", lora_rank=4, lora_alpha=16, **settings())
    assert run.code == 0, run.err
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    model.train()
    theirs = reference_losses(model, AutoTokenizer.from_pretrained(model_folder), rows, trained)
    assert run.losses() == pytest.approx(theirs, rel=1e-4)


def test_accumulation_and_packing_do_not_change_the_first_gradient(sft, texts, tmp_path):
    path, _ = texts
    shared = dict(settings(), max_steps=1, dataset=path, tuner_type="full", save_steps=1)
    norms = []
    for name, options in {"batch": dict(per_device_train_batch_size=8), "accumulated": dict(per_device_train_batch_size=2, gradient_accumulation_steps=4)}.items():
        run = sft(tmp_path / name, **{**shared, **options})
        assert run.code == 0, run.err
        norms.append((run.log()[0]["loss"], run.log()[0]["grad_norm"]))
    assert norms[0] == pytest.approx(norms[1], rel=1e-5)
