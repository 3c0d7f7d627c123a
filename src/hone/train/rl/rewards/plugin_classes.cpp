#include "hone/train/rl/rewards/plugin_script.h"

namespace hone::train::rl {

// The classes that ms-swift gives to schedulers, environments and loss scales that only use text: requests, choices, base
// classes. Schedulers have neither an engine nor a tokenizer here.
const char kPluginClasses[] = R"py(
import asyncio, copy, ipaddress, json, socket, time, types, urllib.parse


class Record:
    def __init__(self, **kwargs):
        self.__dict__.update(kwargs)


class RolloutInferRequest(Record):
    def __init__(self, messages, data_dict=None, uuid=None, tools=None, images=None, videos=None, audios=None, **kwargs):
        super().__init__(messages=messages, data_dict=data_dict or {}, uuid=uuid, tools=tools, images=images or [], videos=videos or [], audios=audios or [], objects={}, chat_template_kwargs={}, **kwargs)


class ChatMessage(Record):
    pass


class ChatCompletionResponseChoice(Record):
    pass


class RequestConfig(Record):
    pass


class RolloutScheduler:
    def __init__(self, infer_engine=None, max_turns=None, *args, **kwargs):
        self.infer_engine, self.max_turns = infer_engine, max_turns
        self.tokenizer = None

    async def on_trajectory_start(self, requests):
        pass

    async def on_turn_end(self, infer_request, response_choice, current_turn):
        return {}

    async def run(self, infer_request, request_config, **kwargs):
        raise NotImplementedError


class MultiTurnScheduler(RolloutScheduler):
    def step(self, infer_request, response_choice, current_turn):
        raise NotImplementedError("a scheduler needs step()")

    def check_finished(self, infer_request, response_choice, current_turn):
        return response_choice.finish_reason == "length" or bool(self.max_turns and current_turn >= self.max_turns)


class Env:
    def __init__(self, env_config):
        self.env_config = env_config


envs = {}
LOST = {"done": True, "lost": True}  # of an episode whose environment ended with an earlier worker


class GYMScheduler(MultiTurnScheduler):
    def __init__(self, infer_engine=None, max_turns=None, **kwargs):
        super().__init__(infer_engine, max_turns, **kwargs)
        self.gym_env_name = kwargs.get("gym_env")
        self._envs, self._total_rewards, self._step_rewards, self._pending_obs = {}, {}, {}, {}

    def _create_env(self, env_config):
        name = env_config.get("name", self.gym_env_name)
        if name not in envs:
            raise ValueError(f"environment {name!r} is not registered in envs; there are {sorted(envs)}")
        return envs[name](env_config)

    async def _close_and_remove(self, uuid):
        env = self._envs.pop(uuid, None)
        if env is not None:
            try:
                await self._close(env)
            except Exception:
                pass
        for state in (self._total_rewards, self._step_rewards, self._pending_obs):
            state.pop(uuid, None)

    async def _close(self, env):
        await env.close()

    def _begin(self, request, env, system, observation):
        request.messages = ([{"role": "system", "content": system}] if system else []) + [{"role": "user", "content": observation}]
        uuid = request.uuid
        self._envs[uuid], self._total_rewards[uuid], self._step_rewards[uuid], self._pending_obs[uuid] = env, 0.0, [], None

    async def _end_turn(self, uuid, observation, reward, done):
        self._total_rewards[uuid] += float(reward)
        self._step_rewards[uuid].append(float(reward))
        self._pending_obs[uuid] = None if done else observation
        infos = {"total_reward": self._total_rewards[uuid], "step_rewards": list(self._step_rewards[uuid]), "gym_done": bool(done)}
        if done:
            await self._close_and_remove(uuid)
        return {"done": bool(done), "rollout_infos": infos}

    async def on_trajectory_start(self, requests):
        for request in requests:
            await self._close_and_remove(request.uuid)
            env = self._create_env((request.data_dict or {}).get("env_config") or {})
            observation, info, system = await env.reset(request)
            self._begin(request, env, system, observation)

    async def on_turn_end(self, infer_request, response_choice, current_turn):
        env = self._envs.get(infer_request.uuid)
        if env is None:
            return LOST
        observation, reward, done, info = await env.step(copy.deepcopy(infer_request.messages))
        return await self._end_turn(infer_request.uuid, observation, reward, done)

