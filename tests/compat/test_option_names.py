"""Every flag, key and variable of the peers is known: against the reference notes and against the peers themselves, where they are at hand."""
import json
import os
import re
import subprocess

import pytest
from peers import python_with

# Words of those sections that are values, files or metrics, not options.
VALUES = set("""
activation_cpu_offload adamw_torch aot_unpaired apo_down apo_zero batched_mm bco_pair causal_lm cosine_similarity cosine_with_min_lr cross_entropy deepspeed_elastic
early_stop eval_output eval_result exo_pair first_exhausted flash_attention_2 flash_attention_3 flex_attention generative_reranker gptq_v2 graceful_exit grouped_mm
language_model last_round listwise_reranker lm_head lora_B lora_llm nca_pair online_contrastive per_device_train perf_log pissa_niter_N pointwise_reranker
reuse_dataset_if_exists sample_output seq_acc seq_cls single_label_classification sppo_hard token_acc use_reentrant v_head value_head world_size
cache_max_entry_count compute_dtype context_length disable_cuda_graph enable_dp_attention kv_cache_dtype mem_fraction_static quant_policy quant_storage session_len
use_double_quant vision_batch_size active_steps adamw_torch_npu_fused adapter_model avg_logp constant_with_warmup dataset_info desc_init desc_init_w_noise embed_tokens
interleave_once interleave_over interleave_under kto_pair noise_init paged_adamw_8bit profiler_wait reverse_std score_chosen score_rejected warmup_stable_decay
""".split())


def between(text, first, last):
    start = text.index(first)
    return text[start:text.index(last, start)]


def test_names_of_the_reference_notes(shared, rows):
    notes = shared / "reference"
    swift, factory = (notes / "ms-swift.md").read_text(), (notes / "llama-factory.md").read_text()
    text = between(swift, "### 1.3", "## 2. ") + between(swift, "### 2.2", "### 2.3") + between(factory, "### 2.1", "### 2.8")
    names = set(re.findall(r"\b[a-z][a-z0-9]*(?:_[a-zA-Z0-9]+)+\b", text)) - VALUES
    known = {name for row in rows for name in [row["name"], *row["also"]]}
    assert len(names) > 400
    assert not sorted(names - known)


def test_no_name_of_a_peer_is_unknown(hone):
    page = hone("options", "--format", "compatibility").stdout
    lines = [line for line in page.splitlines() if line.startswith("| `")]
    assert len(lines) > 900
    assert not [line for line in lines if "| unknown |" in line]


FIELDS = """
import dataclasses, json, sys
classes = {classes}
print("FIELDS" + json.dumps(sorted({{f.name for c in classes for f in dataclasses.fields(c) if f.init}})))
"""
PEERS = {
    "swift": FIELDS.format(classes="[getattr(__import__('swift.arguments', fromlist=['x']), n) for n in ('SftArguments', 'RLHFArguments', 'InferArguments', "
                                   "'DeployArguments', 'RolloutArguments', 'ExportArguments', 'EvalArguments', 'SamplingArguments', 'AppArguments')]"),
    "llamafactory": FIELDS.format(classes="[c for l in ('_TRAIN_ARGS', '_INFER_ARGS', '_EVAL_ARGS') for c in getattr(__import__('llamafactory.hparams.parser', "
                                          "fromlist=['x']), l)]"),
}


@pytest.mark.parametrize("module", [pytest.param(name, marks=pytest.mark.peer(name)) for name in PEERS])
def test_fields_of_the_peer_itself(module, hone):
    done = subprocess.run([python_with(module), "-c", PEERS[module]], capture_output=True, text=True, env={**os.environ, "DISABLE_VERSION_CHECK": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    fields = set(json.loads(next(line for line in done.stdout.splitlines() if line.startswith("FIELDS"))[6:]))
    page = hone("options", "--format", "compatibility").stdout.split("\n## ")
    part = next(p for p in page if p.startswith("ms-swift" if module == "swift" else "LLaMA-Factory"))
    names = {line.split("`")[1] for line in part.splitlines() if line.startswith("| `")}
    assert len(fields) > 300
    assert not sorted(fields - names - {"_n_gpu"})


def test_generated_page_is_current(hone):
    from pathlib import Path
    page = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"
    assert page.read_text() == hone("options", "--format", "compatibility").stdout, "make docs writes it again"


def test_verbs_that_are_not_built_say_so(swift, factory):
    for program, verbs in ((swift, "sft pt rlhf infer export deploy eval sample rollout merge-lora app web-ui"), (factory, "train chat api export eval webchat webui env version")):
        for verb in verbs.split():
            done = program(verb, "--help")
            assert done.returncode == 0 or (done.returncode == 2 and "is not in this version" in done.stderr), (verb, done.stderr)
