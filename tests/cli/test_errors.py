"""Error messages and exit codes of mistakes on the command line."""
import json
import os
import pathlib
import pty
import select
import signal
import subprocess
import time

import pytest

NANO = pathlib.Path(__file__).resolve().parents[2] / "models/nano"
DEMO = NANO.parents[1] / "data/demo.jsonl"


@pytest.mark.parametrize("words, message", [
    (["sft", "--learning_rat", "1"], "did you mean --learning_rate"),
    (["sft", "--leanring_rate", "1"], "did you mean --learning_rate"),
    (["sft", "--lora_rnak=8"], "did you mean --lora_rank"),
    (["sft", "--lora_d", "1"], "it could be --lora_dropout, "),
    (["sfft"], "did you mean sft"),
    (["sft", "--learning_rate", "fast"], '--learning_rate is "fast"; expected a number >= 0'),
    (["sft", "--learning_rate", "-1"], "expected a number >= 0"),
    (["sft", "--lora_rank", "0"], "expected an integer >= 1"),
    (["sft", "--lora_rank", "8.5"], "expected an integer >= 1"),
    (["sft", "--lora_rank", "99999999999999999999"], "expected an integer >= 1, 9000000000000000 at most"),
    (["sft", "--tuner_type", "loar"], "did you mean lora"),
    (["sft", "--model", NANO, "--dataset", "x", "--max_samples", "5"], "write the number of rows after the path: --dataset train.jsonl#500, or set --dialect factory"),
    (["sft", "--model", NANO, "--dataset", "x", "--mask_history", "true"], "use --loss_scale last_round, or set --dialect factory"),
    (["sft", "--model", NANO, "--dataset", "x", "--dataloader_num_workers", "100000"], "expected an integer from 0 to 4096"),
    (["rlhf", "--rlhf_type", "dpo", "--model", NANO, "--dataset", "x", "--dialect", "factory"], "use hone train --stage dpo, kto, rm or ppo"),
    (["train", "--stage", "dpo", "--model", NANO, "--dataset", "x"], "add --dialect factory"),
    (["merge-lora"], "pass --adapters <checkpoint>"),
    (["export", "--model", NANO, "--quant_bits", "4", "--output_dir", "out"], "--quant_bits 4 needs --quant_method"),
    (["uv", "run"], "hone --help lists the commands"),
    (["sft", "--seed"], "--seed needs a value"),
    (["sft", "--streaming=maybe"], "expected true or false"),
    (["sft", "--streaming", "maybe"], '--streaming is "maybe"; expected true or false'),
    (["sft", "--truncation_strategy", "middle"], "expected one of delete, left, right, split"),
    (["sft", "--max_shard_size", "2 pounds"], "expected a size such as 2GB"),
    (["sft", "--lr_scheduler_kwargs", "{broken"], "not valid JSON"),
    (["sft", "stray"], 'unexpected word "stray"'),
    (["infer", NANO], f"did you mean --model {NANO}"),
    (["sft", "--model", NANO, NANO.parents[1] / "data/demo.jsonl"], f"did you mean --dataset {NANO.parents[1]}/data/demo.jsonl"),
    (["infer", "--learning_rate", "1e-4"], "infer does not take it"),
    (["sft", "no_such_file.yaml"], "no_such_file.yaml"),
    (["completion", "csh"], "expected bash, zsh or fish"),
    (["sft", "--model", os.fsdecode(b"a\x8db")], "is not UTF-8"),
    (["web-ui"], "web-ui is not in this version"),
    (["run"], "did you mean hone infer"),
    (["serve"], "did you mean hone deploy"),
    (["pull", "owner/name"], "did you mean hone download"),
    (["finetune"], "did you mean hone sft"),
    (["sft", "--data", "x"], "did you mean --dataset"),
    (["sft", "--load_in_4bit", "true"], "did you mean --quant_method bnb --quant_bits 4"),
    (["sft", "--tuner_type", "qlora"], "did you mean --tuner_type lora --quant_method bnb --quant_bits 4"),
    (["sft", "--tuner_type", "ia3"], "expected one of lora, full, freeze, lora_llm"),
    (["tokenize", "--model", NANO, "Hello"], "echo 'Hello' | hone tokenize"),
    (["preview", "--model", NANO, "--dataset", DEMO, "--template", "qwen2_55"], "hint: did you mean qwen2_5, "),
    (["preview", "--model", NANO, "--dataset", DEMO, "--template", "nope"], "hint: docs/data.md lists the names; or leave --template out"),
    (["sft", "--model", NANO, "--dataset", DEMO, "--fsdp_config.x=1"], "}'. FSDP settings of version 1 or 2: fsdp_version, sharding_strategy"),
])
def test_usage_mistakes(hone, words, message):
    done = hone(*words)
    assert done.returncode in (2, 3), done.stderr
    assert done.stderr.startswith("error: ") and message in done.stderr, done.stderr
    assert done.stdout == ""


