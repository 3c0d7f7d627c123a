// `hone ray-submit 4 -- hone sft …`: runs the ranks of a command as actors of a Ray cluster.
#include "hone/cli/commands/ray_submit.h"

#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "hone/cli/arguments/distributed.h"
#include "hone/cli/arguments/output.h"
#include "hone/cli/commands.h"
#include "hone/cli/configs/training/parallel_config.h"
#include "hone/parallel/launch/world.h"

namespace hone::cli {
namespace {

// Starts the ranks as Ray actors. In Python, since Ray's wheel has no C++ API for drivers.
constexpr const char* kRayDriver = R"python(
import argparse, collections, json, os, shutil, socket, subprocess, sys, threading
try:
    import ray
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
except ImportError:
    sys.exit("error: this Python has no Ray\n  hint: pip install ray, or name another Python in HONE_PYTHON")

parser = argparse.ArgumentParser(prog="hone ray-submit", description="Starts the ranks of a hone command on a Ray cluster.")
parser.add_argument("num_workers", type=int, help="processes")
parser.add_argument("--address", default="auto", help="of the cluster; 'local' starts one here, 'any' takes a running one or starts one")
parser.add_argument("--init_kwargs", default="{}", help="JSON: arguments of ray.init")
parser.add_argument("--cpus_per_worker", type=float, default=1)
parser.add_argument("--resources_per_worker", default="{}", help='JSON, such as {"NPU": 1}; auto: an accelerator each where the cluster has as many')
parser.add_argument("--placement_strategy", default="PACK", choices=["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"])
parser.add_argument("--placement_timeout", type=float, default=60, help="seconds to wait for the cluster to have room")
parser.add_argument("--output", default="", help="folder of the run")
parser.add_argument("--storage", default="", help="folder to which its checkpoints are copied as they are written, and at the end the rest")
words = sys.argv[1:]
own, command = (words[:words.index("--")], words[words.index("--") + 1:]) if "--" in words else (words, [])
asked = parser.parse_args(own)
if not command:
    parser.error("no command: hone ray-submit 2 -- hone sft …")


@ray.remote(max_restarts=0)
class Rank:
    def place(self):
        with socket.socket() as probe:
            probe.bind(("", 0))
            return ray.util.get_node_ip_address(), probe.getsockname()[1]

    def run(self, command, environment, folder, output, storage):
        self.over = threading.Event()
        copying = threading.Thread(target=self.store, args=(os.path.join(folder, output), storage))
        if storage:
            copying.start()
        try:
            return self.follow(command, environment, folder)
        finally:
            self.over.set()
            if storage:
                copying.join()

    def store(self, output, storage):
        """A checkpoint appears whole, by a rename: each is copied once. Runs of several folders (v0-…) are copied with them."""
        def copy(source, target):
            shutil.rmtree(target + ".part", ignore_errors=True)
            shutil.copytree(source, target + ".part")
            shutil.rmtree(target, ignore_errors=True)
            os.rename(target + ".part", target)

        began = {root for root, _, _ in os.walk(output)}
        while True:
            last = self.over.wait(2)
            for root, folders, _ in os.walk(output):
                for name in [name for name in folders if name.startswith("checkpoint-")]:
                    folders.remove(name)
                    source = os.path.join(root, name)
                    target = os.path.join(storage, os.path.relpath(source, output))
                    if source in began or "." in name:  # checkpoint-2.partial-… is not whole yet
                        continue
                    os.makedirs(os.path.dirname(target), exist_ok=True)
                    try:
                        copy(source, target)
                    except OSError:
                        if os.path.exists(source):
                            raise
                        shutil.rmtree(target + ".part", ignore_errors=True)  # save_total_limit removed it meanwhile
                        continue
                    began.add(source)
                    print(f"checkpoint copied to {target}", flush=True)
            if last:
                shutil.copytree(output, storage, dirs_exist_ok=True, ignore=lambda _, names: [name for name in names if name.startswith("checkpoint-")])
                return

