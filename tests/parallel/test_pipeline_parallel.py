"""Pipeline and context parallel runs train like one process: losses, every gradient, norms, evaluations, files."""
import json
import random
import signal

import pytest
from layouts_testing import ADAPTED, BLOCKS, EVERYWHERE, STEPS, assert_same, four_tied_blocks, in_parts, many_experts, settings, worst_gradient
from parallel_testing import GLOBAL_BATCH, sentence
from processes import start, steps_logged, wait_for


def four_blocks():
    from transformers import Qwen3Config, Qwen3ForCausalLM
    return Qwen3ForCausalLM(Qwen3Config(**BLOCKS, tie_word_embeddings=False))


FULL = dict(tuner_type="full")
LAST_BLOCK = dict(tuner_type="full", freeze_parameters_regex=r"model\.(embed_tokens|layers\.[012])\..*")
CASES = {  # processes, model, what is trained, layout
    "two stages, tied": (2, four_tied_blocks, FULL, dict(pipeline_parallel_size=2, **in_parts(2, 4))),
    "two uneven stages, lora on every layer": (2, four_blocks, EVERYWHERE, dict(pipeline_parallel_size=2, decoder_first_pipeline_num_layers=1, **in_parts(4, 2))),
    "two stages, the first of which is frozen": (2, four_blocks, LAST_BLOCK, dict(pipeline_parallel_size=2, **in_parts(2, 4))),
    "two stages, tensor and sequence parallel": (4, four_tied_blocks, dict(**FULL, max_grad_norm=0.5), dict(pipeline_parallel_size=2, tensor_parallel_size=2, sequence_parallel="true", **in_parts(2, 4))),
    "two stages in two copies, packed": (4, four_tied_blocks, dict(**FULL, packing="true", max_length=61, max_grad_norm=0.5), dict(pipeline_parallel_size=2, **in_parts(1, 4))),
    "two stages in two copies, parameters sharded": (4, four_tied_blocks, dict(**FULL, max_grad_norm=0.5), dict(pipeline_parallel_size=2, deepspeed="zero3", **in_parts(1, 4))),
    "two uneven stages in two copies, parameters sharded, recomputed": (4, four_blocks, dict(**EVERYWHERE, gradient_checkpointing="true"), dict(pipeline_parallel_size=2, decoder_first_pipeline_num_layers=1, deepspeed="zero3", **in_parts(2, 2))),
    "experts in two stages, parameters sharded": (4, many_experts, FULL, dict(pipeline_parallel_size=2, expert_parallel_size=2, deepspeed="zero3", **in_parts(2, 2))),
    "four stages and two micro-batches": (4, four_tied_blocks, ADAPTED, dict(pipeline_parallel_size=4, **in_parts(4, 2))),
    "interleaved stages, tied": (2, four_tied_blocks, FULL, dict(pipeline_parallel_size=2, pipeline_model_parallel_layout="Et|(t|)*2tL", **in_parts(2, 4))),
    "interleaved stages, tensor parallel, fewer micro-batches than stages": (4, four_blocks, EVERYWHERE, dict(pipeline_parallel_size=2, tensor_parallel_size=2, num_layers_per_virtual_pipeline_stage=1, **in_parts(8, 1))),
    "expert parallel in two stages": (4, many_experts, FULL, dict(pipeline_parallel_size=2, expert_parallel_size=2, **in_parts(2, 2))),
    "sequences over two ranks": (2, four_blocks, FULL, dict(context_parallel_size=2, **in_parts(8, 1))),
    "sequences over two ranks, keys gathered": (2, four_blocks, FULL, dict(context_parallel_size=2, cp_comm_type="all_gather", **in_parts(8, 1))),
    "context parallel by heads, tensor parallel": (4, four_tied_blocks, ADAPTED, dict(context_parallel_size=2, cp_comm_type="a2a", tensor_parallel_size=2, **in_parts(8, 1))),
    "sequences over four ranks, heads and a ring": (4, four_blocks, FULL, dict(context_parallel_size=4, cp_comm_type="a2a+p2p", **in_parts(8, 1))),
    "context and tensor parallel, packed": (4, four_tied_blocks, dict(**ADAPTED, packing="true", max_length=61),
                                                     dict(context_parallel_size=2, tensor_parallel_size=2, sequence_parallel="true", **in_parts(8, 1))),
    "sequences over two ranks, two stages": (4, four_tied_blocks, FULL, dict(context_parallel_size=2, pipeline_parallel_size=2, **in_parts(2, 4))),
}


