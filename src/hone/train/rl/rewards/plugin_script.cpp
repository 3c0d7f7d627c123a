#include "hone/train/rl/rewards/plugin_script.h"

namespace hone::train::rl {

// `swift` and its submodules are created at run time: ORM, AsyncORM, PRM and the registries that plugins add themselves to exist,
// and the classes of kPluginClasses, which precede this text; any other name is a class that can be derived from and that raises
// an error on use.
const char kPluginScript[] = R"py(
import asyncio, base64, importlib.abc, importlib.machinery, importlib.util, inspect, io, json, logging, math, os, signal, sys, threading, time, traceback, types

requests, responses = os.fdopen(3, "r", encoding="utf-8"), os.fdopen(4, "w", encoding="utf-8", errors="replace")
sys.stdout = sys.stderr  # what a plugin prints is for people
parent, worker = os.getppid(), os.getpid()


def end_with_parent():
    while os.getppid() == parent:
        time.sleep(1)
    os.killpg(worker, signal.SIGKILL)  # with what plugins started


class ORM:
    def __init__(self, args=None, **kwargs):
        self.args = args

    def __call__(self, **kwargs):
        raise NotImplementedError


class AsyncORM(ORM):
    async def __call__(self, **kwargs):
        raise NotImplementedError


class PRM:
    def __call__(self, **kwargs):
        raise NotImplementedError


# hone's own rewards under ms-swift's names; the parent computes them.
SETTINGS = ("max_completion_length", "cosine_min_len_value_wrong", "cosine_max_len_value_wrong", "cosine_min_len_value_correct", "cosine_max_len_value_correct", "cosine_max_len", "repetition_n_grams", "repetition_max_penalty",
            "soft_max_length", "soft_cache_length")
run_arguments, parent_lock = types.SimpleNamespace(), threading.Lock()


class BuiltIn(ORM):
    function = None

    def __init__(self, args=None, **kwargs):
        super().__init__(args)
        self.settings = {name: kwargs.get(name, getattr(args, name, getattr(run_arguments, name, None))) for name in SETTINGS}

