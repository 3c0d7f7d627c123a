// Mixture of experts: sorts tokens by expert, computes grouped matrix products, restores the order of the tokens.
#include "cann_emulator/ops/operator.h"

using namespace cann;

namespace {

void check_unpadded(bool padded) {
  if (padded) throw BadParameter(kParameterInvalid, "padded_mode is not supported");
}

Tensor spread(const Tensor& probabilities, const Tensor& places) {  // one weight per (token, expert) pair, in row order
  return probabilities.defined() ? probabilities.to(at::kFloat).reshape({-1, 1}) : at::ones({places.numel(), 1});
}

int64_t choices(const Tensor& probabilities) {
  return probabilities.defined() && probabilities.dim() == 2 ? probabilities.size(1) : 1;
}

// End offset of each expert's rows.
Ints ends_of(const Tensor& groups, int64_t type) {
  if (!groups.defined() || groups.scalar_type() != at::kLong) throw BadParameter(kParameterInvalid, "group_list must be INT64");
  auto ends = type == 1 ? groups.cumsum(0) : groups;
  Ints out(ends.const_data_ptr<int64_t>(), ends.const_data_ptr<int64_t>() + ends.numel());
  if (!std::is_sorted(out.begin(), out.end()) || (!out.empty() && out.front() < 0))
    throw BadParameter(kParameterInvalid, "group_list must not decrease");
  return out;
}

void grouped(const Tensor& x, const Tensor& weight, const Ints& ends, int64_t group_type, Tensor out) {
  if (x.scalar_type() != weight.scalar_type()) throw BadParameter(kParameterInvalid, "x and weight must have one data type");
  if (group_type != 0 && group_type != 2)
    throw BadParameter(kParameterInvalid, c10::str("group_type ", group_type, " is not in the emulated CANN"));
  int64_t length = x.size(group_type == 0 ? 0 : 1);
  if (!ends.empty() && ends.back() > length) throw BadParameter(kParameterInvalid, "group_list reaches behind x");
  out.zero_();
  for (size_t i = 0; i < ends.size(); ++i) {
    int64_t begin = i ? ends[i - 1] : 0, count = ends[i] - begin, expert = static_cast<int64_t>(i);
    if (group_type == 0)
      out.narrow(0, begin, count).copy_(at::mm(x.narrow(0, begin, count).to(at::kFloat), weight[expert].to(at::kFloat)));
    else
      out[expert].copy_(at::mm(x.narrow(1, begin, count).to(at::kFloat), weight.narrow(0, begin, count).to(at::kFloat)));
  }
}

}  // namespace

ACLNN(MoeTokenPermute, [](Tensor tokens, Tensor indices, int64_t rows, bool padded, Tensor out, Tensor places) {
  check_unpadded(padded);
  auto order = indices.reshape({-1}).argsort(/*stable=*/true, /*dim=*/0, /*descending=*/false);
  store(places, order.argsort().to(places.scalar_type()));
  int64_t each = indices.dim() == 2 ? indices.size(1) : 1;
  store(out, tokens.index_select(0, order.narrow(0, 0, out.size(0)).div(each, "floor")));
})
ACLNN(MoeTokenPermuteGrad, [](Tensor grad, Tensor places, int64_t each, bool padded, Tensor out) {
  check_unpadded(padded);
  store(out, grad.index_select(0, places.to(at::kLong)).to(at::kFloat).reshape({-1, each, grad.size(1)}).sum(1));
})
ACLNN(MoeTokenUnpermute, [](Tensor rows, Tensor places, Tensor probabilities, bool padded, Ints, Tensor out) {
  check_unpadded(padded);
  auto own = rows.index_select(0, places.to(at::kLong)).to(at::kFloat) * spread(probabilities, places);
  store(out, own.reshape({-1, choices(probabilities), rows.size(1)}).sum(1));
})
ACLNN(MoeTokenUnpermuteGrad,
      [](Tensor rows, Tensor grad, Tensor places, Tensor probabilities, bool padded, Ints, Tensor drows, Tensor dprobabilities) {
        check_unpadded(padded);
        auto wide = grad.to(at::kFloat).repeat_interleave(choices(probabilities), 0);
        auto where = places.to(at::kLong);
        store(drows, at::zeros(drows.sizes()).index_copy_(0, where, wide * spread(probabilities, places)));
        if (probabilities.defined())
          store(dprobabilities, (wide * rows.index_select(0, where).to(at::kFloat)).sum(1).reshape(probabilities.sizes()));
      })

ACLNN(GroupedMatmulV4, [](Tensors x, Tensors weight, Tensors, Tensors, Tensors, Tensors, Tensors, Tensors, Tensor groups, Tensors,
                          Tensors, Tensors, int64_t, int64_t group_type, int64_t list_type, int64_t, Tensors out, Tensors,
                          Tensors) { grouped(x.at(0), weight.at(0), ends_of(groups, list_type), group_type, out.at(0)); })
ACLNN(GroupedMatmulV5, [](Tensors x, Tensors weight, Tensors, Tensors, Tensors, Tensors, Tensors, Tensors, Tensor groups, Tensors,
                          Tensors, Tensors, int64_t, int64_t group_type, int64_t list_type, int64_t, Ints, Tensors out, Tensors,
                          Tensors) { grouped(x.at(0), weight.at(0), ends_of(groups, list_type), group_type, out.at(0)); })
