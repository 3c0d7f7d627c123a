"""Vision-language models in tensor, pipeline, context and expert parallel layouts train like one process: losses, every gradient of language model, tower and aligner, files."""
import json
import pathlib
import random
import runpy

import pytest
from layouts_testing import LAYOUT, STEPS, assert_same, in_parts, settings, worst_gradient
from parallel_testing import sentence

write_vision_model = runpy.run_path(str(pathlib.Path(__file__).resolve().parents[1] / "vision/vision_models.py"))["write_vision_model"]

ALL_PARTS = dict(freeze_vit="false", freeze_aligner="false", max_length=1024)
FULL = dict(tuner_type="full", **ALL_PARTS)
ADAPTED = dict(tuner_type="lora", lora_rank=4, target_modules="all-linear", **ALL_PARTS)
ON_EXPERTS = {**ADAPTED, "target_parameters": "all-experts", "freeze_vit": "true", "freeze_aligner": "true"}
ROWS_SPLIT = dict(tensor_parallel_size=2, sequence_parallel="true", **in_parts(8, 1))
CASES = {  # processes, family, what is trained, layout
    "tensor parallel": (2, "qwen2_5_vl", FULL, dict(tensor_parallel_size=2, **in_parts(8, 1))),
    "tensor and sequence parallel": (2, "qwen2_5_vl", FULL, ROWS_SPLIT),
    "tensor and sequence parallel, lora, packed": (2, "qwen2_5_vl", dict(**ADAPTED, packing="true"), ROWS_SPLIT),
    "two stages": (2, "qwen2_5_vl", FULL, dict(pipeline_parallel_size=2, **in_parts(2, 4))),
    "two stages in two copies, shared optimizer": (4, "qwen2_5_vl", ADAPTED, dict(pipeline_parallel_size=2, use_distributed_optimizer="true", **in_parts(2, 2))),
    "expert parallel": (2, "qwen3_vl_moe", FULL, dict(expert_parallel_size=2, **in_parts(4, 1))),
    "tensor and expert parallel": (2, "qwen3_vl_moe", FULL, dict(tensor_parallel_size=2, expert_parallel_size=2, expert_tensor_parallel_size=1, **in_parts(8, 1))),
    "features that travel": (2, "qwen3_vl_moe", FULL, dict(pipeline_parallel_size=2, decoder_first_pipeline_num_layers=1, **in_parts(2, 4))),
    "features that travel, interleaved, tensor and expert parallel": (4, "qwen3_vl_moe", FULL, dict(
        pipeline_parallel_size=2, virtual_pipeline_parallel_size=2, tensor_parallel_size=2, expert_parallel_size=2, expert_tensor_parallel_size=1, **in_parts(4, 2))),
    "sequences over two ranks": (2, "qwen2_5_vl", FULL, dict(context_parallel_size=2, **in_parts(8, 1))),
    "sequences over two ranks, features that travel": (4, "qwen3_vl_moe", FULL, dict(context_parallel_size=2, pipeline_parallel_size=2, decoder_first_pipeline_num_layers=1, **in_parts(2, 4))),
    "embeddings, tensor and sequence parallel": (2, "qwen2_5_vl", dict(**FULL, task_type="embedding", loss_type="infonce"), ROWS_SPLIT),
    "classes, two stages": (2, "qwen2_5_vl", dict(**ADAPTED, task_type="seq_cls", num_labels=3), dict(pipeline_parallel_size=2, **in_parts(2, 4))),
    "pairs, two stages, tensor parallel": (4, "qwen2_5_vl", dict(**FULL, rlhf_type="dpo"), dict(pipeline_parallel_size=2, tensor_parallel_size=2, **in_parts(2, 4))),
    "two stages, expert parallel, lora on experts, frozen tower": (4, "qwen3_vl_moe", ON_EXPERTS, dict(pipeline_parallel_size=2, expert_parallel_size=2, **in_parts(2, 2))),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = {}

    def get(family):
        if family not in made:
            made[family] = write_vision_model(tmp_path_factory.mktemp(family), family)
        return made[family]

    return get


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Rows with no picture, one or two of them."""
    from PIL import Image
    folder, rng = tmp_path_factory.mktemp("pictures"), random.Random(5)
    rows = []
    for number in range(28):
        files = [str(folder / f"{number}-{which}.png") for which in range(number % 3)]
        for file in files:
            Image.effect_noise((rng.randint(56, 90), rng.randint(56, 90)), 90).convert("RGB").save(file)
        rows.append({"messages": [{"role": "user", "content": "<image>" * len(files) + sentence(rng, rng.randint(2, 6))}, {"role": "assistant", "content": sentence(rng, rng.randint(2, 9))}],
                     "images": files})
    texts = [{**row, "messages": row["messages"][:1]} for row in rows]
    others = texts[1:] + texts[:1]
    for task, more in (("seq_cls", lambda i: {"label": i % 3}), ("embedding", lambda i: {"positive_messages": [others[i]["messages"]], "positive_images": [others[i]["images"]]})):
        (folder / f"{task}.jsonl").write_text("".join(json.dumps({**row, **more(i)}) + "\n" for i, row in enumerate(texts)))
    (folder / "sft.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "rlhf.jsonl").write_text("".join(json.dumps({**row, "rejected_response": sentence(rng, 4)}) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="module")
def runs(train, tmp_path_factory, folders, pictures):
    """One run per layout; the same rows in one process once for all layouts that must equal it."""
    done = {}

    def get(world, family, options, layout):
        key = (world, family, *sorted({**options, **layout}.items()))
        if key not in done:
            verb = "rlhf" if "rlhf_type" in options else "sft"
            done[key] = train(tmp_path_factory.mktemp("run"), world, verb=verb, **settings(folders(family), dataset=pictures / f"{options.get('task_type', verb)}.jsonl", **options, **layout))
        return done[key]

    def both(case):
        world, family, options, layout = CASES[case]
        alone = {key: value for key, value in layout.items() if key not in LAYOUT and "pipeline" not in key and "gradient" not in key}
        return get(world, family, options, layout), get(1, family, options, alone)

    return both


@pytest.mark.parametrize("case", CASES)
def test_losses_and_gradients_are_those_of_one_process(runs, case, figure):
    run, one = runs(case)
    assert_same(run, one)
    figure(f"{case}: gradients within {worst_gradient(run, one, STEPS)[0]:.0e}, losses within {max(abs(a - b) for a, b in zip(run.losses(), one.losses())):.0e}")


def test_a_sum_that_is_left_out_is_noticed(train, runs, folders, pictures, tmp_path):
    world, family, options, layout = CASES["tensor and sequence parallel"]
    run = train(tmp_path, world, env={"HONE_FAULT": "tensor_parallel.tower:nan:1+"}, **settings(folders(family), dataset=pictures / "sft.jsonl", **options, **layout))
    assert run.code == 0, run.err
    worst, name = worst_gradient(run, runs("tensor and sequence parallel")[1], STEPS)
    assert worst > 1e-3 and "visual" in name, f"without the sum of the tower's gradients the largest difference is {worst:.1e}, of {name}"


@pytest.mark.parametrize("case, file", [("features that travel", "model.safetensors"), ("tensor and sequence parallel, lora, packed", "adapter_model.safetensors")])
def test_files_do_not_depend_on_the_layout(runs, case, file):
    """Names, shapes and values are those that one process writes; transformers reads a full model without missing or extra tensors."""
    import torch
    from safetensors.torch import load_file
    from transformers import AutoModelForImageTextToText
    ours, theirs = (each.folder / f"checkpoint-{STEPS}" for each in runs(case))
    values, expected = load_file(ours / file), load_file(theirs / file)
    assert values.keys() == expected.keys() and any("visual" in name for name in values)
    for name, tensor in expected.items():
        assert torch.allclose(values[name], tensor, atol=1e-5), name
    if file == "model.safetensors":
        _, seen = AutoModelForImageTextToText.from_pretrained(ours, dtype=torch.float32, output_loading_info=True)
        assert not seen["missing_keys"] and not seen["unexpected_keys"]