    def step(self, infer_request, response_choice, current_turn):
        observation = self._pending_obs.pop(infer_request.uuid, None)
        if observation is not None:
            infer_request.messages.append({"role": "user", "content": observation})
        return {"infer_request": infer_request}


class OpenEnvWrapper:
    """A session with an OpenEnv server, by openenv-core's own client. Its address stands in a row, so only this machine's are followed unless the run says otherwise."""
    attempts, delay, allow_remote = 3, 2.0, False

    def __init__(self, env_config):
        self.base_url, self.reset_kwargs, self._client = env_config.get("base_url", "http://localhost:8000"), env_config.get("reset_kwargs") or {}, None
        host = urllib.parse.urlsplit(self.base_url).hostname
        if not self.allow_remote and not all(ipaddress.ip_address(found[4][0]).is_loopback for found in socket.getaddrinfo(host, None)):
            raise ValueError(f"the environment {self.base_url} is on another machine; `remote_tools` true allows it")

    def _call(self, name, *arguments, **keywords):
        for left in reversed(range(self.attempts)):
            try:
                if self._client is None:
                    from openenv.core.generic_client import GenericEnvClient
                    client = GenericEnvClient(base_url=self.base_url).sync()
                    client.__enter__()
                    self._client = client
                return getattr(self._client, name)(*arguments, **keywords)
            except ImportError:
                raise RuntimeError("openenv_scheduler needs openenv-core in the plugins' Python: pip install openenv-core, or name another one with `plugin_python`")
            except Exception:
                if not left:
                    raise
                self.close()
                time.sleep(self.delay)

    def reset(self):
        result = self._call("reset", **self.reset_kwargs)
        return result.observation, getattr(result, "metadata", None)

    def step(self, action):
        result = self._call("step", action)
        return result.observation, float(result.reward or 0), bool(result.done), getattr(result, "metadata", None)

    def close(self):
        client, self._client = self._client, None
        if client is not None:
            try:
                client.__exit__(None, None, None)
            except Exception:
                pass


class OpenEnvScheduler(GYMScheduler):
    def _create_env(self, env_config):
        return OpenEnvWrapper(env_config)

    async def _close(self, env):
        await asyncio.to_thread(env.close)

    async def on_trajectory_start(self, requests):
        for request in requests:
            await self._close_and_remove(request.uuid)
            config = {**getattr(self, "env_config_defaults", {}), **((request.data_dict or {}).get("env_config") or {})}
            env = self._create_env(config)
            observation, metadata = await asyncio.to_thread(env.reset)
            self._begin(request, env, config.get("system_message", ""), self.format_observation(observation))

    async def on_turn_end(self, infer_request, response_choice, current_turn):
        env = self._envs.get(infer_request.uuid)
        if env is None:
            return LOST
        observation, reward, done, metadata = await asyncio.to_thread(env.step, self.parse_action(response_choice.message.content))
        return await self._end_turn(infer_request.uuid, None if done else self.format_observation(observation), reward, done)

    def parse_action(self, text):
        lines = text.strip().splitlines()
        if len(lines) >= 2 and lines[0].startswith("```") and lines[-1].strip().startswith("```"):
            lines = lines[1:-1]
        text = "\n".join(lines).strip()
        try:
            found = json.loads(text)
        except ValueError:
            return {"message": text}
        return found if isinstance(found, dict) else {"message": str(found)}

    def format_observation(self, observation):
        return json.dumps(observation, ensure_ascii=False, default=str)


class LossScale:
    is_binary = True

    def __init__(self, base_strategy="default"):
        self.base_strategy = base_strategy

    def get_loss_scale(self, context, **kwargs):
        return [context], [1.0]

    @property
    def is_binary_loss_scale(self):
        return bool(self.is_binary)


multi_turns = {"gym_scheduler": GYMScheduler, "openenv_scheduler": OpenEnvScheduler}
loss_scale_map = {"base": LossScale}
TURN_NAMES = dict(RolloutInferRequest=RolloutInferRequest, ChatMessage=ChatMessage, ChatCompletionResponseChoice=ChatCompletionResponseChoice, RequestConfig=RequestConfig,
                  RolloutScheduler=RolloutScheduler, MultiTurnScheduler=MultiTurnScheduler, GYMScheduler=GYMScheduler, OpenEnvScheduler=OpenEnvScheduler, OpenEnvWrapper=OpenEnvWrapper, Env=Env, LossScale=LossScale,
                  envs=envs, multi_turns=multi_turns, loss_scale_map=loss_scale_map)
)py";

}  // namespace hone::train::rl
