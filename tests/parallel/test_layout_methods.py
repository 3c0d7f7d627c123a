"""Methods beside sft where layers are cut or experts are elsewhere: as in one process, or as in copies that hold everything."""
import json
import random

import pytest
from layouts_testing import ON_EXPERTS, STEPS, assert_same, experts, many_experts, settings
from parallel_testing import GLOBAL_BATCH, sentence

TENSOR, EXPERT, CUT = "tensor_parallel_size", "expert_parallel_size", "expert_tensor_parallel_size"


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Pairs of answers, single answers with a verdict, and prompts."""
    folder, rng = tmp_path_factory.mktemp("rows"), random.Random(5)
    files = {name: (folder / f"{name}.jsonl").open("w") for name in ("pairs", "verdicts", "answers", "prompts")}
    for i in range(GLOBAL_BATCH * STEPS):
        question = {"role": "user", "content": sentence(rng, rng.randint(2, 6))}
        talk = [question, {"role": "assistant", "content": sentence(rng, rng.randint(3, 9))}]
        files["pairs"].write(json.dumps({"messages": talk, "rejected_response": sentence(rng, rng.randint(3, 9))}) + "\n")
        files["verdicts"].write(json.dumps({"messages": talk, "label": i % 3 > 0}) + "\n")
        files["answers"].write(json.dumps({"messages": talk}) + "\n")
        files["prompts"].write(json.dumps({"messages": [question]}) + "\n")
    for file in files.values():
        file.close()
    return {name: folder / f"{name}.jsonl" for name in files}


DPO, KTO = dict(rlhf_type="dpo", rpo_alpha=0.1), dict(rlhf_type="kto")
WHOLE = dict(tuner_type="full")  # the reference is a second model, in parts as the first
LAYOUTS = {
    "dpo, full, tp 2, balanced": (2, {TENSOR: 2}, "pairs", {**DPO, **WHOLE, "router_aux_loss_coef": 0.01}),
    "dpo, lora on experts, tp 2, ep 2, z-loss": (2, {TENSOR: 2, EXPERT: 2, CUT: 1}, "pairs", {**DPO, **ON_EXPERTS, "router_z_loss_coef": 0.01}),
    "kto, lora on experts, tp 2, etp 1": (2, {TENSOR: 2, CUT: 1}, "verdicts", {**KTO, **ON_EXPERTS}),
}


def run_of(train, models, folder, rows, world, layout, data, options):
    batch = GLOBAL_BATCH // (world // layout.get(TENSOR, 1))
    teacher = {"teacher_model": models(many_experts)} if options["rlhf_type"] == "gkd" else {}
    return train(folder, world, verb="rlhf", dataset=rows[data], **layout, **settings(models(experts), per_device_train_batch_size=batch, **teacher, **options))


@pytest.mark.parametrize("case", LAYOUTS)
def test_preferences_train_as_in_one_process(train, models, rows, tmp_path, case):
    world, layout, data, options = LAYOUTS[case]
    run = run_of(train, models, tmp_path / "spread", rows, world, layout, data, options)
    assert_same(run, run_of(train, models, tmp_path / "one", rows, 1, {}, data, options))


ALIKE = {  # what a process draws or balances depends on its rows: the same processes without the layout are the measure
    "dpo": ("pairs", {**DPO, **WHOLE}),
    "gkd": ("answers", dict(rlhf_type="gkd", lmbda=0.5, max_completion_length=8, temperature=1, **ON_EXPERTS)),
    "rm": ("pairs", dict(rlhf_type="rm", tuner_type="full")),
    "grpo": ("prompts", dict(rlhf_type="grpo", reward_funcs="soft_overlong", soft_max_length=12, soft_cache_length=6, num_generations=4, max_completion_length=10, beta=0.04, temperature=1, **ON_EXPERTS)),
}


@pytest.mark.parametrize("method", ALIKE)
def test_experts_elsewhere_train_as_in_copies(train, models, rows, tmp_path, method):
    data, options = ALIKE[method]
    run, copies = (run_of(train, models, tmp_path / name, rows, 2, layout, data, options) for name, layout in (("spread", {EXPERT: 2}), ("copies", {})))
    assert run.code == 0, run.err
    assert copies.code == 0, copies.err
    assert run.losses() == pytest.approx(copies.losses(), abs=1e-5)
    norms, expected = ([event["grad_norm"] for event in each.log() if "grad_norm" in event] for each in (run, copies))
    assert norms == pytest.approx(expected, rel=1e-4) and max(norms) > 0


@pytest.mark.parametrize("method, data, said", [("rm", "pairs", "reward models"), ("grpo", "prompts", "methods that generate")])
def test_what_cut_layers_cannot_do_is_said(train, models, rows, tmp_path, method, data, said):
    run = run_of(train, models, tmp_path, rows, 2, {TENSOR: 2}, data, {**ALIKE[method][1]})
    assert run.code == 2 and said in run.err
