#include "hone/train/rl/rewards/plugin_script.h"

namespace hone::train::rl {

// The classes that ms-swift gives to schedulers, environments and loss scales that only use text: requests, choices, base
// classes. Schedulers have neither an engine nor a tokenizer here.
const char kPluginTurns[] = R"py(
import asyncio, copy, ipaddress, json, socket, time, types, urllib.parse


class Record:
    def __init__(self, **kwargs):
        self.__dict__.update(kwargs)


class RolloutInferRequest(Record):
    def __init__(self, messages, data_dict=None, uuid=None, tools=None, **kwargs):
        super().__init__(messages=messages, data_dict=data_dict or {}, uuid=uuid, tools=tools, images=[], videos=[], audios=[], objects={}, chat_template_kwargs={}, **kwargs)


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


class TurnWorker:
    def __init__(self, name, max_turns, gym_env, allow_remote):
        OpenEnvWrapper.allow_remote = allow_remote
        if name not in multi_turns:
            raise KeyError(f"no plugin registers multi_turns[{name!r}]; there are {sorted(multi_turns)}")
        kind = multi_turns[name]
        if getattr(kind, "run", None) is not RolloutScheduler.run:
            raise TypeError(f"{kind.__name__} overrides run(), which needs ms-swift's engine; a scheduler here has step(), check_finished(), on_trajectory_start() and on_turn_end()")
        self.scheduler = kind(max_turns=max_turns, **({"gym_env": gym_env} if gym_env else {}))
        self.max_turns, self.requests, self.loop = max_turns, {}, asyncio.new_event_loop()

    def request(self, row):
        request = self.requests.get(row["episode"])
        if request is None:
            request = self.requests[row["episode"]] = RolloutInferRequest(row["messages"], row["columns"], row["episode"], row["tools"])
        request.messages = row["messages"]
        return request

    def start(self, row):
        request = self.request(row)
        self.loop.run_until_complete(self.scheduler.on_trajectory_start([request]))
        return {"messages": plain(request.messages)}

    def turn(self, row):
        request, turn = self.request(row), row["turn"]
        choice = ChatCompletionResponseChoice(index=0, message=ChatMessage(role="assistant", content=row["text"], tool_calls=None), finish_reason="length" if row["truncated"] else "stop",
                                              logprobs=None, token_ids=None)
        ended = self.loop.run_until_complete(self.scheduler.on_turn_end(request, choice, turn)) or {}
        infos = dict(ended.get("rollout_infos") or {})
        done = ended["done"] if "done" in ended else self.scheduler.check_finished(request, choice, turn)
        if done or (self.max_turns and turn >= self.max_turns):
            self.requests.pop(row["episode"], None)
            return {"done": True, "infos": infos, "lost": bool(ended.get("lost"))}
        before = copy.deepcopy(request.messages)
        stepped = self.scheduler.step(request, choice, turn)
        request = self.requests[row["episode"]] = stepped["infer_request"]
        infos.update(stepped.get("rollout_infos") or {})
        return {"done": False, "infos": infos, **changes(before, request.messages, row["text"])}


def plain(messages):
    for message in messages:
        if not isinstance(message["role"], str) or not isinstance(message["content"], str):
            raise TypeError(f"a message is not text: {str(message)[:80]}")
    return [{"role": message["role"], "content": message["content"]} for message in messages]


def changes(before, after, text):
    """What step() did to the messages, of which the last was the completion: it continued it, or appended messages."""
    after = list(after)
    if after and after[-1]["role"] == "assistant" and not after[-1]["content"]:
        after.pop()
    count = len(before)
    if len(after) < count or after[:count - 1] != before[:count - 1] or after[count - 1]["role"] != "assistant":
        raise ValueError("step() rewrote earlier messages; a scheduler here may continue the last completion or append messages")
    old, new = before[-1]["content"], after[count - 1]["content"]
    replies = plain(after[count:])
    if old == new and replies:
        return {"replies": replies}
    if replies:
        raise ValueError("step() changed the completion and appended messages; a scheduler here does one of them")
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    begin = len(old) - len(text)
    if same < begin:
        raise ValueError("step() changed a message of an earlier turn")
    return {"keep": len(text[:same - begin].encode()), "continued": new[same:]}


class ScaleWorker:
    def __init__(self, names):
        for name in names:
            if name not in loss_scale_map:
                raise KeyError(f"no plugin registers loss_scale_map[{name!r}]; there are {sorted(loss_scale_map)}")
        self.scales = {name: loss_scale_map[name]("default") for name in names}

    def is_binary(self, name):
        return bool(self.scales[name].is_binary_loss_scale)

    def scale(self, row):
        parts, weights = self.scales[row["name"]].get_loss_scale(row["context"], query=row["query"])
        if "".join(parts) != row["context"] or len(parts) != len(weights):
            raise ValueError("get_loss_scale() must return the parts of the text in their order, and a weight for each")
        return {"parts": list(parts), "weights": [float(weight) for weight in weights]}
)py";

}  // namespace hone::train::rl
