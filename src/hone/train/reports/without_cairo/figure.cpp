#include "hone/train/reports/figure.h"

namespace hone::train {

bool can_draw() { return false; }

void require_drawing() {
  throw UserError(ExitCode::usage, "this build of hone draws no plots: it was made without Cairo",
                  "apt install libcairo2-dev libfontconfig-dev, then build again");
}

void write_figure(const fs::path&, const Figure&) { require_drawing(); }

}  // namespace hone::train
