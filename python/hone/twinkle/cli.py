"""Settings of a script from its command line: --model-id x, MODEL_ID=x, TWINKLE_MODEL_ID=x and model_id: x in --config file.yaml are the same."""
from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ..errors import UsageError

_ALIASES = {"lr": "learning_rate", "max_new_tokens": "max_tokens", "num_gpus": "nproc_per_node"}
_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False, "none": None, "null": None, "~": None}


@dataclass
class ModelArgs:
    """The model and how it is kept."""

    model_id: str | None = None
    model_cls: str | None = None
    tokenizer_id: str | None = None
    mixed_precision: str = "bf16"
    strategy: str = "accelerate"
    memory_efficient_init: bool = False
    gradient_checkpointing: bool = True
    trust_remote_code: bool = True
    load_weights: bool = True
    recompute_granularity: str | None = "full"
    recompute_method: str | None = "uniform"
    recompute_num_layers: int | None = 1
    recompute_modules: list[str] | None = None
    use_distributed_optimizer: bool = True
    variable_seq_lengths: bool = True
    ddp_config: dict[str, Any] | None = None
    fsdp_config: dict[str, Any] | None = None
    grad_scaler_config: dict[str, Any] | None = None
    enable_liger: bool = False
    enable_fused_ce: bool = True


@dataclass
class LoraArgs:
    """The adapter."""

    use_lora: bool = False
    lora_r: int = 8
    lora_alpha: int = 32
    lora_dropout: float = 0.05
    lora_target_modules: list[str] | None = None
    adapter_name: str = "default"
    lora_path: str | None = None


@dataclass
class DatasetArgs:
    """The rows."""

    dataset_id: str = ""
    subset_name: str = "default"
    split: str = "train"
    streaming: bool = False
    num_proc: int | None = None
    data_slice: str | None = None
    revision: str | None = None


@dataclass
class TemplateArgs:
    """How rows become tokens. --model-id is the model's."""

    template_cls: str | None = None
    model_id: str | None = None
    max_length: int = 8192
    truncation_strategy: str = "raise"
    use_chat_template: bool = True
    enable_thinking: bool = True
    default_system: str | None = None


@dataclass
class TrainingArgs:
    """Steps, batches and what is written."""

    max_steps: int = 200
    num_train_epochs: int | None = None
    batch_size: int = 8
    mini_batch_size: int | None = None
    micro_batch_size: int = 2
    gradient_accumulation_steps: int = 1
    output_dir: str = "./output"
    save_steps: int = 50
    save_total_limit: int | None = None
    log_interval: int = 10
    eval_interval: int | None = None
    eval_samples: int | None = None
    train_samples: int | None = None
    resume_from_checkpoint: str | None = None
    resume_only_model: bool = False
    ignore_data_skip: bool = False
    seed: int = 42
    full_determinism: bool = False
    padding_free: bool = False


@dataclass
class OptimizerArgs:
    """The optimizer."""

    optimizer_cls: str = "AdamW"
    learning_rate: float = 1e-5
    weight_decay: float = 0.0
    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    adam_epsilon: float = 1e-8
    max_grad_norm: float = 1.0


@dataclass
class SchedulerArgs:
    """Its rates."""

    scheduler_cls: str = "CosineAnnealingLR"
    num_warmup_steps: int = 0
    num_training_steps: int | None = None
    t_max: int | None = None
    eta_min: float = 0.0
    lr_decay_steps: int | None = None
    max_lr: float | None = None


@dataclass
class LossArgs:
    """The loss."""

    loss_cls: str = "CrossEntropyLoss"
    loss_type: str = "sigmoid"
    epsilon: float = 0.2
    epsilon_high: float | None = None
    beta: float = 0.1
    sft_weight: float = 1.0
    entropy_coef: float = 0.0
    value_clip: float = 0.2
    ignore_index: int = -100


@dataclass
class SamplerArgs:
    """The engine that samples."""

    sampler_type: str = "vLLMSampler"
    gpu_memory_utilization: float = 0.8
    max_model_len: int | None = None
    tensor_parallel_size: int | None = None
    enable_lora: bool = False
    max_lora_rank: int = 32
    enforce_eager: bool = False


@dataclass
class SamplingArgs:
    """How answers are drawn. --seed is the training's."""

    max_tokens: int | None = None
    temperature: float = 1.0
    top_k: int = -1
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    num_samples: int = 1
    logprobs: int | None = None
    seed: int | None = None
    stop: str | None = None


