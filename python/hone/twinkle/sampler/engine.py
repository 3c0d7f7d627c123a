"""A sampler on hone's engine."""
from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ... import model as models
from ... import sampler as engines
from ...data import IGNORE
from ...errors import UsageError
from .. import template as templates
from ..data_format import InputFeature, SampledSequence, SampleResponse, SampleResponses, SamplingParams
from ..dispatch import collect_results
from ..infra import remote_class, remote_function, state
from ..platform import DeviceMesh, Platform
from ..template import Template
from ..utils import construct, local_name, not_supported

_LONGEST_ANSWER = 2048  # without max_tokens
_ADAPTER = "adapter_model.safetensors"


def _join(results: list[SampleResponses], device_mesh: DeviceMesh | None = None) -> SampleResponses:
    """The answers of all workers. Those that a mesh gives the same rows give the same answers."""
    if device_mesh is not None and device_mesh.world_size == len(results):
        ranks = [device_mesh.get_data_rank_from_global_rank(rank) for rank in range(len(results))]
        results = [results[ranks.index(number)] for number in range(device_mesh.data_world_size)]
    return SampleResponses(response for result in results for response in result)


@remote_class()
class Sampler:
    """Answers prompts. `engine_args` are vLLM's: max_model_len, max_num_seqs and enable_return_routed_experts count, what hone decides by itself changes
    nothing."""

    def __init__(self, model_id: str, engine_args: Mapping[str, Any] | None = None, device_mesh: DeviceMesh | None = None, torch_dtype: Any = None,
                 model_cls: Any = None, **kwargs: Any) -> None:
        args = {**(engine_args or {}), **kwargs}
        self.model_id = model_id
        self.device_mesh = device_mesh
        dtype = args.get("dtype") or torch_dtype
        self._dtype = None if dtype in (None, "auto") else str(dtype).removeprefix("torch.")
        self._limits: dict[str, Any] = {"max_model_len": int(args.get("max_model_len") or 0), "max_num_seqs": int(args.get("max_num_seqs") or 256),
                                        "enable_return_routed_experts": bool(args.get("enable_return_routed_experts"))}
        self._start(local_name(model_id))
        self.template: Template | None = None
        self._seed = state.seed + max(Platform.get_rank(), 0)
        self._versions = 0  # of the adapter; the engine keeps the newest

    def _start(self, folder: str) -> None:
        self._model = models.Model(folder, dtype=self._dtype)
        self._engine = engines.Sampler(self._model, **self._limits)
        self._adapter = ""

    @remote_function(dispatch="all", collect="first", lazy_collect=False)
    def set_template(self, template_cls: Any, **kwargs: Any) -> None:
        """What encodes conversations."""
        kwargs.pop("adapter_name", None)
        self.template = construct(template_cls, Template, templates, **{"model_id": self.model_id, **kwargs})

    @remote_function(dispatch="all", collect="first", lazy_collect=False)
    def set_processor(self, processor_cls: Any, **kwargs: Any) -> None:
        """Taken for the sake of scripts."""

    @remote_function(dispatch="all", collect="first", lazy_collect=False)
    def add_adapter_to_sampler(self, adapter_name: str, config: Any) -> None:
        """Room for an adapter, whose weights come with sync_weights. Until then the base answers."""

    @remote_function(dispatch="all", collect="first", lazy_collect=False)
    def reset_prefix_cache(self) -> None:
        """Nothing to do: new weights come with a cache of their own."""

    @remote_function(dispatch="all", collect="first", lazy_collect=False)
    def reset_mm_cache(self) -> None:
        """Nothing to do: no pictures are kept."""

    @remote_function(dispatch="all", collect="first", lazy_collect=False)
    def reset_encoder_cache(self) -> None:
        """Nothing to do: no pictures are kept."""

    @remote_function(dispatch="all", collect="first", lazy_collect=False)
    def apply_patch(self, patch_cls: Any, **kwargs: Any) -> None:
        """hone's engine is not vLLM."""
        raise not_supported(f"the patch {getattr(patch_cls, '__name__', patch_cls)}", "leave it out")

    @remote_function(dispatch="slice_dp", collect=_join)
    def sample(self, inputs: Any, sampling_params: SamplingParams | Mapping[str, Any] | None = None, adapter_name: str = "",
               adapter_path: str | None = None, num_samples: int | None = None) -> SampleResponses:
        """Answers to conversations or token ids, a response for each with its sequences."""
        rows = [inputs] if isinstance(inputs, Mapping) else list(inputs)
        if not rows:
            return SampleResponses()
        asked = SamplingParams.from_dict(dict(sampling_params)) if isinstance(sampling_params, Mapping) else sampling_params or SamplingParams()
        adapter = self._adapter
        if adapter_path:
            adapter = adapter_path
            if adapter not in self._engine.adapters:
                self._engine.load_adapter(adapter, adapter_path)
        count = num_samples or asked.num_samples
        if asked.max_tokens == 0:  # of what is there already; nothing is added to it
            rows = [row if "input_ids" in row else self._template().batch_encode([row])[0] for row in rows]
        known = {id(row): self._prompt(row) for row in {id(row): row for row in rows}.values()}  # rows that a script repeats are encoded once
        prompts = [known[id(row)] for row in rows]
        answers = self._engine.sample(prompts, self._params(asked, count), adapter=adapter)
        self._seed += len(answers)
        return SampleResponses(self._response(row, prompt, answers[i * count:(i + 1) * count], asked)
                               for i, (row, prompt) in enumerate(zip(rows, prompts)))

    def _template(self) -> Template:
        if self.template is None:
            raise UsageError("the prompts are conversations, and the sampler has no template", "call set_template() first")
        return self.template

    def _prompt(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """As the engine takes it, with what its media came from."""
        feature: Mapping[str, Any] = row if "input_ids" in row else self._template().prompt(row)
        media = feature.get("media")
        return {"input_ids": np.asarray(feature["input_ids"]).reshape(-1).tolist(), "source": media, "media": None if media is None else media.handle}

    def _params(self, asked: SamplingParams, count: int) -> engines.SamplingParams:
        stop = [asked.stop] if isinstance(asked.stop, str) else list(asked.stop or ())
        ids = [word for word in stop if isinstance(word, int)]
        longest = _LONGEST_ANSWER if asked.max_tokens is None else asked.max_tokens
        return engines.SamplingParams(temperature=asked.temperature, top_p=asked.top_p, top_k=max(asked.top_k, 0),
                                      repetition_penalty=asked.repetition_penalty, max_tokens=longest, n=count, prompt_logprobs=asked.prompt_logprobs,
                                      seed=self._seed if asked.seed is None else asked.seed, stop=[word for word in stop if isinstance(word, str)],
                                      stop_token_ids=ids, logprobs=True)

    def _response(self, row: Mapping[str, Any], prompt: Mapping[str, Any], answers: list[engines.Completion], asked: SamplingParams) -> SampleResponse:
        if asked.max_tokens == 0:
            sequences = [SampledSequence(answer.finish_reason, [], new_input_feature=dict(row)) for answer in answers]
        else:
            sequences = [self._sequence(row, prompt, answer, asked) for answer in answers]
        response = SampleResponse(sequences, prompt_token_ids=prompt["input_ids"])
        known = answers[0].prompt_logprobs
        if known is not None and asked.prompt_logprobs:
            response.prompt_logprobs = [None, *(tokens[0][1] for tokens in known)]
            response.topk_prompt_logprobs = [None, *(tokens[1:] for tokens in known)]
        return response

    def _sequence(self, row: Mapping[str, Any], prompt: Mapping[str, Any], answer: engines.Completion, asked: SamplingParams) -> SampledSequence:
        tokens, before = answer.tokens.tolist(), prompt["input_ids"]
        ids = np.array([*before, *tokens], np.int64)
        labels = np.full_like(ids, IGNORE)
        labels[len(before) - 1:-1] = tokens
        messages = [dict(message) for message in row.get("messages") or []]
        if messages and messages[-1].get("role") == "assistant":
            messages.pop()
        kept = {name: value for name, value in row.items() if name not in InputFeature.__annotations__}
        feature = {**kept, "messages": [*messages, {"role": "assistant", "content": answer.text}], "input_ids": ids, "labels": labels,
                   "attention_mask": np.ones_like(ids), "position_ids": np.arange(len(ids)), "length": len(ids)}
        if prompt["source"] is not None:
            feature["media"] = prompt["source"]
        if answer.routed_experts is not None:
            feature["routed_experts"] = answer.routed_experts
        logprobs = [[(token, float(logp))] for token, logp in zip(tokens, answer.logprobs if answer.logprobs is not None else ())]
        return SampledSequence(answer.finish_reason, tokens, logprobs, answer.text, feature, answer.routed_experts)

    @remote_function(dispatch="all", collect="first", lazy_collect=False)
    def import_weights(self, files: Mapping[str, bytes]) -> None:
        """Takes what a model's export_weights() gave: an adapter, or a whole model."""
        with tempfile.TemporaryDirectory(prefix="hone-twinkle-") as folder:
            for name, content in files.items():
                Path(folder, name).write_bytes(content)
            if _ADAPTER not in files:
                self._engine.close()
                self._start(folder)
                return
            self._versions += 1
            older, self._adapter = self._adapter, f"v{self._versions}"
            self._engine.load_adapter(self._adapter, folder)
            if older:
                self._engine.unload_adapter(older)


TorchSampler = VLLMSampler = vLLMSampler = Sampler
