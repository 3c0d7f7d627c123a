"""Launchers and FSDP: presets, files and inline JSON are read, what has no effect is named, and mistakes say what was found and expected."""
import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUN = ("--model", ROOT / "models/nano", "--dataset", ROOT / "data/demo.jsonl", "--max_steps", 1, "--gradient_accumulation_steps", 1, "--report_to", "none")
PRESET = {"_description": "a comment", "fsdp": "full_shard auto_wrap",
          "fsdp_config": {"fsdp_version": 2, "reshard_after_forward": False, "auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "state_dict_type": "SHARDED_STATE_DICT"}}


@pytest.fixture
def sft(swift, tmp_path):
    return lambda *options, **env: swift("sft", *RUN, "--output_dir", tmp_path / "out", *options, env={"OMP_NUM_THREADS": 1, **env})


@pytest.fixture
def launch(accelerate, tmp_path):
    """accelerate launch … swift/cli/sft.py, with a config file of these settings."""

    def run(*options, script=("swift/cli/sft.py",), **settings):
        config = tmp_path / "accelerate.json"
        config.write_text(json.dumps(settings))
        return accelerate("launch", "--config_file", config, *options, *script, *RUN, "--output_dir", tmp_path / "out", env={"OMP_NUM_THREADS": 1})

    return run


@pytest.mark.parametrize("form", ["file", "inline", "lines"])
def test_fsdp_takes_the_json_of_ms_swift(sft, tmp_path, form):
    file = tmp_path / "fsdp.json"
    file.write_text(json.dumps(PRESET, indent=2))
    done = sft("--fsdp", {"file": file, "inline": json.dumps(PRESET), "lines": file.read_text()}[form], NPROC_PER_NODE=2)
    assert done.returncode == 0, done.stderr
    assert "(ZeRO-3), weights kept between the passes" in done.stderr and "unknown key" not in done.stderr
    assert done.stderr.count("keys of the sharding configuration without effect: state_dict_type") == 1


@pytest.mark.parametrize("given, message, fix", [
    (["--fsdp", "fsdp3"], '--fsdp is "fsdp3"', "expected fsdp2; full_shard"),
    (["--fsdp", "missing.json"], "missing.json: there is no such file", "check the path"),
    (["--fsdp", '{"fsdp_version": 2}'], "--fsdp has neither fsdp nor fsdp_config", '{"fsdp": "full_shard auto_wrap"'),
    (["--fsdp", '{"fsdp": "full_shard"'], "--fsdp: ", "quote it as one word"),
    (["--fsdp", '{"fsdp": {"full_shard": true}}'], "--fsdp: fsdp is", "correct or remove"),
    (["--fsdp", '{"fsdp_config": {"fsdp_version": 3}}'], "fsdp: version is 3; expected 1 or 2", "correct or remove"),
    (["--fsdp", '{"fsdp_config": {"auto_wrap_policy": "LAYERS"}}'], 'auto_wrap_policy is "LAYERS"; expected TRANSFORMER_BASED_WRAP', "correct or remove"),
    (["--fsdp", '{"fsdp_config": {"fsdp_version": 2}}', "--fsdp_config", '{"fsdp_version": 1}'], "has an fsdp_config, and so has the run", "leave out --fsdp_config"),
    (["--parallelism_config", '{"dp_shard_size": "many"}'], "parallelism_config: dp_shard_size is many; expected an integer >= 1", "correct or remove"),
    (["--parallelism_config", "[2]"], "--parallelism_config is", "expected a mapping"),
], ids=lambda value: value if isinstance(value, str) else " ".join(value))
def test_mistakes_in_sharding_are_explained(sft, given, message, fix):
    done = sft(*given)
    assert done.returncode == 2 and message in done.stderr and fix in done.stderr, done.stderr


def test_a_key_that_nothing_reads_is_named(sft):
    done = sft("--fsdp", json.dumps({**PRESET, "fsdp_confg": {}}))
    assert done.returncode == 0 and "unknown key: fsdp_confg" in done.stderr, done.stderr
    done = sft("--fsdp", "full_shard", "--fsdp_config", '{"colour": 1}')
    assert done.returncode == 0 and "unknown key: colour; expected fsdp_version, sharding_strategy" in done.stderr, done.stderr


def test_options_of_the_launcher_take_precedence_over_its_file(launch):
    done = launch("--num-processes=2", "--fsdp_reshard_after_forward", "false", distributed_type="FSDP", num_processes=4, use_cpu=True, fsdp_config={"fsdp_version": 2})
    assert done.returncode == 0, done.stderr
    assert "starting 2 processes" in done.stderr and "(ZeRO-3), weights kept between the passes" in done.stderr


@pytest.mark.parametrize("options", [["--use_deepspeed", "--zero_stage", "3"], ["--use-deepspeed", "--zero-stage=3"]], ids=["words", "dashes"])
def test_deepspeed_options_of_accelerate_are_read(launch, options):
    done = launch(*options, "--multi-gpu", num_processes=2, use_cpu=True)
    assert done.returncode == 0 and "(ZeRO-3)" in done.stderr, done.stderr


def test_settings_without_effect_are_named_once(launch):
    done = launch("--dynamo_backend", "inductor", "--gpu_ids", "0,1", num_processes=2, use_cpu=True, fp8_config={"backend": "TE"}, debug=False, same_network=True)
    assert done.returncode == 0, done.stderr
    for line in ("the launcher's --dynamo_backend has no effect", "set CUDA_VISIBLE_DEVICES=0,1", "accelerate.json: fp8_config has no effect"):
        assert done.stderr.count(line) == 1, done.stderr
    assert "same_network" not in done.stderr


@pytest.mark.parametrize("settings, message", [
    (dict(distributed_type="FSPD"), "accelerate: distributed_type is FSPD; expected one of no, FSDP, DEEPSPEED"),
    (dict(distributed_type="MEGATRON_LM"), "distributed_type is MEGATRON_LM"),
    (dict(num_processes="two"), "accelerate: num_processes is two; expected an integer >= 1"),
    (dict(use_cpu="perhaps"), "accelerate: use_cpu is perhaps; expected true or false"),
    (dict(mixed_precision="int4"), "accelerate: mixed_precision is int4; expected one of no, bf16, fp16"),
    (dict(distributed_type="DEEPSPEED", deepspeed_config=[3]), "accelerate: deepspeed_config is"),
    (dict(distributed_type="DEEPSPEED", deepspeed_config={"zero_stage": 4}), "zero_stage is 4; expected an integer from 0 to 3"),
    (dict(distributed_type="FSDP", fsdp_config={"fsdp_min_num_params": "many"}), "min_num_params is"),
], ids=str)
def test_mistakes_in_the_file_of_accelerate_are_explained(launch, settings, message):
    done = launch(**settings)
    assert done.returncode == 2 and message in done.stderr and "hint:" in done.stderr, done.stderr


@pytest.mark.parametrize("options, script, message", [
    (["--num_processes", "all"], ["swift/cli/sft.py"], '--num_processes is "all"; expected a whole number'),
    ([], ["swift/cli/_megatron/sft.py"], "swift/cli/_megatron/sft.py is a script of Megatron-SWIFT"),
])
def test_mistakes_in_the_line_of_a_launcher_are_explained(launch, options, script, message):
    done = launch(*options, script=script)
    assert done.returncode == 2 and message in done.stderr and "hint:" in done.stderr, done.stderr


def test_launchers_that_are_modules_and_the_program_of_ms_swift(hone):
    for words in (["python", "-m", "torch.distributed.run", "--nproc_per_node", "2", "swift/cli/main.py", "sft"], ["torchrun", "--nproc-per-node=2", "--standalone", "swift/cli/sft.py"]):
        done = hone("convert-config", *words, "--model", "m", "--dataset", "d.jsonl")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("hone sft --model m ") and '"num_processes":"2"' in done.stdout.replace(" ", "").replace("\\", ""), done.stdout


def test_megatron_bridge_says_what_it_means(factory, hone, tmp_path):
    known = hone("doctor", "--env", "true", env={"USE_MEGATRON_BRIDGE": "1"}).stdout
    assert "Megatron's keys in LLaMA-Factory's files" in " ".join(known.split()), known
    file = tmp_path / "run.yaml"
    file.write_text(f"model_name_or_path: {ROOT}/models/nano\ntemplate: qwen\nstage: sft\ndo_train: true\nfinetuning_type: lora\ndataset_dir: {tmp_path}\ndataset: rows\n"
                    f"tensor_model_parallel_size: 1\nmax_steps: 1\noutput_dir: {tmp_path}/out\nreport_to: none\nuse_cpu: true\n")
    (tmp_path / "dataset_info.json").write_text(json.dumps({"rows": {"file_name": "rows.json"}}))
    (tmp_path / "rows.json").write_text(json.dumps([{"instruction": "ask", "output": "told"}] * 8))
    done = factory("train", file, env={"USE_MEGATRON_BRIDGE": "1", "OMP_NUM_THREADS": 1})
    assert done.returncode == 0 and "use_megatron_bridge: Megatron's keys are options of hone's own layouts" in done.stderr, done.stderr


def test_settings_of_the_second_generation_are_checked(factory, tmp_path):
    file = tmp_path / "run.yaml"
    for settings, message in (("micro_batch_size: many\nglobal_batch_size: 8", "micro_batch_size is many"), ("dist_config:\n  name: deepspeed", "dist_config.config_file is empty"),
                              ("kernel_config:\n  name: auto\n  kernel: liger", 'unknown key "kernel"')):
        file.write_text(f"model: {ROOT}/models/nano\ntrain_dataset: {ROOT}/data/demo.jsonl\noutput_dir: {tmp_path}/out\n{settings}\n")
        done = factory("sft", file, env={"USE_V1": "1"})
        assert done.returncode == 2 and message in done.stderr, done.stderr
