"""Names of templates: those of ms-swift's and LLaMA-Factory's registries are known, and a model's name chooses what ms-swift chooses."""
import json
import os
import pathlib
import subprocess

import pytest

from peers import python_with
from test_peer_labels import HERE, probe  # noqa: F401

# model_type of the architectures that hone computes
FAMILIES = {"LlamaForCausalLM": "llama", "MistralForCausalLM": "mistral", "MixtralForCausalLM": "mixtral", "Qwen2ForCausalLM": "qwen2", "Qwen2MoeForCausalLM": "qwen2_moe",
            "Qwen3ForCausalLM": "qwen3", "Qwen3MoeForCausalLM": "qwen3_moe", "SeedOssForCausalLM": "seed_oss", "Gemma3ForCausalLM": "gemma3_text", "Gemma2ForCausalLM": "gemma2",
            "Phi3ForCausalLM": "phi3", "GlmForCausalLM": "glm", "Glm4ForCausalLM": "glm4"}
# Of models that are not text decoders, or that only judge steps or decide by heads of their own.
NOT_TEXT_DECODERS = {"bert", "bge_reranker", "generic_decision", "internlm2_reward", "qwen2_5_math_prm"}


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    path = tmp_path_factory.mktemp("swift") / "registry.json"
    subprocess.run([python_with("swift"), HERE / "ask_swift_registry.py", path], check=True, capture_output=True)
    return json.loads(path.read_text())


def known(probe, models, tmp_path):  # noqa: F811
    question = tmp_path / "models.json"
    question.write_text(json.dumps(models))
    subprocess.run([probe, "--gtest_filter=TemplateProbe.Answers"], env={**os.environ, "HONE_TEMPLATE_PROBE": str(question)}, check=True, capture_output=True)
    return json.loads(pathlib.Path(f"{question}.answer").read_text())


@pytest.mark.peer("swift")
def test_a_models_name_chooses_the_template_that_ms_swift_chooses(probe, registry, tmp_path):  # noqa: F811
    models = [{"name": model["id"].split("/")[-1], "model_type": FAMILIES[architecture], "expected": model["template"]}
              for model in registry["models"] if not model["sees"] for architecture in model["architectures"][:1] if architecture in FAMILIES]
    chosen = known(probe, models, tmp_path)["chosen"]
    assert len(models) > 400
    assert not [(model["name"], name, model["expected"]) for model, name in zip(models, chosen) if name != model["expected"]]


@pytest.mark.peer("swift")
def test_every_template_of_a_text_model_is_known(probe, registry, tmp_path):  # noqa: F811
    ours = known(probe, [], tmp_path)
    of_text = {model["template"] for model in registry["models"] if not model["sees"]} & set(registry["templates"])
    assert sorted(of_text - set(ours["templates"]) - NOT_TEXT_DECODERS) == []
