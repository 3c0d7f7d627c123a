"""Every launcher people have starts the same run: our own, torchrun, accelerate, LLaMA-Factory's, two nodes, Slurm's environment."""
import json
import os
import pathlib
import subprocess
import sys

import pytest
from parallel_testing import GLOBAL_BATCH, Run, assert_same_training, environment, hone_binary, words
from workers import free_port


def start(line, env):
    return subprocess.Popen([str(word) for word in line], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def finish(process, folder, timeout=300):
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        if process.poll() is None:
            process.kill()
    return Run(subprocess.CompletedProcess([], process.returncode, out, err), pathlib.Path(folder))


CUT_LAYERS = dict(tensor_parallel_size=2, per_device_train_batch_size=GLOBAL_BATCH)
STAGES = dict(pipeline_parallel_size=2, per_device_train_batch_size=GLOBAL_BATCH // 2, gradient_accumulation_steps=2)


def test_torchrun(reference, tmp_path, model_folder, dataset):
    """A rank dies in the first attempt; the second meets at the same store, which torchrun keeps, and is not disturbed by what is there."""
    torchrun = pathlib.Path(sys.executable).with_name("torchrun")
    if not torchrun.exists():
        pytest.skip("torchrun is not installed")
    once = 'if [ "$TORCHELASTIC_RESTART_COUNT" = 0 ] && [ "$RANK" = 1 ]; then export HONE_FAULT=train.loss:kill:2; fi; exec "$@"'
    launcher = [torchrun, "--no-python", "--nproc_per_node=2", "--max-restarts=1", f"--master_port={free_port()}", "bash", "-c", once, "bash"]
    run = finish(start([*launcher, hone_binary(), "sft", *words(model_folder, dataset, tmp_path, 2, tuner_type="lora", overwrite_output_dir="true", **CUT_LAYERS)], environment(1)), tmp_path)
    assert run.code == 0 and "failed to bind" not in run.err, run.err
    assert run.losses()[-len(reference("lora", 1).losses()):] == pytest.approx(reference("lora", 1).losses(), abs=1e-5)


def test_two_nodes_by_environment(reference, tmp_path, model_folder, dataset):
    line = [hone_binary(), "sft", *words(model_folder, dataset, tmp_path, 2, tuner_type="lora", deepspeed="zero2")]
    shared = dict(NNODES=2, NPROC_PER_NODE=1, MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port())
    nodes = [start(line, environment(1, NODE_RANK=rank, **shared)) for rank in (1, 0)]
    second, first = (finish(node, tmp_path) for node in nodes)
    assert second.code == 0, second.err
    assert_same_training(first, reference("lora", 1))
    assert "Train" not in second.err  # rank 0 alone shows progress


@pytest.mark.parametrize("layout", [dict(), dict(deepspeed="zero2", async_save="true")], ids=["replicas", "shards"])
def test_nodes_without_a_shared_folder_each_have_the_checkpoint(tmp_path, model_folder, dataset, layout):
    """The second node sees another folder under the same path, as a disk of its own would be. Either node's copy is whole, and the run continues from them."""
    seen, places = tmp_path / "disk", [tmp_path / "disk", tmp_path / "second"]
    own_disk = ["unshare", "--mount", "bash", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"', places[1], seen]
    for place in places:
        place.mkdir()
    if subprocess.run([*own_disk, "true"], capture_output=True).returncode != 0:
        pytest.skip("no mount namespaces here")

    def run(**options):
        line = [hone_binary(), "sft", *words(model_folder, dataset, seen / "run", 2, tuner_type="lora", save_steps=2, create_checkpoint_symlink="true", **layout, **options)]
        shared = dict(NNODES=2, NPROC_PER_NODE=1, MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port())
        nodes = [start([*(own_disk if rank else []), *line], environment(1, NODE_RANK=rank, **shared)) for rank in (0, 1)]
        return [finish(node, place / "run") for node, place in zip(nodes, places)]

    refused = run(max_steps=2)
    assert all(each.code for each in refused) and any("save_on_each_node" in each.err for each in refused), refused[0].err + refused[1].err
    done = run(max_steps=2, save_on_each_node="true", overwrite_output_dir="true")
    assert [each.code for each in done] == [0, 0], done[0].err + done[1].err
    content = [{str(file.relative_to(place / "run/checkpoint-2")): file.read_bytes() for file in (place / "run/checkpoint-2").rglob("*") if file.is_file()} for place in places]
    manifests = [json.loads(files.pop("manifest.json")) for files in content]
    assert all(manifest.pop("saved_at") > 0 for manifest in manifests) and manifests[0] == manifests[1], "each node has its own clock"
    assert content[0] == content[1] and {"adapter_model.safetensors", "hone_state-rank-1.json"} <= set(content[0])
    assert [(place / "run/last").readlink().name for place in places] == ["checkpoint-2"] * 2
    leftover = places[1] / "run" / f"checkpoint-9.partial-{manifests[0]['run_id']}"
    leftover.mkdir()
    on = run(max_steps=4, save_on_each_node="true", resume_from_checkpoint=seen / "run/checkpoint-2")
    assert [each.code for each in on] == [0, 0], on[0].err + on[1].err
    assert on[0].checkpoints()[-1] == on[1].checkpoints()[-1] == 4
    assert not leftover.exists(), "each node sweeps its own folder"


def test_slurms_environment(reference, tmp_path, model_folder, dataset):
    line = [hone_binary(), "sft", *words(model_folder, dataset, tmp_path, 2, tuner_type="lora")]
    job = dict(SLURM_NTASKS=2, SLURM_JOB_ID=free_port() - 20000, SLURM_STEP_NODELIST="localhost", SLURM_STEP_TASKS_PER_NODE="2", SLURM_NODEID=0)
    tasks = [start(line, environment(1, SLURM_PROCID=rank, SLURM_LOCALID=rank, **job)) for rank in (0, 1)]
    first, second = (finish(task, tmp_path) for task in tasks)
    assert second.code == 0, second.err
    assert_same_training(first, reference("lora", 1))


FSDP = {
    1: "fsdp_sharding_strategy: FULL_SHARD\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_backward_prefetch: BACKWARD_PRE\n  fsdp_forward_prefetch: false\n"
       "  fsdp_cpu_ram_efficient_loading: true\n  fsdp_offload_params: false\n  fsdp_state_dict_type: FULL_STATE_DICT\n  fsdp_sync_module_states: true\n  fsdp_use_orig_params: true\n",
    2: "fsdp_version: 2\n  fsdp_reshard_after_forward: true\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_cpu_ram_efficient_loading: true\n"
       "  fsdp_offload_params: false\n  fsdp_state_dict_type: FULL_STATE_DICT\n",
}


def factory_yaml(folder, model, dataset, **more):
    data = folder / "data"
    data.mkdir()
    (data / "dataset_info.json").write_text(json.dumps({"rows": {"file_name": str(dataset), "formatting": "sharegpt", "columns": {"messages": "messages"},
                                                                 "tags": {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}}}))
    settings = dict(model_name_or_path=model, stage="sft", do_train="true", finetuning_type="lora", dataset="rows", dataset_dir=data, template="qwen", cutoff_len=256,
                    output_dir=folder / "out", logging_steps=1, save_steps=100, per_device_train_batch_size=2, gradient_accumulation_steps=1, learning_rate="1.0e-3",
                    num_train_epochs=1.0, lora_dropout=0, plot_loss="false", overwrite_output_dir="true", use_cpu="true", **more)
    path = folder / "run.yaml"
    path.write_text("".join(f"{key}: {value}\n" for key, value in settings.items()))
    return path


@pytest.mark.parametrize("version", FSDP)
def test_accelerate_with_its_fsdp_file(tmp_path, model_folder, dataset, version):
    config = tmp_path / "fsdp_config.yaml"
    config.write_text("compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\ndowncast_bf16: 'no'\nmachine_rank: 0\nmain_training_function: main\n"
                      f"mixed_precision: 'no'\nnum_machines: 1\nnum_processes: 2\nrdzv_backend: static\nsame_network: true\nuse_cpu: true\nfsdp_config:\n  {FSDP[version]}")
    run_yaml = factory_yaml(tmp_path, model_folder, dataset)
    done = finish(start([hone_binary().parent / "accelerate", "launch", "--config_file", config, "src/train.py", run_yaml], environment(1)), tmp_path / "out")
    assert done.code == 0, done.err
    assert "starting 2 processes" in done.err and "ZeRO-3" in done.err and "does not know" not in done.err
    assert (tmp_path / "out/adapter_model.safetensors").exists()


def test_llamafactory_with_a_deepspeed_file(tmp_path, model_folder, dataset):
    config = tmp_path / "ds.json"
    config.write_text(json.dumps({"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2, "no_such_key": 1}}))
    run_yaml = factory_yaml(tmp_path, model_folder, dataset, deepspeed=config)
    done = finish(start([hone_binary().parent / "llamafactory-cli", "train", run_yaml], environment(2, FORCE_TORCHRUN=1)), tmp_path / "out")
    assert done.code == 0, done.err
    assert "ZeRO-2" in done.err and "zero_optimization.no_such_key" in done.err


def test_settings_that_contradict_the_run_are_refused(train, tmp_path):
    done = train(tmp_path, 2, deepspeed='{"zero_optimization": {"stage": 1}, "train_micro_batch_size_per_gpu": 64}')
    assert done.code == 2
    assert f"per_device_train_batch_size is 64, the run says {GLOBAL_BATCH // 2}" in done.err


def test_an_impossible_layout_is_explained(train, tmp_path):
    done = train(tmp_path, 2, fsdp="full_shard", parallelism_config='{"dp_shard_size": 3}')
    assert done.code == 2
    assert "2 processes cannot be laid out as dp n x fsdp 3" in done.err


def test_whole_matrix_optimizers_are_refused(train, tmp_path):
    done = train(tmp_path, 2, deepspeed="zero2", optim="adafactor")
    assert done.code == 2 and "needs unsharded matrices" in done.err


@pytest.mark.parametrize("other, message", [({"WORLD_SIZE": 3}, "was started as one of"), ({"options": {"learning_rate": "3e-3"}}, "learning_rate is")])
def test_ranks_that_differ_are_named(tmp_path, model_folder, dataset, other, message):
    port = free_port()
    tasks = []
    for rank in (0, 1):
        changed = other if rank == 1 else {}
        line = [hone_binary(), "sft", *words(model_folder, dataset, tmp_path, 2, **changed.get("options", {}))]
        tasks.append(start(line, environment(1, RANK=rank, WORLD_SIZE=changed.get("WORLD_SIZE", 2), LOCAL_RANK=rank, LOCAL_WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)))
    runs = [finish(task, tmp_path) for task in tasks]
    assert all(run.code == 7 for run in runs), [run.err for run in runs]
    assert any(message in run.err for run in runs), [run.err for run in runs]


def test_a_master_that_is_not_there_is_named(tmp_path, model_folder, dataset):
    line = [hone_binary(), "sft", *words(model_folder, dataset, tmp_path, 2, ddp_timeout=2)]
    port = free_port()
    done = finish(start(line, environment(1, RANK=1, WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)), tmp_path)
    assert done.code == 7 and f"no response from rank 0 at 127.0.0.1:{port}" in done.err
    done = finish(start(line, environment(1, RANK=1, WORLD_SIZE=2, MASTER_ADDR="no.such.host.invalid", MASTER_PORT=port)), tmp_path)
    assert done.code == 7 and 'MASTER_ADDR "no.such.host.invalid" cannot be resolved' in done.err
    done = finish(start(line, environment(1, NNODES=2, NODE_RANK=0, NPROC_PER_NODE=1, MASTER_ADDR="no.such.host.invalid", MASTER_PORT=port)), tmp_path)
    assert done.code == 7 and 'MASTER_ADDR "no.such.host.invalid" cannot be resolved' in done.err, "node 0 resolves its own name first"