    def __call__(self, completions, solution=None, **kwargs):
        ids = kwargs.get("response_token_ids") or [[]] * len(completions)
        tokens = [sum(map(len, each)) if each and isinstance(each[0], list) else len(each) for each in ids]
        asked = {"builtin": self.function, "completions": list(completions), "tokens": tokens, "columns": {} if solution is None else {"solution": list(solution)}, "settings": self.settings}
        with parent_lock:
            reply(asked)
            response = json.loads(requests.readline())
        if "error" in response:
            raise RuntimeError(response["error"])
        return response["rewards"]


BUILT_IN = {name: type(title, (BuiltIn,), {"function": name}) for name, title in (("accuracy", "MathAccuracy"), ("format", "Format"), ("react_format", "ReActFormat"), ("toolbench", "ReactORM"), ("cosine", "CosineReward"), ("repetition", "RepetitionPenalty"),
                                                                                  ("soft_overlong", "SoftOverlong"))}


class InferRequest(dict):  # plugins read it by attribute or as a dictionary
    def __getattr__(self, name):
        if name not in self:
            raise AttributeError(name)
        return self[name]


KNOWN = {"ORM": ORM, "AsyncORM": AsyncORM, "PRM": PRM, "get_logger": lambda *a, **k: logging.getLogger("swift"), **TURN_NAMES,
         "InferRequest": InferRequest, "ChatCompletionResponse": Record, "orms": dict(BUILT_IN), **{kind.__name__: kind for kind in BUILT_IN.values()},
         **{name: {} for name in ("prms", "rm_plugins", "loss_map", "metric_mapping", "agent_templates", "context_managers")}}


class Placeholder:
    def __init__(self, *args, **kwargs):
        raise RuntimeError(f"{type(self).__name__} is a part of ms-swift that hone does not give to plugins; a reward sees texts and columns")


class ShimModule(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = KNOWN[name] if name in KNOWN else type(name, (Placeholder,), {})
        setattr(self, name, value)
        return value


class ShimFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name == "swift" or name.startswith("swift."):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return ShimModule(spec.name)

    def exec_module(self, module):
        pass


class AbsentModule(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        def raise_absent(self, *args, **kwargs):
            raise ModuleNotFoundError(f"{type(self).__module__} is not installed in {sys.executable}")

        value = type(name, (), {"__init__": raise_absent, "__module__": self.__name__})
        setattr(self, name, value)
        return value


class AbsentFinder(ShimFinder):
    """Plugins of ms-swift import torch beside rewards that see only texts: what is not installed fails when it is used."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "transformers", "peft", "trl", "accelerate"):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return AbsentModule(spec.name)


sys.meta_path.insert(0, ShimFinder())
sys.meta_path.append(AbsentFinder())


def reply(value):
    if os.getpid() != worker:  # a plugin forked, and its child came back here: only one of them responds
        os._exit(0)
    try:
        responses.write(json.dumps(value, ensure_ascii=False) + "\n")  # "?" instead of half a surrogate pair
        responses.flush()
    except BrokenPipeError:  # the run ended meanwhile
        os.killpg(worker, signal.SIGKILL)


def reason():
    kind, value, trace = sys.exc_info()
    frames = [frame for frame in traceback.extract_tb(trace) if not frame.filename.startswith("<")]
    location = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    text = " ".join(str(value).splitlines())  # a line of the log
    return kind.__name__ + (f": {text}" if text else "") + location


def load(paths):
    for number, path in enumerate(paths):
        if os.path.dirname(os.path.abspath(path)) not in sys.path:
            sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
        spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(path))[0], path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)


def make(name, arguments):
    table = {**KNOWN["prms"], **{key: value for key, value in KNOWN["orms"].items() if value is not BUILT_IN.get(key)}}
    if name not in table:
        raise LookupError(f"no plugin registers orms[{name!r}] or prms[{name!r}]; there are {sorted(table)}")
    entry = table[name]
    if not inspect.isclass(entry):
        return entry
    if entry.__init__ is object.__init__:
        return entry()
    parameters = inspect.signature(entry.__init__).parameters
    given = {key: getattr(arguments, key) for key in parameters if key not in ("self", "args", "kwargs") and hasattr(arguments, key)}
    if "args" in parameters:
        given["args"] = arguments
    return entry(**given)


def read_score(score):  # a process reward has one for each step
    if hasattr(score, "choices"):
        score = score.choices[0].message.content
    if isinstance(score, str) and "[" in score:
        score = json.loads(score)
    return min(score) if isinstance(score, (list, tuple)) else score


def ask(function, keywords):
    """A plugin of ms-swift's sampling reads requests; others read completions and columns."""
    for asked in (function, getattr(function, "infer", None)):
        names = inspect.signature(asked).parameters if callable(asked) else {}
        if "infer_requests" in names:
            break
    else:
        names = inspect.signature(function).parameters
        if not any(each.kind == inspect.Parameter.VAR_KEYWORD for each in names.values()):
            keywords = {name: value for name, value in keywords.items() if name in names}
        return function(**keywords)
    given = {"request_config": None, "ground_truths": keywords.get("solution", [None] * len(keywords["messages"]))}
    attached = [name for name in ("images", "videos", "audios", "tools") if name in keywords]
    requested = [InferRequest(messages=messages, **{name: keywords[name][i] for name in attached if keywords[name][i]}) for i, messages in enumerate(keywords["messages"])]
    scores = asked(infer_requests=requested, **{name: value for name, value in given.items() if name in names})
    return [read_score(score) for score in scores] if isinstance(scores, (list, tuple)) else scores


BYTES = "data:application/octet-stream;base64,"  # the bytes of a column of parquet


def with_bytes(images):
    return images and [{"bytes": base64.b64decode(each["path"][len(BYTES):]), "path": None} if each["path"].startswith(BYTES) else each for each in images]


def complete(keywords, rounds):
    """Adds what is not sent: images as bytes, the state of the trainer as an object, and in rollouts of several turns the rows of each trajectory."""
    if "images" in keywords:
        keywords["images"] = [with_bytes(images) for images in keywords["images"]]
    if rounds is not None:
        names = [name for name, value in keywords.items() if isinstance(value, list)]
        rows = [dict(zip(names, values)) for values in zip(*(keywords[name] for name in names))]
        keywords["trajectory_inputs"] = {row["request_id"]: [{**row, "messages": messages} for messages in earlier] + [row] for row, earlier in zip(rows, rounds)}
    keywords["trainer_state"] = types.SimpleNamespace(**{name: getattr(run_arguments, name, None) for name in ("max_steps", "num_train_epochs")}, **keywords["trainer_state"])
    return keywords


def called(function, keywords, rounds=None):
    scores = ask(function, complete(keywords, rounds))
    if inspect.isawaitable(scores):
        scores = asyncio.run(resolved(scores))
    if isinstance(scores, (str, bytes, dict)) or not hasattr(scores, "__iter__"):
        raise TypeError(f"it returned {type(scores).__name__}; expected a list with a number or None for each completion")
    scores = [math.nan if score is None else float(score) for score in scores]
    if any(math.isinf(score) for score in scores):
        raise ValueError("a reward is infinite")
    return [None if math.isnan(score) else score for score in scores]


async def resolved(waiting):
    return await waiting


def main():
    first = json.loads(requests.readline())
    arguments = types.SimpleNamespace(**first["arguments"])
    run_arguments.__dict__.update(first["arguments"])
    try:
        load(first["files"])
        functions = {name: make(name, arguments) for name in first["names"]}
        actions = {}
        if "scheduler" in first:
            turns = TurnWorker(first["scheduler"], first["max_turns"], first["gym_env"], first["allow_remote"])
            actions.update(start=turns.start, turn=turns.turn)
        if "loss_scales" in first:
            scales = ScaleWorker(first["loss_scales"])
            actions["loss_scale"] = scales.scale
    except BaseException:
        reply({"error": reason()})
        return
    reply({"ready": {name: getattr(function, "__name__", type(function).__name__) for name, function in functions.items()},
           "binary": {name: scales.is_binary(name) for name in first.get("loss_scales", ())}})
    for line in requests:
        request = json.loads(line)
        for row in request.get("rows", ()):
            try:
                reply({"result": actions[request["action"]](row)})
            except BaseException:
                reply({"error": reason()})
        if "rows" in request:
            continue
        try:
            reply({"rewards": called(functions[request["name"]], request["keywords"], request.get("rounds"))})
        except BaseException:
            reply({"error": reason()})


threading.Thread(target=end_with_parent, daemon=True).start()
main()
)py";

}  // namespace hone::train::rl
