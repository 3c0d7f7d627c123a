"""`hone ray-submit …` on a local Ray cluster, and on one of two hosts."""
import contextlib
import json
import pathlib
import signal
import subprocess
import sys
import tempfile

import pytest

from parallel_testing import GLOBAL_BATCH, assert_same_training, assert_same_weights, environment, hone_binary, words
from test_launching import finish, start

ENVIRONMENT = dict(HONE_PYTHON=sys.executable, RAY_DEDUP_LOGS=0, RAY_DISABLE_IMPORT_WARNING=1, RAY_USAGE_STATS_ENABLED=0, RAY_AUTH_MODE="disabled")


def submit(folder, model, dataset, *, workers=2, cluster=("--address", "local"), on=lambda line: line, env={}, **options):
    line = [hone_binary(), "ray-submit", workers, *cluster, "--cpus_per_worker", "0.5", "--", hone_binary(), "sft", *words(model, dataset, folder, workers, tuner_type="lora", **options)]
    return finish(start(on(line), environment(1, **ENVIRONMENT, **env)), folder, timeout=400)  # a cluster takes its time to come up on a busy machine


def test_layouts_are_launched_and_resume_on_fewer_workers(reference, tmp_path, model_folder, dataset):
    """Two pipeline stages, each tensor parallel over two of four actors: one is killed while it saves step 3, and two actors continue from step 2 without stages."""
    options = dict(tensor_parallel_size=2, save_steps=1)
    run = submit(tmp_path / "four", model_folder, dataset, workers=4, env=dict(HONE_FAULT="checkpoint.before_rename:kill:3"), pipeline_parallel_size=2, per_device_train_batch_size=GLOBAL_BATCH // 2,
                 gradient_accumulation_steps=2, **options)
    assert "mesh of 4: pp 2 x tp 2" in run.out + run.err
    assert run.code != 0 and "rank 0 on" in run.err and "failed first" in run.err, run.err
    assert run.checkpoints()[-1] == 2
    rest = submit(tmp_path / "two", model_folder, dataset, resume_from_checkpoint=tmp_path / "four/checkpoint-2", per_device_train_batch_size=GLOBAL_BATCH, **options)
    one = reference("lora", 1)
    assert rest.code == 0, rest.out + rest.err
    assert rest.losses() == pytest.approx(one.losses()[2:], abs=1e-5)
    assert_same_weights(rest, one)


def test_a_failure_comes_back(tmp_path, model_folder, dataset):
    run = submit(tmp_path, model_folder, dataset, optim="no_such_optimizer")
    assert run.code == 2, run.out + run.err
    assert "failed first, with code 2" in run.err and "no_such_optimizer" in run.err


@contextlib.contextmanager
def cluster(network, port=6399):
    """A node of Ray on each host; the first is the head."""
    ray = pathlib.Path(sys.executable).with_name("ray")
    with tempfile.TemporaryDirectory(prefix="ray") as folder:  # paths of sockets must be short
        nodes = []
        try:
            for host, address in enumerate(network.addresses):
                role = ["--head", f"--port={port}", f"--temp-dir={folder}", "--include-dashboard=false"] if host == 0 else [f"--address={network.addresses[0]}:{port}"]
                line = [ray, "start", *role, f"--node-ip-address={address}", "--num-cpus=1", "--object-store-memory=80000000", "--block", "--disable-usage-stats"]
                nodes.append(subprocess.Popen(network.on(host, line), env=environment(1, **ENVIRONMENT), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
                if host == 0:
                    ask = network.on(0, ["bash", "-c", f"until (echo > /dev/tcp/{address}/{port}) 2> /dev/null; do sleep 0.2; done"])
                    subprocess.run(ask, timeout=300, check=True)
            yield f"{network.addresses[0]}:{port}"
        finally:
            for node in reversed(nodes):
                node.send_signal(signal.SIGTERM)
            for node in nodes:
                node.wait(60)


def test_ranks_are_actors_on_two_hosts(hosts, reference, tmp_path, model_folder, dataset):
    network = hosts(2)
    with cluster(network) as address:
        placed = ("--address", address, "--placement_strategy", "STRICT_SPREAD", "--placement_timeout", 300)
        run = submit(tmp_path, model_folder, dataset, cluster=placed, on=lambda line: network.on(0, line), deepspeed="zero3")
    assert_same_training(run, reference("lora", 1))
    assert "[rank 0]" in run.out + run.err and "[rank 1]" in run.out + run.err


def test_llama_factory_submits_to_ray(tmp_path, model_folder, dataset):
    """USE_RAY=1 with a word about the cluster: ranks are actors, and checkpoints are copied to the storage path as they are written."""
    (tmp_path / "dataset_info.json").write_text(json.dumps({"rows": {"file_name": str(dataset), "formatting": "sharegpt", "columns": {"messages": "messages"},
                                                                     "tags": {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant", "system_tag": "system"}}}))
    settings = dict(stage="sft", do_train="true", model_name_or_path=model_folder, dataset="rows", dataset_dir=tmp_path, template="qwen", finetuning_type="lora", output_dir=tmp_path / "out", max_steps=2, save_steps=1,
                    per_device_train_batch_size=1, gradient_accumulation_steps=1, logging_steps=1, cutoff_len=128, report_to="none", ray_num_workers=2, ray_init_kwargs='{"include_dashboard": false, "num_cpus": 2}',
                    resources_per_worker='{"CPU": 0.5}', placement_strategy="PACK", ray_storage_path=tmp_path / "stored", ray_run_name="first")
    line = [hone_binary().with_name("llamafactory-cli"), "train", *(word for key, value in settings.items() for word in (f"--{key}", value))]
    run = finish(start(line, environment(1, **ENVIRONMENT, USE_RAY=1)), tmp_path / "out", timeout=400)
    assert run.code == 0, run.out + run.err
    assert "[rank 0]" in run.out + run.err and "[rank 1]" in run.out + run.err
    assert {path.name for path in (tmp_path / "stored/first").glob("checkpoint-*")} == {"checkpoint-1", "checkpoint-2"}
    for name in ("checkpoint-2/adapter_model.safetensors", "trainer_state.json"):
        assert (tmp_path / "stored/first" / name).read_bytes() == (tmp_path / "out" / name).read_bytes()
    wrong = finish(start([*line, "--resources_per_worker", '{"CPU": "much"}'], environment(1, **ENVIRONMENT, USE_RAY=1)), tmp_path, timeout=60)
    assert wrong.code == 2 and "resources_per_worker" in wrong.err and "expected amounts" in wrong.err, wrong.err
