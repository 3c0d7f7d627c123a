#include "hone/ops/linear/matmul.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "hone/ops/cpu/gemm/upcast_gemm.h"
#include "ops/ops_testing.h"
#include "ops/upcast_testing.h"

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
      auto x = at::randn({rows, 96}).to(type), weight = at::randn({80, 96}).to(type), bias = at::randn({80}).to(type),
           dy = at::randn({rows, 80}).to(type);
      auto product = at::addmm(bias.to(at::kFloat), x.to(at::kFloat), weight.to(at::kFloat).t());
      EXPECT_LT(relative_difference(matmul_nt(x, weight, bias), product), tolerance_of(type)) << rows;
      EXPECT_LT(relative_difference(matmul_nn(dy, weight), at::mm(dy.to(at::kFloat), weight.to(at::kFloat))), tolerance_of(type))
          << rows;
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

// Blocks of rows, of columns, and sums over blocks of the inner dimension: what does not fit one block is cut.
TEST(Matmul, UpcastProductsAreCutAndRoundedOnce) {
  at::NoGradGuard no_grad;
  at::manual_seed(3);
  struct Sizes {
    int64_t rows, inner, columns;
  };
  for (auto type : {at::kBFloat16, at::kHalf})
    for (auto [rows, inner, columns] : {Sizes{40, 7, 5}, Sizes{33, 1024, 1500}, Sizes{600, 8192, 4}, Sizes{35, 0, 4}}) {
      auto a = at::randn({rows, inner}).to(type), b = at::randn({inner, columns}).to(type), bias = at::randn({columns}).to(type);
      auto exact = at::mm(a.to(at::kFloat), b.to(at::kFloat));
      auto a_transposed = a.t().contiguous(), b_transposed = b.t().contiguous();
      UpcastGuard upcasts(true);
      EXPECT_LT(relative_difference(matmul_nt(a, b_transposed, bias), exact + bias), tolerance_of(type))
          << rows << ' ' << inner << ' ' << columns;
      EXPECT_LT(relative_difference(matmul_nn(a, b), exact), tolerance_of(type)) << rows << ' ' << inner << ' ' << columns;
      EXPECT_LT(relative_difference(matmul_tn(a_transposed, b), exact), tolerance_of(type))
          << rows << ' ' << inner << ' ' << columns;
    }
}

// libtorch's operators, and what autograd calls of them, by the same code once it is installed.
TEST(Matmul, LibtorchsOwnProductsAreUpcast) {
  cpu::install_upcast_gemm();
  at::manual_seed(4);
  for (auto type : {at::kBFloat16, at::kHalf}) {
    auto product = [](const TensorList& in) { return at::addmm(in[2], in[0], in[1], 0.5, 2.0).matmul(in[1].t()); };
    auto batched = [](const TensorList& in) { return at::baddbmm(in[5], in[3], in[4], 0.5, 2.0).matmul(in[4].transpose(1, 2)); };
    TensorList given;
    for (auto sizes : std::vector<std::vector<int64_t>>{{9, 24}, {24, 10}, {9, 10}, {3, 9, 24}, {3, 24, 10}, {3, 9, 10}})
      given.push_back(at::randn(sizes).to(type));
    auto gradients = [&](auto function, at::ScalarType computed) {
      TensorList in;
      for (auto& x : given) in.push_back(x.to(computed).detach().requires_grad_());
      auto y = function(in);
      y.backward(at::ones_like(y));
      TensorList found{y.detach()};
      for (auto& x : in)
        if (x.grad().defined()) found.push_back(x.grad());
      return found;
    };
    for (const Operator& function : {Operator(product), Operator(batched)}) {
      auto exact = gradients(function, at::kFloat);
      UpcastGuard upcasts(true);
      auto upcast = gradients(function, type);
      ASSERT_EQ(upcast.size(), exact.size());
      for (size_t i = 0; i < exact.size(); ++i) EXPECT_LT(relative_difference(upcast[i], exact[i]), 2 * tolerance_of(type)) << i;
    }
    at::NoGradGuard no_grad;
    UpcastGuard upcasts(true);
    auto exact = at::mm(given[0].to(at::kFloat), given[1].to(at::kFloat));
    auto out = at::empty({0}, type);
    EXPECT_LT(relative_difference(at::mm_out(out, given[0], given[1]), exact), tolerance_of(type));
    EXPECT_LT(relative_difference(given[2].clone().addmm_(given[0], given[1]), exact + given[2]), tolerance_of(type));
    EXPECT_THROW(at::mm(given[0], given[0]), c10::Error);
    EXPECT_THROW(at::mm(given[0], given[1].to(at::kFloat)), c10::Error);
  }
}

}  // namespace
}  // namespace hone::ops