@pytest.fixture(scope="module")
def laid_out(train, tmp_path_factory, models):
    runs = {}

    def get(case):
        if case not in runs:
            world, make, options, layout = CASES[case]
            runs[case] = train(tmp_path_factory.mktemp("stages"), world, **settings(models(make), **options, **layout))
        return runs[case]

    return get


@pytest.mark.parametrize("case", CASES)
def test_losses_and_gradients_are_those_of_one_process(laid_out, one_process, case, figure):
    _, make, options, _ = CASES[case]
    run, one = laid_out(case), one_process(make, options)
    assert_same(run, one)
    figure(f"{case}: gradients within {worst_gradient(run, one, STEPS)[0]:.0e}, losses within {max(abs(a - b) for a, b in zip(run.losses(), one.losses())):.0e}")


def test_a_sum_that_is_left_out_is_noticed(train, models, one_process, tmp_path):
    """Both ends of a tied model have a gradient of their embedding."""
    world, make, options, layout = CASES["two stages, tied"]
    run = train(tmp_path, world, env={"HONE_FAULT": "pipeline.tied:nan:1+"}, **settings(models(make), **options, **layout))
    assert run.code == 0, run.err
    worst, name = worst_gradient(run, one_process(make, options), STEPS)
    assert worst > 1e-3 and "embed_tokens" in name, f"without the sum the largest difference is {worst:.1e}, of {name}"


def test_evaluations_and_logs_are_those_of_one_process(train, models, dataset, tmp_path):
    options = dict(**ADAPTED, val_dataset=dataset, eval_steps=2, eval_strategy="steps", per_device_eval_batch_size=3, save_steps=100)
    one = train(tmp_path / "one", **settings(models(four_blocks), **options))
    run = train(tmp_path / "two", 2, pipeline_parallel_size=2, **settings(models(four_blocks), **options, **in_parts(2, 4)))
    assert run.code == one.code == 0, run.err

    def numbers(each, *names):
        return [event[name] for event in each.log() for name in names if name in event]

    assert numbers(run, "eval_loss", "eval_token_acc", "token_acc", "grad_norm", "learning_rate") == pytest.approx(
        numbers(one, "eval_loss", "eval_token_acc", "token_acc", "grad_norm", "learning_rate"), rel=1e-5)
    assert len(numbers(run, "eval_loss")) == 2


RESUMED = {  # in how many processes, in which layout
    "in the same layout": (2, CASES["two stages, tied"][3]),
    "in one process": (1, {}),
    "as tensor parallel": (2, dict(tensor_parallel_size=2, **in_parts(8, 1))),
    "as stages that split sequences": (4, CASES["sequences over two ranks, two stages"][3]),
}


@pytest.mark.parametrize("change", RESUMED)
def test_resumes_in_another_layout(train, models, laid_out, tmp_path, change):
    world, layout = RESUMED[change]
    half = laid_out("two stages, tied")
    run = train(tmp_path, world, **settings(models(four_tied_blocks), **FULL, **layout), resume_from_checkpoint=half.folder / "checkpoint-2")
    assert run.code == 0, run.err
    assert run.losses() == (half.losses()[2:] if change == "in the same layout" else pytest.approx(half.losses()[2:], abs=1e-5))


@pytest.mark.parametrize("case, file", [("two stages, tensor and sequence parallel", "model.safetensors"), ("two uneven stages, lora on every layer", "adapter_model.safetensors")])
def test_files_do_not_depend_on_the_layout(models, laid_out, one_process, case, file):
    """Names and shapes are those that one process writes, and transformers and peft give the same logits."""
    import torch
    from peft import PeftModel
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM
    _, make, options, _ = CASES[case]
    tokens = torch.arange(3, 40).unsqueeze(0)
    folders = [run.folder / f"checkpoint-{STEPS}" for run in (laid_out(case), one_process(make, options))]
    shapes = [{name: (tensor.shape, tensor.dtype) for name, tensor in load_file(folder / file).items()} for folder in folders]
    assert shapes[0] == shapes[1]

    def logits(folder):
        if file == "model.safetensors":
            return AutoModelForCausalLM.from_pretrained(folder).eval()(tokens).logits
        return PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(models(make)), folder).eval()(tokens).logits

    assert torch.allclose(*map(logits, folders), atol=1e-4)