def test_a_number_is_not_a_misspelling_of_another(hone):
    done = hone("export", "--model", NANO, "--quant_method", "gptq", "--quant_bits", "5")
    assert done.returncode == 2 and "expected one of 2, 4, 8" in done.stderr and "did you mean" not in done.stderr


def test_unknown_yaml_key_names_file_line_and_nearest(factory, tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("model_name_or_path: x\n# a comment\nlerning_rate: 1e-4\n")
    done = factory("train", file)
    assert done.returncode == 2 and f'{file}:3: unknown key "lerning_rate"' in done.stderr and "learning_rate" in done.stderr.split("hint:")[1]


def test_a_dotted_word_begins_a_mapping(factory, tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("model_name_or_path: x\n")
    done = factory("train", file, "fsdp_config.fsdp_version=2", "fsdp_config.offload_params=true", "--show_config", "true", "--log_format", "json")
    assert done.returncode == 0 and '"offload_params"' in done.stdout and '"fsdp_version"' in done.stdout, done.stderr


def test_bad_yaml_value_names_line(factory, tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("model_name_or_path: x\nlora_rank: many\n")
    done = factory("train", file)
    assert done.returncode == 2 and f"{file}:2: lora_rank" in done.stderr


def test_stages_that_are_absent_name_those_that_are_there(factory, tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text(f"model_name_or_path: {NANO}\nstage: grpo\ndo_train: true\ndataset: x\ntemplate: qwen\noutput_dir: {tmp_path}/out\n")
    done = factory("train", file)
    assert done.returncode == 2 and "expected one of sft, pt, rm, ppo, dpo, kto" in done.stderr, done.stderr


def test_keys_of_files_without_effect_are_named(factory, tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("trust_remote_code: true\nlow_cpu_mem_usage: false\n")
    done = factory("train", file, "--show_config")
    assert f"{file}:2: low_cpu_mem_usage is accepted without effect" in done.stderr and "trust_remote_code is" not in done.stderr, done.stderr


def test_broken_yaml(factory, tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("a: [1, 2\nb: {")
    done = factory("train", file)
    assert done.returncode == 2 and str(file) in done.stderr and "line" in done.stderr


def test_unknown_options_can_be_tolerated(swift, factory, tmp_path):
    done = swift("sft", "--colour", "blue", "--ignore_args_error", "true", "--show_config")
    assert done.returncode == 0 and "--colour, ignored" in done.stderr
    file = tmp_path / "run.yaml"
    file.write_text("colour: blue\n")
    assert factory("train", file, "--show_config").returncode == 2
    assert factory("train", file, "--show_config", env={"ALLOW_EXTRA_ARGS": "1"}).returncode == 0


def test_accepted_options_say_why(swift):
    done = swift("sft", "--padding_side", "left", "--show_config")
    assert done.returncode == 0 and "--padding_side is accepted without effect: " in done.stderr
    quiet = swift("sft", "--padding_side", "right", "--show_config")
    assert "padding_side is accepted" not in quiet.stderr


def test_refused_options_name_the_alternative(swift):
    done = swift("sft", "--use_ray", "true")
    assert done.returncode == 2 and "MASTER_ADDR" in done.stderr
    assert swift("sft", "--deepspeed", "none", "--show_config").returncode == 0


@pytest.mark.parametrize("words, message", [
    (["--bf16", "--fp16"], "--bf16 and --fp16 exclude each other"),
    (["--streaming"], "the number of steps must be given"),
    (["--warmup_ratio", "0.1", "--warmup_steps", "5"], "in two ways"),
    (["--dialect", "factory", "--eval_strategy", "steps"], "--eval_strategy needs validation data"),
    (["--tuner_type", "full", "--use_dora"], "is a form of lora"),
])
def test_incompatible_options(swift, words, message):
    done = swift("sft", "--model", "x", "--dataset", "y", *words)
    assert done.returncode == 2 and message in done.stderr


@pytest.mark.parametrize("words", [["--model", "/nowhere", "--dataset", "rows.jsonl"], ["--model", NANO, "--dataset", "nowhere.jsonl"], ["--model", NANO], ["--dataset", "rows.jsonl"]])
def test_an_error_comes_alone(swift, words):
    """The log shows what was chosen for the run once there is one."""
    done = swift("sft", *words)
    assert done.returncode == 2 and done.stderr.startswith("error: "), done.stderr
    assert len(done.stderr.splitlines()) <= 2, done.stderr


def test_later_verbs_answer_in_each_front_end(swift, factory):
    for program, verbs in ((swift, ["web-ui"]), (factory, ["webui"])):
        for verb in verbs:
            done = program(verb)
            assert done.returncode == 2 and done.stderr.count("\n") == 2 and "is not in this version" in done.stderr and "hint: hone app" in done.stderr


def test_log_lines_as_json(hone):
    done = hone("sft", "--show_config", "--log_format", "json", "--past_index", "3")
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert any(line["level"] == "warning" for line in lines)


def read_terminal(fd, process, seconds=120):
    seen, end = b"", time.time() + seconds
    while time.time() < end:
        ready, _, _ = select.select([fd], [], [], 0.1)
        if ready:
            try:
                seen += os.read(fd, 65536)
            except OSError:
                break
        elif process.poll() is not None:
            break
    return seen


def wait_until_read(process, pipe, seconds=60):
    """Until the program has opened the pipe that it was given, and so is past its start."""
    name, end = os.readlink(f"/proc/self/fd/{pipe}"), time.time() + seconds

    def links():
        found = []
        for entry in pathlib.Path(f"/proc/{process.pid}/fd").iterdir():
            try:
                found.append(os.readlink(entry))
            except OSError:
                pass  # closed meanwhile
        return found

    while links().count(name) < 2:
        assert time.time() < end and process.poll() is None, "nobody reads the config"
        time.sleep(0.05)


def test_interrupt_leaves_a_clean_terminal(hone):
    """A run that waits for its input (a shell's `hone sft --config <(command)`), on a terminal, stopped by Ctrl-C."""
    read_end, write_end = os.pipe()
    main, side = pty.openpty()
    process = subprocess.Popen([str(hone.path), "sft", "--config", f"/dev/fd/{read_end}"], stdin=side, stdout=side, stderr=side, start_new_session=True, pass_fds=[read_end])
    os.close(side)
    wait_until_read(process, read_end)
    process.send_signal(signal.SIGINT)
    seen = read_terminal(main, process)
    os.close(write_end), os.close(read_end)
    assert process.wait(120) == 130
    assert b"\x1b[?25h" in seen and b"\x1b[0m" in seen and seen.endswith(b"\n")


def test_a_result_file_is_tried_before_the_model_is_loaded(swift, tmp_path):
    (tmp_path / "rows.jsonl").write_text(json.dumps({"messages": [{"role": "user", "content": "hi"}]}) + "\n")
    words = ["infer", "--model", NANO, "--val_dataset", tmp_path / "rows.jsonl", "--max_new_tokens", "2", "--result_path"]
    nowhere = swift(*words, "/proc/answers.jsonl")
    assert nowhere.returncode == 3 and "/proc/answers.jsonl" in nowhere.stderr and "cannot create" in nowhere.stderr and "Infer" not in nowhere.stderr, nowhere.stderr
    full = swift(*words, "/dev/full")
    assert full.returncode == 8 and "No space left" in full.stderr and "free some space" in full.stderr, full.stderr
    assert json.loads(full.stdout.splitlines()[0])["messages"][0]["content"] == "hi", "answers that could not be written are printed"
    fine = swift(*words, tmp_path / "deep" / "answers.jsonl")
    assert fine.returncode == 0 and len((tmp_path / "deep" / "answers.jsonl").read_text().splitlines()) == 1, fine.stderr


def test_a_full_disk_behind_standard_output_is_an_error(hone):
    with open("/dev/full", "w") as full:
        done = subprocess.run([hone.path, "sft", "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 8 and "standard output: No space left" in done.stderr and "free some space" in done.stderr, done


@pytest.mark.parametrize("environment, spins", [({}, "2000"), ({"_": "/bin/sh"}, "2000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "passive"}, "0")])
def test_waiting_threads_spin_briefly_unless_the_user_chooses(hone, environment, spins):
    shown = subprocess.run([hone.path, "--version"], env={"OMP_DISPLAY_ENV": "VERBOSE", **environment}, capture_output=True, text=True, check=True).stderr
    assert f"GOMP_SPINCOUNT = '{spins}'" in shown, shown


def test_too_few_tokens_for_a_block(factory, tmp_path):
    (tmp_path / "texts.jsonl").write_text(json.dumps({"text": "a few words"}) + "\n")
    (tmp_path / "dataset_info.json").write_text(json.dumps({"texts": {"file_name": "texts.jsonl", "columns": {"prompt": "text"}}}))
    done = factory("train", f"model_name_or_path={NANO}", "stage=pt", "do_train=true", "finetuning_type=lora", "dataset=texts", f"dataset_dir={tmp_path}", "cutoff_len=512",
                   f"output_dir={tmp_path / 'o'}", "report_to=none")
    assert done.returncode == 3 and "packing needs 512 for one block" in done.stderr, done.stderr