@dataclass
class InfraArgs:
    """Processes and meshes."""

    mode: str = "local"
    nproc_per_node: int = 8
    ncpu_proc_per_node: int = 8
    model_gpus: int | None = None
    sampler_gpus: int | None = None
    ref_model_gpus: int | None = None
    critic_model_gpus: int | None = None
    world_size: int | None = None
    dp_size: int | None = None
    fsdp_size: int | None = None
    tp_size: int | None = None
    pp_size: int | None = None
    cp_size: int | None = None
    ep_size: int | None = None
    etp_size: int | None = None
    ep_fsdp_size: int | None = None
    vpp_size: int | None = None
    ulysses_size: int | None = None
    sequence_parallel: bool = False
    lazy_collect: bool = True


@dataclass
class ServerArgs:
    """A server's."""

    config: str | None = None
    ray_namespace: str = "twinkle_cluster"
    host: str = "0.0.0.0"
    port: int = 8000
    log_level: str = "INFO"


@dataclass
class RLArgs:
    """Reinforcement and distillation."""

    num_generations: int = 8
    advantage_type: str = "GRPOAdvantage"
    advantage_scale: str = "group"
    reward_fns: list[str] | None = None
    student_model_id: str | None = None
    teacher_model_id: str | None = None
    gkd_beta: float = 0.5
    gkd_temperature: float = 1.0
    gkd_topk: int = 64
    router_replay_mode: str = "disabled"
    gamma: float = 1.0
    gae_lambda: float = 0.95
    kl_coef: float = 0.0
    normalize_advantages: bool = True
    critic_learning_rate: float = 1e-5


@dataclass
class CheckpointArgs:
    """Checkpoints and how weights reach samplers."""

    save_optimizer: bool = True
    merge_and_sync: bool = True
    platform: str = "GPU"
    lora_sync_dir: str | None = None


@dataclass
class Args:
    """All settings, in groups; names that no group has are in `extra`."""

    model: ModelArgs = field(default_factory=ModelArgs)
    lora: LoraArgs = field(default_factory=LoraArgs)
    dataset: DatasetArgs = field(default_factory=DatasetArgs)
    template: TemplateArgs = field(default_factory=TemplateArgs)
    training: TrainingArgs = field(default_factory=TrainingArgs)
    optimizer: OptimizerArgs = field(default_factory=OptimizerArgs)
    scheduler: SchedulerArgs = field(default_factory=SchedulerArgs)
    loss: LossArgs = field(default_factory=LossArgs)
    sampler: SamplerArgs = field(default_factory=SamplerArgs)
    sampling: SamplingArgs = field(default_factory=SamplingArgs)
    infra: InfraArgs = field(default_factory=InfraArgs)
    server: ServerArgs = field(default_factory=ServerArgs)
    rl: RLArgs = field(default_factory=RLArgs)
    checkpoint: CheckpointArgs = field(default_factory=CheckpointArgs)
    extra: dict[str, Any] = field(default_factory=dict)

    def groups(self) -> dict[str, Any]:
        """By their names."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "extra"}

    def place(self, key: str) -> tuple[Any, str] | None:
        """The group that a name belongs to, and its field; names may begin with their group's (scheduler_t_max). The first group wins."""
        name = _ALIASES.get(key, key)
        names = {(group_name, each.name): group for group_name, group in self.groups().items() for each in fields(group)}
        for (_, known), group in names.items():
            if known == name:
                return group, known
        return next(((group, known) for (group_name, known), group in names.items() if name == f"{group_name}_{known}"), None)

    def take(self, values: Mapping[str, Any]) -> None:
        """Sets what a source says."""
        for given, value in _flat(values).items():
            key = given.lower().replace("-", "_")
            if key == "use_megatron":  # Twinkle's own reading of it
                if _cast(value):
                    self.model.strategy = "native_fsdp"
                continue
            found = self.place(key)
            if found is None:
                self.extra[key] = _cast(value)
            else:
                setattr(*found, _fitting(next(str(each.type) for each in fields(found[0]) if each.name == found[1]), value, key))

    def get(self, key: str, default: Any = None) -> Any:
        """A setting by its name alone."""
        return next((getattr(group, key) for group in self.groups().values() if hasattr(group, key)), self.extra.get(key, default))

    def __getitem__(self, key: str) -> Any:
        missing = object()
        value = self.get(key, missing)
        if value is missing:
            raise KeyError(key)
        return value

    def to_dict(self) -> dict[str, Any]:
        """All that are set."""
        return {name: value for group in self.groups().values() for name, value in _given(group).items()} | self.extra

    def get_lora_args(self) -> dict[str, Any]:
        """For peft's LoraConfig."""
        return {"target_modules": self.lora.lora_target_modules or "all-linear", "r": self.lora.lora_r, "lora_alpha": self.lora.lora_alpha,
                "lora_dropout": self.lora.lora_dropout}

    def get_model_args(self) -> dict[str, Any]:
        """The model's that are set."""
        return {"model_id": self.template.model_id, **_given(self.model)} if self.template.model_id else _given(self.model)

    def get_template_args(self) -> dict[str, Any]:
        """The template's that are set, with the model's name."""
        return {"model_id": self.model.model_id, **_given(self.template)} if self.model.model_id else _given(self.template)

    def get_optimizer_args(self) -> dict[str, Any]:
        """The optimizer's, whose rate is called lr."""
        values = _given(self.optimizer)
        return {"lr": values.pop("learning_rate"), **values}

    def __getattr__(self, name: str) -> Any:
        """get_dataset_args() and those of the other groups: what is set of them."""
        group = name.removeprefix("get_").removesuffix("_args")
        if name == f"get_{group}_args" and group in {each.name for each in fields(type(self))} - {"extra"}:
            return lambda: _given(getattr(self, group))
        raise AttributeError(f"Args has no {name!r}")


