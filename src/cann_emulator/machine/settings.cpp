#include "cann_emulator/machine/settings.h"

#include <cstdlib>
#include <numeric>

namespace cann {
namespace {

std::string text(const char* name, std::string otherwise = "") {
  const char* value = std::getenv(name);
  return value && *value ? value : otherwise;
}

int64_t number(const char* name, int64_t otherwise) {
  auto value = text(name);
  return value.empty() ? otherwise : std::strtoll(value.c_str(), nullptr, 10);
}

int64_t usual_memory(const std::string& soc) {
  if (soc.starts_with("Ascend310P")) return 24LL << 30;
  if (soc == "Ascend910A" || soc == "Ascend910B4") return 32LL << 30;
  return 64LL << 30;
}

Settings read() {
  Settings out;
  out.cards = static_cast<int>(number("HONE_EMULATED_NPUS", out.cards));
  out.soc = text("HONE_EMULATED_SOC", out.soc);
  if (!out.soc.starts_with("Ascend")) out.soc = "Ascend" + out.soc;
  out.memory = number("HONE_EMULATED_HBM", usual_memory(out.soc) >> 20) << 20;
  out.cann = text("HONE_EMULATED_CANN", out.cann);
  out.state = text("HONE_EMULATED_STATE");
  out.report = text("HONE_EMULATED_REPORT");
  out.fault = text("HONE_EMULATED_FAULT");
  if (const char* visible = std::getenv("ASCEND_RT_VISIBLE_DEVICES")) {
    out.visible = parse_visible(visible, out.cards, out.trouble);
  } else {
    out.visible.resize(static_cast<size_t>(out.cards));
    std::iota(out.visible.begin(), out.visible.end(), 0);
  }
  return out;
}

}  // namespace

bool Settings::second_generation() const {
  return soc.starts_with("Ascend910B") ? soc.size() > 10 : soc.starts_with("Ascend910_9");
}

std::vector<int> parse_visible(const std::string& text, int cards, std::string& trouble) {
  std::vector<int> out;
  size_t at = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    int card = 0;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') card = card * 10 + (text[at++] - '0');
    if (card >= cards || (!out.empty() && card <= out.back())) {
      trouble = "EE2002: ASCEND_RT_VISIBLE_DEVICES=" + text + " must list existing devices in ascending order without repetition";
      return {};
    }
    out.push_back(card);
    if (at < text.size() && text[at] == ',')
      ++at;
    else
      break;
  }
  return out;
}

const Settings& settings() {
  static const Settings kSettings = read();
  return kSettings;
}

}  // namespace cann
