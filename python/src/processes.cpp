// Processes: a mesh of processes that have found each other.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "hone/device/device.h"
#include "objects.h"

namespace hone::python {
namespace {

// Sizes as Python gives them: a dictionary as JSON text, whose keys hone/device_mesh.py made.
Processes* join(const std::string& sizes, const std::string& device) {
  const auto given = Json::parse(sizes);
  auto processes = std::make_unique<Processes>();
  auto& config = processes->config;
  config.world = parallel::world_from_environment();
  const int fsdp = given.at("fsdp").get<int>();
  if (fsdp > 1) {
    config.sharding.stage = 3;
    config.sharding.shard_size = fsdp;
  }
  config.layout.dp = given.at("dp").get<int>();
  config.layout.tp = given.at("tp").get<int>();
  config.layout.pp = given.at("pp").get<int>();
  config.layout.cp = given.at("cp").get<int>();
  config.layout.ep = given.at("ep").get<int>();
  config.sequence_parallel = given.at("sp").get<int>();
  config.megatron_sequence_parallel = given.at("sequence_parallel").get<bool>();
  const auto here = device::select_device(device, config.world.local_rank);
  processes->context = std::make_shared<train::DistributedContext>(train::DistributedContext::join(config, given, here));
  return processes.release();
}

}  // namespace

void bind_processes(nb::module_& m) {
  nb::class_<Processes>(m, "Processes")
      .def_static(
          "join",
          [](const std::string& sizes, const std::string& device) { return without_gil([&] { return join(sizes, device); }); },
          nb::arg("sizes"), nb::arg("device"), nb::rv_policy::take_ownership)
      .def_prop_ro("rank", [](const Processes& self) { return self.context->world.rank; })
      .def_prop_ro("world_size", [](const Processes& self) { return self.context->world.size; })
      .def_prop_ro("local_rank", [](const Processes& self) { return self.context->world.local_rank; })
      .def_prop_ro("data_rank", [](const Processes& self) { return self.context->data_rank(); })
      .def_prop_ro("data_size", [](const Processes& self) { return self.context->data_size(); })
      .def(
          "gather_text",
          [](const Processes& self, const std::string& text) {
            return without_gil(
                [&] { return self.context->group ? self.context->group->gather_text(text) : std::vector<std::string>{text}; });
          },
          nb::arg("text"))
      .def("__str__", [](const Processes& self) { return self.context->mesh.str(); });
}

}  // namespace hone::python