def _given(group: Any) -> dict[str, Any]:
    return {each.name: getattr(group, each.name) for each in fields(group) if getattr(group, each.name) is not None}


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= _flat(value, f"{prefix}{name}_") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flat


def _cast(value: Any) -> Any:
    """What a text stands for."""
    if not isinstance(value, str):
        return value
    if value.lower() in _WORDS:
        return _WORDS[value.lower()]
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            pass
    return [_cast(part.strip()) for part in value.split(",")] if "," in value else value


def _fitting(kind: str, value: Any, key: str) -> Any:
    """A value of the type that a field has."""
    if kind.endswith(" | None") and (value is None or _cast(value) is None):
        return None
    kind = kind.removesuffix(" | None")
    if kind == "str":
        return str(value)
    if kind == "list[str]":
        return [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    value = _cast(value)
    if kind == "bool" and value in (True, False):
        return bool(value)
    if kind in ("int", "float") and isinstance(value, (int, float)) and not isinstance(value, bool):
        return int(value) if kind == "int" else float(value)
    if kind in ("bool", "int", "float"):
        raise UsageError(f"{key} is {value!r}", "expected true or false" if kind == "bool" else "expected a number")
    return value


def _of_command_line(words: Sequence[str]) -> dict[str, Any]:
    """--key value, --key=value, --key (true) and --no-key (false)."""
    values: dict[str, Any] = {}
    at = 0
    while at < len(words):
        word, at = words[at], at + 1
        if not word.startswith("--"):
            continue
        key, equals, value = word[2:].partition("=")
        if equals:
            values[key] = value
        elif key.startswith(("no-", "no_")):
            values[key[3:]] = False
        elif at < len(words) and not words[at].startswith("--"):
            values[key], at = words[at], at + 1
        else:
            values[key] = True
    return values


def _of_file(path: str | Path) -> dict[str, Any]:
    try:
        import yaml
    except ImportError as problem:
        raise UsageError(f"--config {path}, and this environment has no yaml", "pip install pyyaml") from problem
    if not Path(path).is_file():
        raise UsageError(f"--config {path} is not a file", "name a YAML file")
    return yaml.safe_load(Path(path).read_text()) or {}


def _of_dotenv(path: str | Path | None) -> dict[str, str]:
    files = [Path(path)] if path is not None else [Path(".env"), Path(".env.local")]
    found = next((file for file in files if file.is_file()), None)
    lines = [line.strip() for line in found.read_text().splitlines()] if found else []
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip().strip("\"'") for key, value in pairs}


def _of_environment(args: Args) -> dict[str, str]:
    """TWINKLE_X, and X where it is a setting's name and its value fits: others use such names too (PORT, MODE)."""
    values = {name.removeprefix("TWINKLE_"): value for name, value in os.environ.items() if name.startswith("TWINKLE_")}
    for name, value in os.environ.items():
        if args.place(name.lower()) is not None and name not in values:
            try:
                Args().take({name: value})
            except UsageError:
                continue
            values[name] = value
    return values


class CLI:
    """Reads settings; later ones win: .env, the environment, --config, the command line."""

    @staticmethod
    def from_args(argv: Sequence[str] | None = None, env_file: str | Path | None = None, config_file: str | Path | None = None) -> Args:
        """Those of this process, or of the words given."""
        args = Args()
        args.take(_of_dotenv(env_file))
        args.take(_of_environment(args))
        words = _of_command_line(sys.argv[1:] if argv is None else argv)
        file = config_file or words.pop("config", None)
        if file:
            args.take(_of_file(file))
        args.take(words)
        return args
