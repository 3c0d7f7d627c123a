"""hone plan: no weights are read, and its figure for this machine's CPU is within a tenth of what the run then reports."""
import json
import re
from pathlib import Path

import pytest
from tiny_models import tiny_model

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Small enough for a test, large enough that tensors and not the program itself make the difference."""
    return tiny_model(tmp_path_factory.mktemp("model") / "qwen2", size="0.5b", num_hidden_layers=3)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "long.jsonl"
    path.write_text("\n".join(json.dumps({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "the thing in the anger on " * 300}]}) for _ in range(4)))
    return path


RUNS = {
    "lora": ["--tuner_type", "lora"],
    "lora keeping activations": ["--tuner_type", "lora", "--gradient_checkpointing", "false"],
    "full": ["--tuner_type", "full"],
    "full keeping activations": ["--tuner_type", "full", "--gradient_checkpointing", "false"],
}


@pytest.mark.parametrize("name", RUNS)
def test_peak_on_the_cpu(hone, model, rows, tmp_path, name):
    words = ["sft", "--model", model, "--dataset", rows, "--max_length", "1024", "--truncation_strategy", "right", "--gradient_accumulation_steps", "1", "--max_steps", "1",
             "--logging_steps", "1", "--save_strategy", "no", "--report_to", "none", "--add_version", "false", "--use_cpu", "true", "--output_dir", tmp_path / "out", *RUNS[name]]
    plan = json.loads(hone("plan", "--format", "json", *words).stdout)["asked"]
    done = hone(*words, timeout=300, env={"OMP_NUM_THREADS": "2"})
    assert done.returncode == 0, done.stderr[-2000:]
    log = [json.loads(line) for line in (tmp_path / "out" / "logging.jsonl").read_text().splitlines()]
    measured = max(line["memory(GiB)"] for line in log if "memory(GiB)" in line) * 2**30
    assert plan["total"] == pytest.approx(measured, rel=0.10), plan


def test_it_needs_no_weights(hone, model, tmp_path):
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "config.json").write_text((model / "config.json").read_text())
    plan = json.loads(hone("plan", "--format", "json", "swift", "sft", "--model", bare, "--dataset", "d.jsonl").stdout)
    assert plan["parameters"] == json.loads(hone("plan", "--format", "json", "swift", "sft", "--model", model, "--dataset", "d.jsonl").stdout)["parameters"]


def test_parameters_and_trained_share_are_exact(hone):
    plan = json.loads(hone("plan", "--format", "json", "swift", "sft", "--model", "Qwen/Qwen2.5-7B-Instruct", "--dataset", "d", "--lora_rank", "8").stdout)
    assert plan["parameters"] == 7_615_616_512 and plan["trained"] == 20_185_088


def test_sharding_lowers_what_it_shards(hone):
    plan = json.loads(hone("plan", "--format", "json", "swift", "sft", "--model", "Qwen/Qwen2.5-7B-Instruct", "--dataset", "d", "--tuner_type", "full").stdout)
    at = {(p["devices"], p["sharding"]): p for p in plan["layouts"]}
    assert at[8, "zero1"]["optimizer"] == pytest.approx(at[8, "none"]["optimizer"] / 8)
    assert at[8, "zero2"]["gradients"] == pytest.approx(at[8, "none"]["gradients"] / 8)
    assert at[8, "zero3"]["weights"] < at[8, "zero2"]["weights"] / 2
    assert at[8, "zero2_offload"]["optimizer"] == 0 and at[8, "zero2_offload"]["host"] > 0
    assert at[8, "none"]["total"] > at[8, "zero1"]["total"] > at[8, "zero2"]["total"] > at[8, "zero3"]["total"]


def test_learning_from_rewards_counts_answers_and_the_reference(hone):
    def plan(*words):
        return json.loads(hone("plan", "--format", "json", "rlhf", "--rlhf_type", "grpo", "--model", "Qwen/Qwen2.5-7B-Instruct", "--dataset", "d", "--max_length", "1024",
                               "--max_completion_length", "256", "--per_device_train_batch_size", "8", *words).stdout)
    full, free, adapter = plan("--tuner_type", "full"), plan("--tuner_type", "full", "--beta", "0"), plan("--reward_model", "RM")
    assert full["tokens"] == 8 * (1024 + 256)
    assert full["asked"]["reference"] == full["asked"]["weights"] and free["asked"]["reference"] == adapter["asked"]["reference"] == 0
    assert any("KV cache" in line for line in full["assumptions"]) and any("RM" in line for line in adapter["assumptions"])


def test_every_front_end_can_be_planned(hone, tmp_path):
    config = tmp_path / "run.yaml"
    config.write_text("model_name_or_path: Qwen/Qwen3-8B\nstage: sft\ndo_train: true\nfinetuning_type: lora\ndataset: d\noutput_dir: o\ncutoff_len: 1024\nbf16: true\n")
    for words in (["llamafactory-cli", "train", config], ["NPROC_PER_NODE=4", "swift", "sft", "--model", "Qwen/Qwen3-8B", "--dataset", "d", "--deepspeed", "zero2"], ["sft", "--model", "Qwen/Qwen3-8B", "--dataset", "d"]):
        done = hone("plan", *words)
        assert done.returncode == 0 and "910B3 64 GB" in done.stdout and "zero3" in done.stdout, done.stderr


def test_an_unknown_model_says_what_is_enough(hone):
    done = hone("plan", "swift", "sft", "--model", "nobody/has-this", "--dataset", "d")
    assert done.returncode == 2 and "config.json is enough" in done.stderr
    assert hone("plan", "swift", "export", "--model", "x").returncode == 2


def test_sharding_and_processes_are_those_of_the_run(hone, tmp_path):
    config = tmp_path / "run.yaml"
    config.write_text("model_name_or_path: Qwen/Qwen3-8B\nstage: sft\ndo_train: true\nfinetuning_type: full\ndataset: d\noutput_dir: o\ncutoff_len: 1024\nbf16: true\n")
    launch = tmp_path / "fsdp_config.yaml"
    launch.write_text("distributed_type: FSDP\nnum_machines: 1\nnum_processes: 4\nmixed_precision: bf16\nfsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\n")

    def asked(*words):
        done = hone("plan", "--format", "json", *words)
        assert done.returncode == 0, done.stderr
        plan = json.loads(done.stdout)["asked"]
        return plan["devices"], plan["sharding"]

    assert asked("accelerate", "launch", "--config_file", launch, "src/train.py", config) == (4, "fsdp")
    assert asked("accelerate", "launch", "--config_file", launch, "--num_processes", "2", "src/train.py", config) == (2, "fsdp")
    for name, sharding in (("ds_z3_config", "zero3"), ("ds_z2_offload_config", "zero2_offload")):
        assert asked("NPROC_PER_NODE=8", "llamafactory-cli", "train", config, f"deepspeed=examples/deepspeed/{name}.json") == (8, sharding)


def test_deepspeed_in_the_file_of_accelerate_is_deepspeed(hone, model, tmp_path):
    file, run = tmp_path / "launch.yaml", tmp_path / "run.yaml"
    file.write_text("distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 3\nnum_processes: 2\n")
    run.write_text(f"model_name_or_path: {model}\nstage: sft\ndo_train: true\ndataset: any\ntemplate: qwen\noutput_dir: {tmp_path / 'out'}\n")
    done = hone("plan", "accelerate", "launch", "--config_file", file, "src/train.py", run)
    assert done.returncode == 0 and "2 devices, sharding zero3" in done.stdout, done.stdout + done.stderr


QWEN = ["--model", "Qwen/Qwen2.5-7B-Instruct"]


def plan_of(hone, *words):
    done = hone("plan", "--format", "json", "--target_device", "910B3", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_verdict_comes_first(hone):
    fitting = hone("plan", "--target_device", "910B3", *QWEN).stdout.splitlines()
    assert fitting[0].startswith("fits on 1 x Ascend 910B3 64 GB: ") and fitting[0].endswith(" of 64 GiB") and "a step of" in fitting[1]
    large = hone("plan", "NPROC_PER_NODE=2", "sft", *QWEN, "--tuner_type", "full", "--target_device", "910B4").stdout.splitlines()
    assert large[0].startswith("does not fit on 2 x Ascend 910B4 32 GB: ") and re.search(r"it would on \d with ", "\n".join(large[:4]))
    wrong = hone("plan", "--target_device", "abacus", *QWEN)
    assert wrong.returncode == 2 and "910B3" in wrong.stderr


def test_options_alone_are_a_training_command(hone):
    assert plan_of(hone, *QWEN) == plan_of(hone, "sft", *QWEN)
    assert plan_of(hone, "--rlhf_type", "dpo", *QWEN)["tokens"] == 2 * plan_of(hone, *QWEN)["tokens"]
    wrong = hone("plan", *QWEN, "--ssl_keyfile", "k")
    assert wrong.returncode == 2 and "deploy" in wrong.stderr, wrong.stderr  # whose option it is


def test_offload_shows_host_memory_and_costs_time(hone):
    plan = plan_of(hone, "NPROC_PER_NODE=8", "sft", *QWEN, "--tuner_type", "full", "--deepspeed", "zero2_offload")
    at = {(p["devices"], p["sharding"]): p for p in plan["layouts"]}
    assert plan["asked"]["host"] > 0 and at[8, "zero2_offload"]["seconds_per_step"] > at[8, "zero2"]["seconds_per_step"]
    out = hone("plan", "NPROC_PER_NODE=8", "sft", *QWEN, "--tuner_type", "full", "--deepspeed", "zero2_offload").stdout
    assert re.search(r"[\d.]+ GiB of host memory a node", out) and "host GiB a node" in out


def test_the_cache_of_grpo_counts(hone):
    grpo = ["rlhf", "--rlhf_type", "grpo", *QWEN, "--max_length", "1024", "--max_completion_length", "512"]
    awake, asleep = plan_of(hone, *grpo), plan_of(hone, *grpo, "--sleep_level", "1")
    cache = 256 * (1024 + 512) * 28 * 2 * 4 * 128 * 2
    assert awake["asked"]["kv_cache"] == cache
    parts = ("weights", "reference", "gradients", "optimizer", "activations", "logits", "fragmentation", "runtime", "kv_cache")
    assert awake["asked"]["total"] == pytest.approx(sum(awake["asked"][part] for part in parts)) and asleep["asked"]["total"] < awake["asked"]["total"]
    assert plan_of(hone, *grpo, "--vllm_gpu_memory_utilization", "0.4")["asked"]["kv_cache"] < cache


def test_commands_that_answer_are_planned_too(hone):
    one, two = plan_of(hone, "deploy", *QWEN), plan_of(hone, "deploy", *QWEN, "--vllm_tensor_parallel_size", "2")
    assert one["asked"]["weights"] == one["parameters"] * 2 == 2 * two["asked"]["weights"] and one["asked"]["fits"]
    short = plan_of(hone, "infer", *QWEN, "--vllm_max_model_len", "2048", "--max_batch_size", "4")
    assert short["asked"]["kv_cache_tokens"] == 4 * 2048 and short["asked"]["kv_cache"] == 4 * 2048 * 28 * 2 * 4 * 128 * 2
    assert hone("plan", "deploy", *QWEN).stdout.startswith("fits on 1 x ")
    missing = hone("plan", "infer", "--adapters", "nothere")
    assert missing.returncode == 2 and "nothere" in missing.stderr, missing.stderr
    out = hone("plan", "deploy", "--model", "Qwen/Qwen2.5-72B-Instruct", "--target_device", "910B3").stdout
    assert out.startswith("does not fit on 1 x Ascend 910B3 64 GB") and "tensor parallel" in out


def test_layouts_of_many_devices(hone):
    """All have the same global batch; memory falls with what is cut, and bubbles follow the micro-batches."""
    words = ["plan", "--format", "json", "--target_device", "A100", "hone", "sft", "--model", "Qwen/Qwen2.5-72B-Instruct", "--dataset", "d", "--tuner_type", "full", "--max_length", "4096",
             "--per_device_train_batch_size", "1", "--gradient_accumulation_steps", "2"]
    plan = json.loads(hone(*words, env={"NPROC_PER_NODE": "8", "NNODES": "8"}).stdout)
    at = {(each["tp"], each["pp"], each["cp"], each["ep"]): each for each in plan["model_layouts"]}
    assert all(each["tp"] * each["pp"] * each["cp"] * each["dp"] == 64 and each["micro_batches"] * each["dp"] == 128 for each in at.values())
    assert at[8, 8, 1, 1]["total"] < at[8, 4, 1, 1]["total"] < at[4, 4, 1, 1]["total"] < at[1, 1, 1, 1]["total"]
    assert at[8, 8, 1, 1]["bubble"] == pytest.approx(7 / (128 + 7)) and at[8, 1, 1, 1]["bubble"] == 0
    assert at[8, 2, 1, 1]["network_bytes"] > 0 and at[8, 2, 1, 1]["node_bytes"] > at[2, 8, 1, 1]["node_bytes"]
    assert plan["model_layouts"][0]["fits"] and not at[1, 1, 1, 1]["fits"]
    fitting = [each["seconds_per_step"] for each in plan["model_layouts"] if each["fits"]]
    assert fitting == sorted(fitting)


def test_a_layout_that_is_asked_for(hone):
    words = ["hone", "sft", "--model", "Qwen/Qwen3-30B-A3B", "--dataset", "d", "--tuner_type", "full", "--gradient_accumulation_steps", "8"]
    env = {"NPROC_PER_NODE": "8", "NNODES": "2"}
    plan = json.loads(hone("plan", "--format", "json", *words, "--pipeline_parallel_size", "2", "--expert_parallel_size", "8", env=env).stdout)
    assert (plan["asked_layout"]["pp"], plan["asked_layout"]["ep"], plan["asked_layout"]["dp"], plan["asked_layout"]["micro_batches"]) == (2, 8, 8, 8)
    told = hone("plan", *words, "--pipeline_parallel_size", "2", "--expert_parallel_size", "8", env=env).stdout
    assert "pp 2 ep 8 dp 8; 8 micro-batches" in told and "fastest layouts" in told
    refused = hone("plan", *words, "--pipeline_parallel_size", "3", env=env)
    assert refused.returncode == 2 and "16 devices cannot be laid out" in refused.stderr
