"""Classifiers, embeddings and rerankers with tensor and pipeline parallelism: losses, every gradient and measures of one process."""
import json
import random

import pytest
from layouts_testing import ADAPTED, STEPS, assert_same, four_tied_blocks, in_parts, one_key_head_and_biases, settings, worst_gradient
from parallel_testing import GLOBAL_BATCH, sentence

TENSOR, STAGES = "tensor_parallel_size", "pipeline_parallel_size"
SEQUENCE = {"sequence_parallel": "true"}
WORDS = dict(GENERATIVE_RERANKER_POSITIVE_TOKEN="cat", GENERATIVE_RERANKER_NEGATIVE_TOKEN="dog")  # each one token of the small tokenizer
FULL = dict(tuner_type="full")
CLASSES = dict(task_type="seq_cls", num_labels=3)
EMBEDDING, PAIRS = dict(task_type="embedding", loss_type="infonce"), dict(task_type="embedding", loss_type="cosine_similarity")
RERANKER = dict(task_type="generative_reranker", loss_type="pointwise_reranker")
PARTS = in_parts(2, GLOBAL_BATCH // 2)  # a pipeline takes micro-batches
CASES = {  # processes, model, layout, rows, options
    "classes, lora, packed, tp 2, sequence parallel": (2, one_key_head_and_biases, {TENSOR: 2, **SEQUENCE}, "classes", {**CLASSES, **ADAPTED, "packing": "true", "max_length": 48, **in_parts(1, 1)}),
    "classes, full, two stages": (2, four_tied_blocks, {STAGES: 2}, "classes", {**CLASSES, **FULL, **PARTS}),
    "embeddings, full, tp 2": (2, four_tied_blocks, {TENSOR: 2}, "groups", {**EMBEDDING, **FULL}),
    "classes, lora, untied, tp 2, two stages": (4, one_key_head_and_biases, {TENSOR: 2, STAGES: 2, **SEQUENCE}, "classes", {**CLASSES, **ADAPTED, **PARTS}),
    "embeddings of pairs, lora, two stages": (2, four_tied_blocks, {STAGES: 2}, "groups", {**PAIRS, **ADAPTED, **PARTS}),
    "a generative reranker, full, tied, tp 2, sequence parallel": (2, four_tied_blocks, {TENSOR: 2, **SEQUENCE}, "groups", {**RERANKER, **FULL}),
    "a generative reranker, lora, tp 2": (2, one_key_head_and_biases, {TENSOR: 2}, "groups", {**RERANKER, **ADAPTED}),
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Texts with a class each, and texts with one that is alike and one that is not."""
    folder, rng = tmp_path_factory.mktemp("rows"), random.Random(7)
    ask = lambda: [{"role": "user", "content": sentence(rng, rng.randint(2, 7))}]
    answer = lambda: [{"role": "assistant", "content": sentence(rng, rng.randint(2, 5))}]
    classes = [{"messages": ask(), "label": i % 3} for i in range(GLOBAL_BATCH * STEPS)]
    groups = [{"messages": ask(), "positive_messages": [answer()], "negative_messages": [answer()], "label": i % 5 / 4} for i in range(GLOBAL_BATCH * STEPS)]
    for name, list_of in (("classes", classes), ("groups", groups)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in list_of))
    return {name: folder / f"{name}.jsonl" for name in ("classes", "groups")}


@pytest.fixture(scope="module")
def run_of(train, models, rows, tmp_path_factory):
    """A case in its layout or in one process, once for all tests that look at it."""
    runs = {}

    def get(case, alone=False, fault=None, **more):
        world, make, layout, data, options = CASES[case]
        key = (data, *sorted(options.items()), *sorted(more.items())) if alone else (case, fault, *sorted(more.items()))
        if key not in runs:
            env = {**WORDS, **({"HONE_FAULT": f"{fault}:nan:1+"} if fault else {})}
            asked = {**settings(models(make), per_device_train_batch_size=GLOBAL_BATCH), **options, **({} if alone else layout), **more}
            runs[key] = train(tmp_path_factory.mktemp("run"), 1 if alone else world, env=env, dataset=rows[data], val_dataset=rows[data], eval_steps=STEPS, per_device_eval_batch_size=4, **asked)
        return runs[key]

    return get


@pytest.mark.parametrize("case", CASES)
def test_tasks_train_as_in_one_process(run_of, case, figure):
    run, one = run_of(case), run_of(case, alone=True)
    assert_same(run, one)
    measured, expected = ({name: value for event in each.log() for name, value in event.items() if name.startswith("eval_") and "per_second" not in name and name != "eval_runtime"} for each in (run, one))
    assert measured == pytest.approx(expected, abs=2e-5) and len(expected) > 1
    figure(f"{case}: gradients within {worst_gradient(run, one, STEPS)[0]:.0e}")


SUMS = {"tensor_parallel.replicated": "embeddings, full, tp 2", "tensor_parallel.norm": "a generative reranker, full, tied, tp 2, sequence parallel"}


@pytest.mark.parametrize("left_out", SUMS)
def test_a_sum_that_is_left_out_is_noticed(run_of, left_out):
    run = run_of(SUMS[left_out], fault=left_out)
    assert run.code == 0, run.err
    worst, name = worst_gradient(run, run_of(SUMS[left_out], alone=True), STEPS)
    assert worst > 1e-3, f"without {left_out} the largest difference is {worst:.1e}, of {name}"


def test_resumes_in_one_process(run_of):
    case = "a generative reranker, full, tied, tp 2, sequence parallel"
    run = run_of(case, alone=True, resume_from_checkpoint=run_of(case).folder / "checkpoint-2")
    assert run.code == 0, run.err
    assert run.losses() == pytest.approx(run_of(case, alone=True).losses()[2:], abs=1e-5)