def test_two_hundred_micro_batches_of_any_length(train, models, tmp_path, figure):
    """Four stages, the first one computing for longer than the others now and then: nobody waits for what never comes."""
    rng = random.Random(5)
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"messages": [{"role": "user", "content": sentence(rng, rng.randint(1, 12))}, {"role": "assistant", "content": sentence(rng, rng.randint(1, 20))}]}) + "\n"
                            for _ in range(200)))
    options = dict(**ADAPTED, dataset=rows, max_steps=1, num_train_epochs=1, save_steps=100)
    one = train(tmp_path / "one", **{**settings(models(four_blocks), **options), "max_steps": 1}, **in_parts(8, 25))
    for world, chunks in ((4, 1), (2, 2)):
        run = train(tmp_path / f"{world}", world, pipeline_parallel_size=world, virtual_pipeline_parallel_size=chunks, timeout=120,
                    **{**settings(models(four_blocks), **options), "max_steps": 1}, **in_parts(1, 200))
        assert run.code == one.code == 0, run.err
        assert run.losses() == pytest.approx(one.losses(), abs=1e-5)
        figure(f"200 micro-batches through {world} ranks of {chunks} stages in {run.log()[0].get('elapsed_time', '?')}")


def test_a_killed_stage_ends_the_run_by_name_and_another_layout_resumes(train, models, dataset, tmp_path, figure):
    options = dict(**ADAPTED, lr_scheduler_type="constant", **in_parts(2, 4))
    run = start(models(four_blocks), dataset, tmp_path / "stages", 2, pipeline_parallel_size=2, save_steps=2, **options)
    try:
        wait_for(lambda: steps_logged(tmp_path / "stages") >= 5 or run.process.poll() is not None, what="a few steps")
        assert run.process.poll() is None, run.text()
        run.signal(1, signal.SIGKILL)
        assert run.wait() == 137, run.text()
    finally:
        run.stop()
    assert "rank 1 was killed by signal 9" in run.text() and "resume: the same command with --resume_from_checkpoint " in run.text()
    newest = max((tmp_path / "stages").glob("checkpoint-*"), key=lambda folder: int(folder.name.split("-")[1]) if folder.name.split("-")[1].isdigit() else 0)
    step = int(newest.name.split("-")[1])
    logged = [json.loads(line) for line in (tmp_path / "stages/logging.jsonl").read_text().splitlines()]
    after = train(tmp_path / "one", **{**settings(models(four_blocks), **options), "max_steps": step + 1, "num_train_epochs": 100000, "per_device_train_batch_size": GLOBAL_BATCH,
                                       "gradient_accumulation_steps": 1, "save_steps": 1000}, resume_from_checkpoint=newest)
    assert after.code == 0, after.err
    assert len(after.losses()) == 1
    there = {event["global_step/max_steps"].split("/")[0]: event["loss"] for event in logged if "loss" in event}
    if str(step + 1) in there:  # it was killed before it logged the next step, otherwise
        assert after.losses()[0] == pytest.approx(there[str(step + 1)], abs=1e-5)
    figure(f"killed after step {len(logged)}, resumed in one process after step {step}")


@pytest.mark.parametrize("options, message", [
    (dict(pipeline_parallel_size=2, decoder_last_pipeline_num_layers=4), "a pipeline stage of 0 blocks"),
    (dict(pipeline_parallel_size=2, virtual_pipeline_parallel_size=4), "do not go evenly into 8 pipeline stages"),
    (dict(virtual_pipeline_parallel_size=2), "virtual pipeline stages without a pipeline"),
    (dict(pipeline_parallel_size=2, account_for_loss_in_pipeline_split="true"), "decoder_last_pipeline_num_layers"),
    (dict(context_parallel_size=2, sequence_parallel_size=2), "both above 1"),
])
def test_incompatible_options_are_reported(train, models, tmp_path, options, message):
    run = train(tmp_path, 2, **settings(models(four_tied_blocks), **options))
    assert run.code == 2 and message in run.err


def test_the_balance_of_experts_is_that_of_all_stages(train, models, tmp_path):
    """It is a product of what the routers of all blocks say: their logits are sent with the rows, and of all ranks that split a sequence. It is of a micro-batch, so both runs have the same ones."""
    options = dict(**FULL, router_aux_loss_coef=0.01, router_z_loss_coef=0.001, **in_parts(2, 4))
    one = train(tmp_path / "one", **settings(models(many_experts), **options))
    run = train(tmp_path / "four", 4, pipeline_parallel_size=2, context_parallel_size=2, **settings(models(many_experts), **options))
    assert_same(run, one)
    shown = [[event[name] for event in each.log() for name in ("aux_loss", "z_loss") if name in event] for each in (run, one)]
    assert shown[0] == pytest.approx(shown[1], rel=1e-5) and len(shown[0]) == 2 * STEPS
