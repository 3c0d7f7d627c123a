#include "hone/model/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "hone/base/file.h"
#include "hone/io/weight_folder.h"
#include "model/tiny_json.h"

namespace hone::model {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

Json saved_config(const std::string& architecture = "Qwen2ForCausalLM") {
  return tiny_json(architecture, {{"rope_theta", 10000.0}});
}

std::unique_ptr<CausalLM> saved_model() { return CausalLM::random(parse_config(saved_config(), "test"), 4); }

class ModelFolder : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("hone-model-{}", ::getpid());
    fs::create_directories(folder_);
    save(saved_config(), {});
  }
  void TearDown() override { fs::remove_all(folder_); }

  void save(const Json& config, const std::function<void(std::vector<io::TensorSource>&)>& change) {
    write_file_atomically(folder_ / "config.json", config.dump());
    auto model = saved_model();
    std::vector<io::TensorSource> tensors;
    for (auto& parameter : model->parameters()) tensors.push_back(io::TensorSource::of(parameter.name, *parameter.value));
    if (change) change(tensors);
    io::write_sharded(folder_, tensors);
  }
  std::string failure() const {
    try {
      CausalLM::load(folder_);
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_checkpoint);
      return error.what();
    }
    return "";
  }
  fs::path folder_;
};

TEST_F(ModelFolder, LoadsWhatWasSaved) {
  auto saved = saved_model(), loaded = CausalLM::load(folder_);
  ForwardInput input;
  input.segments.append(9);
  input.tokens_t = input.positions_t = at::arange(9);
  at::NoGradGuard no_grad;
  EXPECT_TRUE(at::equal(saved->hidden_states(input), loaded->hidden_states(input)));
  EXPECT_EQ(CausalLM::load(folder_, {.dtype = at::kBFloat16})->dtype(), at::kBFloat16);
}

TEST_F(ModelFolder, MissingTensorIsNamed) {
  save(saved_config(), [](auto& tensors) { std::erase_if(tensors, [](auto& t) { return t.name == "model.norm.weight"; }); });
  EXPECT_THAT(failure(), HasSubstr("model.norm.weight"));
}

TEST_F(ModelFolder, MisshapenTensorIsNamedWithBothShapes) {
  save(saved_config(), [](auto& tensors) { tensors[0] = io::TensorSource::of(tensors[0].name, at::zeros({49, 32})); });
  EXPECT_THAT(failure(), testing::AllOf(HasSubstr("model.embed_tokens.weight"), HasSubstr("[49, 32]"), HasSubstr("[50, 32]")));
}

TEST_F(ModelFolder, ExtraTensorIsTolerated) {
  save(saved_config(), [](auto& tensors) { tensors.push_back(io::TensorSource::of("v_head.weight", at::zeros({3}))); });
  EXPECT_EQ(failure(), "");
}

TEST_F(ModelFolder, UnknownArchitectureNamesTheKnown) {
  save(saved_config("GptNeoForCausalLM"), {});
  EXPECT_THAT(failure(),
              testing::AllOf(HasSubstr("GptNeoForCausalLM"), HasSubstr("Qwen3ForCausalLM"), HasSubstr("MistralForCausalLM")));
}

TEST_F(ModelFolder, HostileConfigsAreRefused) {
  for (auto [field, value] : std::vector<std::pair<std::string, Json>>{{"hidden_size", 0},
                                                                       {"hidden_size", "64"},
                                                                       {"num_attention_heads", 0},
                                                                       {"num_key_value_heads", 3},
                                                                       {"vocab_size", 1ull << 62},
                                                                       {"num_hidden_layers", -1},
                                                                       {"rope_scaling", {{"type", "magic"}}},
                                                                       {"num_key_value_heads", 0},
                                                                       {"num_hidden_layers", 1 << 30}}) {
    auto config = saved_config();
    config[field] = value;
    write_file_atomically(folder_ / "config.json", config.dump());
    EXPECT_NE(failure(), "") << field << " " << value;
  }
}

}  // namespace
}  // namespace hone::model
