#include "hone/train/rl/rewards/plugin_script.h"

namespace hone::train::rl {

// The Python worker that runs schedulers, environments and loss scales: it reads a request, calls the plugin and reports what
// that changed.
const char kPluginTurns[] = R"py(

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
            media = [[as_given(source) for source in row[kind]] for kind in ("images", "videos", "audios")]
            request = self.requests[row["episode"]] = RolloutInferRequest(row["messages"], row["columns"], row["episode"], row["tools"], *media)
        request.messages = row["messages"]
        return request

    def start(self, row):
        request = self.request(row)
        known = list(request.images)
        self.loop.run_until_complete(self.scheduler.on_trajectory_start([request]))
        collect_parts(request, request.messages)
        images = [next((i for i, other in enumerate(known) if same_image(image, other)), None) for image in request.images]
        return {"messages": plain(request.messages), "images": [image_source(image) if i is None else i for i, image in zip(images, request.images)]}

    def turn(self, row):
        if row["episode"] not in self.requests and "images" not in row:
            return {"unknown": True}  # to a new worker: hone sends all of the row
        request, turn = self.request(row), row["turn"]
        known = list(request.images)
        choice = ChatCompletionResponseChoice(index=0, message=ChatMessage(role="assistant", content=row["text"], tool_calls=None), finish_reason="length" if row["truncated"] else "stop",
                                              logprobs=None, token_ids=None)
        ended = self.loop.run_until_complete(self.scheduler.on_turn_end(request, choice, turn)) or {}
        infos = without_media(ended.get("rollout_infos"))
        done = ended["done"] if "done" in ended else self.scheduler.check_finished(request, choice, turn)
        if done or (self.max_turns and turn >= self.max_turns):
            self.requests.pop(row["episode"], None)
            return {"done": True, "infos": infos, "lost": bool(ended.get("lost"))}
        before = copy.deepcopy(request.messages)
        stepped = self.scheduler.step(request, choice, turn)
        if not isinstance(stepped, dict) or "infer_request" not in stepped:
            raise TypeError(f"step() returned {type(stepped).__name__}; expected a dict with \"infer_request\"")
        request = self.requests[row["episode"]] = stepped["infer_request"]
        infos.update(without_media(stepped.get("rollout_infos")))
        collect_parts(request, request.messages[len(before):])
        changed, images = changes(before, request.messages, row["text"]), further_images(known, request.images)
        if images and "replies" not in changed:
            raise ValueError("step() added images without a message that shows them")
        return {"done": False, "infos": infos, **changed, "images": images}


def without_media(infos):  # ms-swift's way to tell the trainer of a request's new media, which are read from the request here
    return {name: value for name, value in (infos or {}).items() if name not in ("images", "videos", "audios")}


def as_given(source):  # base64, as ms-swift gives bytes
    return source[len(BYTES):] if isinstance(source, str) and source.startswith(BYTES) else source


def same_image(one, other):
    return one is other or (isinstance(one, str) and one == other)


def image_source(image):
    """A path, an address or base64 of what a plugin may add to a request: one of these, bytes, a dict with one of them, or an image of PIL."""
    if isinstance(image, dict):
        image = image.get("bytes") or image.get("path")
    if hasattr(image, "save"):
        file = io.BytesIO()
        (image if image.mode in ("1", "L", "LA", "P", "RGB", "RGBA") else image.convert("RGB")).save(file, "PNG")
        image = file.getvalue()
    if isinstance(image, (bytes, bytearray)):
        return BYTES + base64.b64encode(image).decode()
    if not isinstance(image, str) or not image:
        raise TypeError(f"an image is a {type(image).__name__}; expected a path, an address, base64, bytes or an image of PIL")
    return image


def further_images(known, images):
    if len(images) < len(known) or not all(map(same_image, images, known)):
        raise ValueError("step() changed earlier images; a scheduler here may append images")
    return [image_source(image) for image in images[len(known):]]


def collect_parts(request, messages):
    """Contents that are lists become texts, whose images are the request's."""
    for message in messages:
        if not isinstance(message.get("content"), list):
            continue
        text = ""
        for part in message["content"]:
            if part["type"] == "text":
                text += part["text"]
            elif part["type"] in ("image", "image_url"):
                image = part.get("image", part.get("image_url"))
                request.images.append(image["url"] if isinstance(image, dict) and "url" in image else image)
                text += "<image>"
            else:
                raise TypeError(f"a message has a part of type {part['type']}; expected text or image")
        message["content"] = text


def plain(messages):
    for message in messages:
        if not isinstance(message.get("role"), str) or not isinstance(message.get("content"), str):
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
