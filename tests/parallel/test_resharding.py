"""A checkpoint of any layout continues in any other, with the losses it would have had."""
import json

import pytest
from parallel_testing import assert_same_training, assert_same_weights

CHANGES = {
    "zero3 on 4 to ddp on 2": ((4, dict(deepspeed="zero3")), (2, {})),
    "ddp on 2 to zero2 on 4": ((2, {}), (4, dict(deepspeed="zero2"))),
    "zero1 on 2 to one process": ((2, dict(deepspeed="zero1")), (1, {})),
    "one process to fsdp on 2": ((1, {}), (2, dict(fsdp="full_shard"))),
}


@pytest.mark.parametrize("tuner", ["full", "lora"])
@pytest.mark.parametrize("change", CHANGES)
def test_resumes_in_another_layout(train, reference, tmp_path, change, tuner, figure):
    (before, first), (after, second) = CHANGES[change]
    whole = reference(tuner, 1)
    half = train(tmp_path / "first", before, tuner_type=tuner, save_steps=3, **first)
    assert half.code == 0, half.err
    run = train(tmp_path / "second", after, tuner_type=tuner, resume_from_checkpoint=half.folder / "checkpoint-3", **second)
    assert run.code == 0, run.err
    assert run.losses() == pytest.approx(whole.losses()[3:], abs=1e-5)
    assert_same_weights(run, whole)
    figure(f"{change}, {tuner}: losses within {max(abs(a - b) for a, b in zip(run.losses(), whole.losses()[3:])):.0e}")


def test_sharded_files_are_ordinary_ones(train, tmp_path, model_folder):
    """transformers reads what four processes wrote, in shards, and no process wrote more state than its part."""
    import transformers
    run = train(tmp_path, 4, tuner_type="full", deepspeed="zero3", max_shard_size="100KB", max_steps=2)
    assert run.code == 0, run.err
    folder = run.folder / "checkpoint-2"
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    assert model.num_parameters() == transformers.AutoModelForCausalLM.from_pretrained(model_folder).num_parameters()
    sizes = [file.stat().st_size for file in sorted(folder.glob("hone_state*.safetensors"))]
    assert len(sizes) == 4 and max(sizes) < 0.3 * sum(sizes)


def test_another_global_batch_is_allowed_and_reported(train, tmp_path):
    half = train(tmp_path / "first", 2, tuner_type="lora", save_steps=3)
    run = train(tmp_path / "second", 1, tuner_type="lora", per_device_train_batch_size=4, resume_from_checkpoint=half.folder / "checkpoint-3")
    assert run.code == 0, run.err
    position = json.loads((run.folder / f"checkpoint-{run.checkpoints()[-1]}" / "hone_state.json").read_text())
    assert position["processes"] == 1 and position["train"]["global_step"] > 3
