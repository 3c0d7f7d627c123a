// What Python's objects hold, and the parts of the module that bind them.
#pragma once
#include <nanobind/nanobind.h>

#include <unistd.h>

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "hone/data/batches/make_loader.h"
#include "hone/model/causal_lm.h"
#include "hone/train/distributed/distributed_context.h"

namespace hone::python {

namespace nb = nanobind;
namespace fs = std::filesystem;

struct Model {
  std::string name;  // as given
  fs::path folder;
  std::shared_ptr<model::CausalLM> lm;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::mutex busy;      // held for a pass: a trainer and a sampler on two threads run one at a time
  int64_t version = 0;  // of the weights; a sampler forgets what it computed with older ones
  bool trained = false;
};

struct Template {
  std::shared_ptr<const data::Encoder> encoder;
  std::shared_ptr<const text::Tokenizer> tokenizer;
};

// Images, videos and sounds of a row, in the places of its tokens. They are read when its batch is made.
struct Media {
  std::vector<data::Picture> pictures;
  std::vector<data::Sound> sounds;
};

// The processes that train together, and how they share the work out.
struct Processes {
  train::ParallelConfig config;
  std::shared_ptr<const train::DistributedContext> context;
};

struct DataLoader {
  std::unique_ptr<data::Loader> loader;
  std::mutex busy;  // one thread at a time takes a batch
};

// Runs `work` without Python's lock and gives what it returns. It may touch no Python object.
template <class Work>
auto without_gil(const Work& work) {
  nb::gil_scoped_release released;
  return work();
}
// Threads do not survive a fork, and a computation would wait for them forever: refuses it in a process that was forked after
// hone had computed.
inline void require_own_threads() {
  static std::atomic<pid_t> owner{0};
  pid_t computed = 0;
  if (!owner.compare_exchange_strong(computed, ::getpid()) && computed != ::getpid())
    throw UserError(ExitCode::usage, fmt::format("this process was forked from {}, in which hone had computed", computed),
                    "start processes with multiprocessing.get_context(\"spawn\")");
}
// The same while nothing else computes with the model.
template <class Work>
auto with_model(Model& model, const Work& work) {
  require_own_threads();
  nb::gil_scoped_release released;
  std::lock_guard lock(model.busy);
  return work();
}

// Throws UserError(bad_data) for ids beyond the model's vocabulary: rows of a Python program may hold any number.
void check_tokens(const Model& model, const data::Batch& batch);

// Throws UserError(bad_data) if the ids lack the places of the media: a program may have changed them since they were encoded.
void check_placeholders(const Media& media, const std::vector<text::TokenId>& ids);

// Each in a file of its own.
void bind_errors(nb::module_& m);
void bind_hub(nb::module_& m);
void bind_model(nb::module_& m);
void bind_data(nb::module_& m);
void bind_processes(nb::module_& m);
void bind_trainer(nb::module_& m);
void bind_engine(nb::module_& m);
void bind_rewards(nb::module_& m);

}  // namespace hone::python
