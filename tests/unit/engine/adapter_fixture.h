// Adapters with random matrices in folders of their own, for tests of engines that load them.
#pragma once
#include <unistd.h>

#include "engine/engine_fixture.h"
#include "hone/tuner/trained_files.h"

namespace hone::engine {

class AdapterTest : public EngineTest {
 protected:
  AdapterTest() : root_(std::filesystem::temp_directory_path() / fmt::format("hone-engine-adapters-{}", ::getpid())) {}
  ~AdapterTest() override { std::filesystem::remove_all(root_); }

  std::filesystem::path saved_adapter(const std::string& name, uint64_t seed, bool dora = false) {
    auto tuned_model = tiny_model();
    tuner::TunerConfig config;
    config.lora.rank = 4;
    config.lora.dora = dora;
    auto tuned = tuner::apply_tuner(*tuned_model, config);
    {
      at::NoGradGuard no_grad;
      at::manual_seed(seed);
      for (const auto& [parameter, tensor] : tuned.trainable) Tensor(tensor).copy_(at::randn_like(tensor) * 0.3);
    }
    tuner::save_trained(*tuned_model, tuned, root_ / name);
    return root_ / name;
  }

  // One prompt for the bare model and for the adapter "a", and what a plain engine answers to both.
  struct Pair {
    Request plain, adapted;
    std::vector<Tokens> wanted;
  };
  Pair asked_of(const std::filesystem::path& folder) {
    Pair pair{.plain = requests(12)[2], .adapted = requests(12)[2]};
    pair.adapted.adapter = "a";
    auto whole = engine();
    whole.load_adapter("a", folder);
    pair.wanted = answers(whole, {pair.plain, pair.adapted});
    EXPECT_NE(pair.wanted[0], pair.wanted[1]);
    whole.unload_adapter("a");
    return pair;
  }

  std::filesystem::path root_;
};

}  // namespace hone::engine
