#include "hone/ops/matmul.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "ops/ops_testing.h"

namespace hone::ops {
namespace {

double resident_megabytes() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1e6;
}

TEST(Matmul, PiecesOfRowsGiveTheWholeProduct) {
  at::NoGradGuard no_grad;
  for (auto type : {at::kBFloat16, at::kHalf, at::kFloat})
    for (int64_t rows : {33, 64, 100, 1024, 1025, 1100}) {
      auto x = at::randn({rows, 96}).to(type), weight = at::randn({80, 96}).to(type), bias = at::randn({80}).to(type), dy = at::randn({rows, 80}).to(type);
      auto product = at::addmm(bias.to(at::kFloat), x.to(at::kFloat), weight.to(at::kFloat).t());
      EXPECT_LT(relative_difference(matmul_nt(x, weight, bias), product), tolerance_of(type)) << rows;
      EXPECT_LT(relative_difference(matmul_nn(dy, weight), at::mm(dy.to(at::kFloat), weight.to(at::kFloat))), tolerance_of(type)) << rows;
    }
}

TEST(Matmul, ProductsOfManyLengthsKeepNoMemory) {
  at::NoGradGuard no_grad;
  auto weight = at::randn({512, 192}).to(at::kBFloat16);
  auto run = [&](int64_t first, int64_t last) {
    for (int64_t rows = first; rows < last; rows += 5) matmul_nt(at::ones({rows, 192}, at::kBFloat16), weight);
  };
  run(33, 1100);
  double before = resident_megabytes();
  run(1100, 1400);
  EXPECT_LT(resident_megabytes() - before, 20.0);
}

}  // namespace
}  // namespace hone::ops
