"""Text out of a model: many prompts at a time, from any thread, blocking or with asyncio."""
from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import json
import os
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, cast

import numpy as np

from .data import Template, _ids
from .errors import Error, NonFiniteError, UsageError, require, require_type
from .library import _hone
from .model import Model

MAX_N = 16384  # vLLM's limit: all answers of a call are queued at once
Prompt = str | Sequence[int] | np.ndarray | Sequence[Mapping[str, Any]] | Mapping[str, Any]


@dataclass
class SamplingParams:
    """How tokens are chosen and when an answer ends. Defaults choose the most likely token until the model ends its turn."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    max_tokens: int = 512  # 0: nothing is written; for prompt_logprobs
    min_tokens: int = 0
    n: int = 1  # answers of each prompt
    seed: int = 42
    stop: str | Sequence[str] = ()
    stop_token_ids: Sequence[int] = ()
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logprobs: bool = False  # of each chosen token
    prompt_logprobs: int | None = None  # of each token of the prompt and this many of the most likely in its place

    def __post_init__(self) -> None:
        if isinstance(self.stop, str):
            self.stop = (self.stop,)
        require(self.temperature >= 0, "temperature", self.temperature, "0 or more")
        require(0 < self.top_p <= 1, "top_p", self.top_p, "a number above 0, at most 1")
        require(self.top_k >= 0, "top_k", self.top_k, "0 (all) or more")
        require(0 <= self.min_p <= 1, "min_p", self.min_p, "a number from 0 to 1")
        require(self.max_tokens >= 0, "max_tokens", self.max_tokens, "0 or more")
        require(self.prompt_logprobs is None or self.prompt_logprobs >= 0, "prompt_logprobs", self.prompt_logprobs, "0 or more")
        require(self.min_tokens >= 0, "min_tokens", self.min_tokens, "0 or more")
        require(1 <= self.n <= MAX_N, "n", self.n, f"1 to {MAX_N}")
        require(self.seed >= 0, "seed", self.seed, "0 or more")
        require(self.repetition_penalty > 0, "repetition_penalty", self.repetition_penalty, "a number above 0")


@dataclass
class Completion:
    """An answer."""

    text: str
    tokens: np.ndarray  # int64, with the token that ended it
    finish_reason: str  # stop, length or cancelled
    prompt: np.ndarray  # int64
    logprobs: np.ndarray | None = None  # float32, one a token, when asked for
    # Of each token of the prompt but the first: its id and log p, then those of the most likely ones. When asked for.
    prompt_logprobs: list[list[tuple[int, float]]] | None = None
    routed_experts: np.ndarray | None = None  # int16 [tokens but the last, layers with experts, experts of a token], if the sampler returns them


@dataclass
class _Answer:
    """One request that is being answered."""

    prompt: list[int]
    params: SamplingParams
    done: concurrent.futures.Future[Completion]
    on_text: Callable[[str], bool] | None  # False: nobody reads on
    routed_shape: tuple[int, int] | None  # layers with experts, and the experts of a token; None: they are not returned
    text: str = ""
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    prompt_logprobs: list[list[tuple[int, float]]] = field(default_factory=list)

    def take(self, output: Any) -> None:
        self.tokens += output.tokens
        self.logprobs += output.logprobs
        self.prompt_logprobs += output.prompt_logprobs
        self.text += output.text
        if self.on_text and output.text and self.params.max_tokens and not self.on_text(output.text):
            self.done.cancel()
        if output.finish:
            self._finish(output)

    def fail(self, problem: Exception) -> None:
        if self.done.set_running_or_notify_cancel():  # asyncio may have cancelled it
            self.done.set_exception(problem)

    def _finish(self, output: Any) -> None:
        if output.stop_token >= 0 and (not self.tokens or self.tokens[-1] != output.stop_token):
            self.tokens.append(output.stop_token)
            if output.eos_logprob is not None:
                self.logprobs.append(output.eos_logprob)
        if output.finish == "error":
            kind = NonFiniteError if output.model_broken else Error
            self.fail(kind(output.error, "take an earlier checkpoint, or the model without the adapter" if output.model_broken else ""))
        elif self.done.set_running_or_notify_cancel():
            finish = output.finish
            if self.params.max_tokens == 0:  # the engine has written a token with the prompt's numbers
                self.text, self.tokens, self.logprobs, finish = "", [], [], "length"
            self.done.set_result(Completion(self.text, np.array(self.tokens, np.int64), finish, np.array(self.prompt, np.int64),
                                            np.array(self.logprobs, np.float32) if self.params.logprobs else None,
                                            self.prompt_logprobs if self.params.prompt_logprobs is not None else None,
                                            np.frombuffer(output.routed_experts, np.int16).reshape(-1, *self.routed_shape).copy() if self.routed_shape else None))


class Sampler:
    """The engine of `hone deploy` on a model, also on one that a trainer changes: new requests see its newest weights."""

    def __init__(self, model: Model, template: Template | None = None, *, max_model_len: int = 0, max_num_seqs: int = 256,
                 kv_cache_tokens: int = 0, enable_return_routed_experts: bool = False) -> None:
        """`template` None: the model's own. `max_model_len` 0: the model's; `kv_cache_tokens` 0: by the memory there is.
        `enable_return_routed_experts`: completions have the experts that their tokens chose, for Batch.from_rows."""
        require_type(model, Model, "model", "a hone.Model")
        require_type(template, (Template, type(None)), "template", "a hone.Template")
        for name, value, least in (("max_model_len", max_model_len, 0), ("max_num_seqs", max_num_seqs, 1), ("kv_cache_tokens", kv_cache_tokens, 0)):
            require(value >= least, name, value, f"{least} or more")
        self.model = model
        self.template = template or Template(model)
        self._engine = _hone.Engine.make(model._model, max_model_len, max_num_seqs, kv_cache_tokens, enable_return_routed_experts)
        self._routed_shape = self._engine.routed_shape if enable_return_routed_experts else None
        self._lock = threading.Lock()
        self._answers: dict[int, _Answer] = {}
        self._thread: threading.Thread | None = None  # steps the engine while there is work
        _samplers.add(self)

    def __repr__(self) -> str:
        return f"Sampler({self.model!r}, adapters={self.adapters})"

    def sample(self, prompts: str | Sequence[Prompt], params: SamplingParams = SamplingParams(), *, adapter: str = "") -> list[Completion]:
        """Answers in the order of the prompts, `params.n` of each. A prompt is a user's message, a conversation, token ids, a row such as
        {"messages": […], "images": […]}, or what Template.encode_prompt made of one; a text alone is one prompt."""
        futures = self._submit(prompts, params, adapter)
        try:
            return [future.result() for future in futures]
        except BaseException:  # Ctrl-C too: the others are cancelled
            self._cancel(futures)
            raise

    async def asample(self, prompts: str | Sequence[Prompt], params: SamplingParams = SamplingParams(), *, adapter: str = "") -> list[Completion]:
        """The same for asyncio: callers that wait at the same time are answered together."""
        futures = await self._start(prompts, params, adapter)
        try:
            return list(await asyncio.gather(*map(asyncio.wrap_future, futures)))
        except BaseException:
            self._cancel_later(futures)
            raise

    async def stream(self, prompt: Prompt, params: SamplingParams = SamplingParams(), *, adapter: str = "") -> AsyncIterator[str]:
        """An answer's text, piece by piece."""
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[str | None] = asyncio.Queue()

        def say(piece: str | None) -> bool:
            try:
                loop.call_soon_threadsafe(pieces.put_nowait, piece)
            except RuntimeError:  # the loop was closed before the answer ended
                return False
            return True

        futures = await self._start([prompt], replace(params, n=1), adapter, say)
        futures[0].add_done_callback(lambda _: say(None))
        try:
            while (piece := await pieces.get()) is not None:
                yield piece
            futures[0].result()
        finally:
            self._cancel_later(futures)

    def chat(self, message: Prompt, params: SamplingParams = SamplingParams(), *, adapter: str = "") -> str:
        """The text of one answer."""
        return self.sample([message], replace(params, n=1), adapter=adapter)[0].text

    def load_adapter(self, name: str, folder: str) -> None:
        """A PEFT folder, for requests that name it."""
        self._engine.load_adapter(name, str(folder))

    def unload_adapter(self, name: str) -> None:
        """Forgets it; one in use stays."""
        self._engine.unload_adapter(name)

    @property
    def adapters(self) -> list[str]:
        """Names that requests may give."""
        return self._engine.adapters

    def close(self) -> None:
        """Cancels requests under way."""
        with self._lock:
            answers, thread = [answer.done for answer in self._answers.values()], self._thread
        self._cancel(answers)
        if thread:
            thread.join()

    def __enter__(self) -> Sampler:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _prompt(self, prompt: Prompt) -> tuple[list[int], _hone.PromptImages | None]:
        if not hasattr(prompt, "__len__") or (isinstance(prompt, Mapping) and not {"input_ids", "messages", "query"} & set(prompt)):
            raise UsageError(f"a prompt is {prompt!r:.60} ({type(prompt).__name__})", "expected a text, a list of messages, token ids, or a row with messages")
        if isinstance(prompt, Mapping):
            row = prompt if "input_ids" in prompt else self.template.encode_prompt(prompt)
            ids, media = _ids(row["input_ids"]), row.get("media")
            return ids, None if media is None else _hone.PromptImages.make(ids, media)
        if isinstance(prompt, str) or (len(prompt) and isinstance(prompt[0], Mapping)):
            return self.template.prompt(cast("str | Sequence[Mapping[str, Any]]", prompt)), None
        return _ids(prompt), None

    def _submit(self, prompts: str | Sequence[Prompt], params: SamplingParams, adapter: str, on_text: Callable[[str], bool] | None = None) -> list[concurrent.futures.Future[Completion]]:
        require_type(params, SamplingParams, "params", "hone.SamplingParams")
        settings = asdict(params)
        settings |= {"stop": [*params.stop, *self.template.stop_words], "stop_token_ids": list(params.stop_token_ids),
                     "eos_token_ids": self.template.stop_token_ids, "logprobs": 0 if params.logprobs else None}
        asked = [prompts] if isinstance(prompts, str) else list(prompts)
        known = {id(prompt): self._prompt(prompt) for prompt in {id(prompt): prompt for prompt in asked}.values()}  # a picture of many answers is read once
        encoded = [known[id(prompt)] for prompt in asked]
        futures: list[concurrent.futures.Future[Completion]] = []
        added = []
        with self._lock:
            try:
                for number, (prompt, images) in enumerate(each for each in encoded for _ in range(params.n)):
                    settings["seed"] = params.seed + number
                    request = self._engine.add(prompt, json.dumps(settings), adapter, images)
                    futures.append(concurrent.futures.Future())
                    self._answers[request] = _Answer(prompt, params, futures[-1], on_text, self._routed_shape)
                    added.append(request)
            except BaseException:  # one of them can never run: none does
                for request in added:
                    self._answers.pop(request)
                    self._engine.cancel(request)
                raise
            if added and not self._thread:
                self._thread = threading.Thread(target=self._run, name="hone-sampler", daemon=True)
                self._thread.start()
        return futures

    async def _start(self, *request: Any) -> list[concurrent.futures.Future[Completion]]:
        """_submit for asyncio: on a thread of its own, since it waits for the engine's step and decodes media."""
        starting = asyncio.get_running_loop().run_in_executor(None, self._submit, *request)
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(lambda done: None if done.cancelled() or done.exception() else self._cancel_later(done.result()))
            raise

    def _cancel_later(self, futures: Sequence[concurrent.futures.Future[Completion]]) -> None:
        """_cancel without waiting for the engine."""
        if not all(future.done() for future in futures):
            threading.Thread(target=self._cancel, args=(futures,), name="hone-sampler-cancel", daemon=True).start()

    def _cancel(self, futures: Sequence[concurrent.futures.Future[Completion]]) -> None:
        with self._lock:
            for request, answer in list(self._answers.items()):
                if answer.done in futures:
                    self._engine.cancel(request)
                    self._answers.pop(request)
                    answer.done.cancel()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._answers:
                    self._thread = None
                    return
            try:
                outputs = self._engine.step()
            except Exception as problem:  # of the whole engine: everybody hears it
                self._fail(problem)
                continue
            with self._lock:
                for output in outputs:
                    if found := self._answers.get(output.id):
                        found.take(output)
                        if output.finish:
                            self._answers.pop(output.id)
                        elif found.done.cancelled():
                            self._answers.pop(output.id)
                            self._engine.cancel(output.id)

    def _fail(self, problem: Exception) -> None:
        with self._lock:
            failed, self._answers = self._answers, {}
            for request, answer in failed.items():
                self._engine.cancel(request)
                answer.fail(problem)


_samplers: weakref.WeakSet[Sampler] = weakref.WeakSet()


def _forget_all() -> None:
    """In a forked process: the thread that answers requests stayed behind, perhaps with the lock."""
    for sampler in list(_samplers):
        sampler._lock, sampler._answers, sampler._thread = threading.Lock(), {}, None


os.register_at_fork(after_in_child=_forget_all)


@atexit.register
def _close_all() -> None:
    """Before the interpreter ends, so that no thread computes beyond it."""
    for sampler in list(_samplers):
        sampler.close()
