#include "hone/model/config.h"

#include <gtest/gtest.h>

#include "hone/base/error.h"
#include "model/tiny_json.h"

namespace hone::model {
namespace {

DecoderConfig parsed(const std::string& architecture, const Json& changes) {
  return parse_config(tiny_json(architecture, changes), "config.json");
}

std::string refusal(const Json& changes, const std::string& architecture = "LlamaForCausalLM") {
  try {
    parsed(architecture, changes);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Config, ListedLayersSlideWhateverMaxWindowLayersIs) {
  const Json changes{{"use_sliding_window", true},
                     {"sliding_window", 8},
                     {"max_window_layers", 28},
                     {"layer_types", {"sliding_attention", "full_attention"}}};
  for (const char* architecture : {"Qwen2ForCausalLM", "Qwen3ForCausalLM", "Qwen2MoeForCausalLM"})
    EXPECT_EQ(parsed(architecture, changes).sliding_windows, (std::vector<int64_t>{8, 0})) << architecture;
  EXPECT_EQ(refusal({{"use_sliding_window", true}, {"layer_types", {"full_attention"}}}, "Qwen3ForCausalLM"),
            "config.json: \"layer_types\" has 1 entries; expected 2, one per layer");
  EXPECT_EQ(refusal({{"use_sliding_window", true}, {"layer_types", {"full_attention", "chunked_attention"}}}, "Qwen2ForCausalLM"),
            "config.json: \"layer_types\" has \"chunked_attention\"; expected \"sliding_attention\" or \"full_attention\"");
}

TEST(Config, OtherActivationsAreRefused) {
  for (const char* architecture : {"LlamaForCausalLM", "Qwen2ForCausalLM", "MixtralForCausalLM", "Qwen3NextForCausalLM"}) {
    EXPECT_NE(refusal({{"hidden_act", "relu"}}, architecture).find("\"hidden_act\" is \"relu\"; expected \"silu\""),
              std::string::npos)
        << architecture;
    for (const auto& usual : {Json("silu"), Json("swish"), Json()}) EXPECT_EQ(refusal({{"hidden_act", usual}}, architecture), "");
  }
}

TEST(Config, ScalesThatGiveNaNAreRefused) {
  EXPECT_EQ(refusal({{"rms_norm_eps", -1}}), "config.json: rms_norm_eps is -1; expected 0 or more");
  EXPECT_EQ(refusal({{"rope_theta", 0}}), "config.json: rope_theta is 0; expected a number above 0");
  EXPECT_EQ(refusal({{"rope_scaling", {{"rope_type", "linear"}, {"factor", 0}}}}),
            "config.json: the factor of the rope scaling is 0; expected a number above 0");
}

}  // namespace
}  // namespace hone::model