    def follow(self, command, environment, folder):
        process = subprocess.Popen(command, env={**os.environ, **environment}, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        last = collections.deque(maxlen=20)
        for line in process.stdout:
            last.append(line.rstrip("\n"))
            print(f"[rank {environment['RANK']}] {line}", end="", flush=True)
        return process.wait(), list(last)


where = {"local": {"include_dashboard": False}, "any": {}}.get(asked.address, {"address": asked.address})
ray.init(**{**where, "log_to_driver": True, "logging_level": "error", **json.loads(asked.init_kwargs)})
if asked.resources_per_worker == "auto":
    has = ray.cluster_resources()
    extra = next(({name: 1} for name in ("NPU", "GPU") if has.get(name, 0) >= asked.num_workers), {})
else:
    extra = json.loads(asked.resources_per_worker)
asked.cpus_per_worker = extra.pop("CPU", asked.cpus_per_worker)
gpus = extra.pop("GPU", 0)
bundle = {"CPU": asked.cpus_per_worker, **({"GPU": gpus} if gpus else {}), **extra}
group = placement_group([bundle] * asked.num_workers, strategy=asked.placement_strategy)
if not group.wait(asked.placement_timeout):
    sys.exit(f"error: the cluster has no room for {asked.num_workers} workers of {bundle}; it has {ray.available_resources()}")
workers = [Rank.options(num_cpus=asked.cpus_per_worker, num_gpus=gpus, resources=extra,
                        scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=i)).remote() for i in range(asked.num_workers)]
places = ray.get([worker.place.remote() for worker in workers])
address, port = places[0]
on_node = collections.defaultdict(list)
for rank, (node, _) in enumerate(places):
    on_node[node].append(rank)
tasks = {}
for rank, worker in enumerate(workers):
    peers = on_node[places[rank][0]]
    settings = {"RANK": rank, "WORLD_SIZE": asked.num_workers, "LOCAL_RANK": peers.index(rank), "LOCAL_WORLD_SIZE": len(peers), "MASTER_ADDR": address, "MASTER_PORT": port}
    tasks[worker.run.remote(command, {key: str(value) for key, value in settings.items()}, os.getcwd(), asked.output, asked.storage if rank == 0 else "")] = rank
waiting, failed = list(tasks), None
while waiting and not failed:
    (done,), waiting = ray.wait(waiting, num_returns=1)
    try:
        code, last = ray.get(done)
    except ray.exceptions.RayError as error:
        code, last = 7, [f"its worker is gone: {error}"]
    if code:
        failed = (tasks[done], code, last)
if failed and failed[1] == 7 and waiting:  # it lost a peer: the peer is the cause
    for done in ray.wait(waiting, num_returns=len(waiting), timeout=10)[0]:
        try:
            code, last = ray.get(done)
        except ray.exceptions.RayError as error:
            code, last = 1, [f"its worker is gone: {error}"]
        if code not in (0, 7):
            failed = (tasks[done], code, last)
for worker in workers:
    ray.kill(worker)
remove_placement_group(group)
if failed:
    sys.stdout.flush()
    print(f"error: rank {failed[0]} on {places[failed[0]][0]} failed first, with code {failed[1]}; its last lines:", *failed[2][-8:], sep="\n  ", file=sys.stderr)
    sys.exit(failed[1])
)python";

std::string object_text(const Arg<Json>& arg, bool of_numbers, std::string_view example) {
  const auto value = *arg;
  bool right = value.is_object();
  if (right && of_numbers)
    for (const auto& [name, amount] : value.items()) right &= amount.is_number();
  if (!right)
    throw UserError(ExitCode::usage, fmt::format("{} is {}", arg.flag(), value.dump()), fmt::format("expected {}", example));
  return value.dump();
}

}  // namespace

int ray_submit_command(const Options& options) {
  if (options.positional().empty())
    throw UserError(ExitCode::usage, "no number of processes and no command", "hone ray-submit 2 -- hone sft …");
  submit_to_ray(options.positional());
}

void submit_to_ray(const std::vector<std::string>& asked) {
  const char* chosen = std::getenv("HONE_PYTHON");
  std::string python = chosen && *chosen ? chosen : "python3";
  std::vector<std::string> words{python, "-c", kRayDriver};
  words.insert(words.end(), asked.begin(), asked.end());
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execvp(python.c_str(), argv.data());
  throw UserError(ExitCode::usage, fmt::format("cannot start {}: {}", python, std::strerror(errno)),
                  "name a Python that has Ray in HONE_PYTHON");
}

std::optional<std::vector<std::string>> ray_submission(const Options& options) {
  const DistributedArguments args(options);
  const bool speaks_of_it = args.ray_init_kwargs.is_set() || args.resources_per_worker.is_set() ||
                            args.placement_strategy.is_set() || args.ray_storage_path.is_set() || args.ray_run_name.is_set();
  if (!uses_ray(options) || !speaks_of_it || parallel::is_launched_externally()) return std::nullopt;
  std::vector<std::string> words{std::to_string(*args.ray_num_workers), "--address", "any"};
  const auto add = [&](const char* name, std::string value) { words.insert(words.end(), {name, std::move(value)}); };
  if (args.ray_init_kwargs.has_value())
    add("--init_kwargs", object_text(args.ray_init_kwargs, false, "arguments of ray.init: {\"address\": \"10.0.0.1:6379\"}"));
  add("--resources_per_worker",
      args.resources_per_worker.has_value() ? object_text(args.resources_per_worker, true, "amounts: {\"GPU\": 1}") : "auto");
  add("--placement_strategy", *args.placement_strategy);
  if (!args.ray_storage_path.has_value()) return words;
  const std::filesystem::path output = OutputArguments(options).output_dir.required();
  const auto name = args.ray_run_name.has_value() ? *args.ray_run_name : output.lexically_normal().filename().string();
  add("--output", output.string());
  add("--storage", (std::filesystem::absolute(*args.ray_storage_path) / name).string());
  return words;
}

}  // namespace hone::cli
