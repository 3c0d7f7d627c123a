#include "hone/parallel/expert_parallel/expert_all_to_all.h"

#include <numeric>

#include "hone/device/autograd.h"

namespace hone::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using RowCounts = ProcessGroup::RowCounts;

int64_t total(const RowCounts& counts) { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

// Row counts of the all-to-all, from one all-gather of counts. Autograd keeps it until the backward pass.
struct Exchange : torch::CustomClassHolder {
  ProcessGroup& group;
  int64_t etp;               // expert tensor parallel size
  RowCounts own;             // rows of this process for each group of experts
  RowCounts sent, received;  // rows to and from each process
  Tensor order, places;      // permutation of received rows that sorts them by expert, and its inverse
  Tensor counts_e;           // rows of each local expert
  bool is_idle = false;      // no rows were received: a row of zeros avoids empty kernel launches

  Exchange(ProcessGroup& group, int64_t etp, const Tensor& counts_e);

  // From this process's rows to the rows of the local experts, sorted by expert.
  Tensor deliver(const Tensor& rows_rh) const;
  // The outputs of each row, summed over the processes it was sent to.
  Tensor collect(const Tensor& rows_rh) const;
};

Exchange::Exchange(ProcessGroup& group, int64_t etp, const Tensor& all_counts) : group(group), etp(etp) {
  const int64_t ranks = group.size(), experts = all_counts.size(0), owners = ranks / etp, each = experts / owners;
  auto table = at::empty({ranks * experts}, all_counts.options());
  group.all_gather(table, all_counts.contiguous())->wait();
  const auto on_host = table.to(at::kCPU);
  const auto* count = on_host.const_data_ptr<int64_t>();
  auto rows_for = [&](int64_t rank, int64_t owner) {
    const auto* first = count + rank * experts + owner * each;
    return std::accumulate(first, first + each, int64_t{0});
  };
  const int64_t here = group.rank() / etp;
  for (int64_t owner = 0; owner < owners; ++owner) own.push_back(rows_for(group.rank(), owner));
  RowCounts begins;  // offsets of each process's and expert's rows among the received ones
  int64_t begin = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    sent.push_back(own[static_cast<size_t>(rank / etp)]);
    received.push_back(rows_for(rank, here));
    for (int64_t expert = 0; expert < each; ++expert) {
      begins.push_back(begin);
      begin += count[rank * experts + here * each + expert];
    }
  }
  RowCounts places_of, counts(static_cast<size_t>(each));
  for (int64_t expert = 0; expert < each; ++expert)
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const auto rows = count[rank * experts + here * each + expert];
      const auto filled = places_of.size();
      places_of.resize(filled + static_cast<size_t>(rows));
      std::iota(places_of.begin() + static_cast<std::ptrdiff_t>(filled), places_of.end(),
                begins[static_cast<size_t>(rank * each + expert)]);
      counts[static_cast<size_t>(expert)] += rows;
    }
  is_idle = places_of.empty();
  if (is_idle) counts[0] = 1;
  order = at::tensor(places_of, at::kLong).to(all_counts.device());
  places = order.argsort();
  counts_e = at::tensor(counts, at::kLong).to(all_counts.device());
}

Tensor Exchange::deliver(const Tensor& rows_rh) const {
  auto out = rows_rh.contiguous();
  if (etp > 1) {
    TensorList copies;
    int64_t begin = 0;
    for (auto rows : own) {
      for (int64_t i = 0; i < etp; ++i) copies.push_back(out.narrow(0, begin, rows));
      begin += rows;
    }
    out = at::cat(copies);
  }
  auto in = at::empty({total(received), rows_rh.size(1)}, rows_rh.options());
  group.all_to_all(in, out, received, sent)->wait();
  return is_idle ? at::zeros({1, rows_rh.size(1)}, rows_rh.options()) : in.index_select(0, order);
}

Tensor Exchange::collect(const Tensor& rows_rh) const {
  auto out = is_idle ? rows_rh.narrow(0, 0, 0).contiguous() : rows_rh.index_select(0, places);
  auto in = at::empty({total(sent), rows_rh.size(1)}, rows_rh.options());
  group.all_to_all(in, out, sent, received)->wait();
  if (etp == 1) return in;
  TensorList sums;
  int64_t begin = 0;
  for (auto rows : own) {
    sums.push_back(in.narrow(0, begin, etp * rows).view({etp, rows, in.size(1)}).sum(0));
    begin += etp * rows;
  }
  return at::cat(sums);
}

void keep(AutogradContext* ctx, const c10::intrusive_ptr<Exchange>& exchange) {
  ctx->saved_data["exchange"] = c10::IValue::make_capsule(exchange);
}

const Exchange& exchange_of(AutogradContext* ctx) {
  return static_cast<const Exchange&>(*ctx->saved_data["exchange"].toCapsule());
}

// Each is the other's backward pass.
struct Deliver : torch::autograd::Function<Deliver> {
  static Tensor forward(AutogradContext* ctx, const Tensor& rows_rh, const c10::intrusive_ptr<Exchange>& exchange) {
    keep(ctx, exchange);
    return exchange->deliver(rows_rh);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {exchange_of(ctx).collect(grads[0]), Tensor()};
  }
};

struct Collect : torch::autograd::Function<Collect> {
  static Tensor forward(AutogradContext* ctx, const Tensor& rows_rh, const c10::intrusive_ptr<Exchange>& exchange) {
    keep(ctx, exchange);
    return exchange->collect(rows_rh);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {exchange_of(ctx).deliver(grads[0]), Tensor()};
  }
};

class ExchangedRows final : public ops::ExpertDispatcher::Route {
 public:
  ExchangedRows(ProcessGroup& group, int64_t etp, const Tensor& rows_rh, const Tensor& counts_e)
      : exchange_(c10::make_intrusive<Exchange>(group, etp, counts_e)), rows_rh_(Deliver::apply(rows_rh, exchange_)) {}

  const Tensor& rows_rh() const override { return rows_rh_; }
  const Tensor& counts_e() const override { return exchange_->counts_e; }
  Tensor combine(const Tensor& rows_rh) const override { return Collect::apply(rows_rh, exchange_); }

 private:
  c10::intrusive_ptr<Exchange> exchange_;
  Tensor rows_rh_;
};

// All experts are local.
class OwnRows final : public ops::ExpertDispatcher::Route {
 public:
  OwnRows(const Tensor& rows_rh, const Tensor& counts_e) : rows_rh_(rows_rh), counts_e_(counts_e) {}

  const Tensor& rows_rh() const override { return rows_rh_; }
  const Tensor& counts_e() const override { return counts_e_; }
  Tensor combine(const Tensor& rows_rh) const override { return rows_rh; }

 private:
  Tensor rows_rh_, counts_e_;
};

}  // namespace

std::unique_ptr<ops::ExpertDispatcher::Route> ExpertAllToAll::dispatch(const Tensor& rows_rh, const Tensor& counts_e) {
  if (!group_) return std::make_unique<OwnRows>(rows_rh, counts_e);
  return std::make_unique<ExchangedRows>(*group_, expert_tensor_parallel_size_, rows_rh, counts_e);
}

}  // namespace hone::parallel
