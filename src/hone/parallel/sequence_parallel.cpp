#include "hone/parallel/sequence_parallel.h"

#include <algorithm>
#include <numeric>

#include "hone/base/error.h"
#include "hone/device/autograd.h"
#include "hone/parallel/ring_attention.h"

namespace hone::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// All-to-all from [t, parts * c], local positions and all heads, to [parts * t, c], all positions and local heads.
Tensor heads_apart(const Tensor& x, ProcessGroup& group) {
  auto sent = x.view({x.size(0), group.size(), -1}).transpose(0, 1).contiguous();
  auto received = at::empty_like(sent);
  group.all_to_all(received, sent)->wait();
  return received.view({x.size(0) * group.size(), -1});
}

Tensor heads_together(const Tensor& x, ProcessGroup& group) {
  auto sent = x.contiguous(), received = at::empty_like(sent);
  group.all_to_all(received, sent)->wait();
  int64_t own = x.size(0) / group.size();
  return received.view({group.size(), own, -1}).transpose(0, 1).reshape({own, -1});
}

struct GroupHolder : torch::CustomClassHolder {
  explicit GroupHolder(ProcessGroup& group) : group(group) {}
  ProcessGroup& group;
};

// Either exchange is the other's gradient.
class HeadExchange : public torch::autograd::Function<HeadExchange> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const c10::intrusive_ptr<GroupHolder>& holder, bool apart) {
    ctx->saved_data["group"] = c10::IValue::make_capsule(holder);
    ctx->saved_data["apart"] = apart;
    return apart ? heads_apart(x, holder->group) : heads_together(x, holder->group);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    auto& group = c10::static_intrusive_pointer_cast<GroupHolder>(ctx->saved_data["group"].toCapsule())->group;
    return {ctx->saved_data["apart"].toBool() ? heads_together(grads[0], group) : heads_apart(grads[0], group), Tensor(),
            Tensor()};
  }
};

Tensor exchange(const Tensor& x, ProcessGroup& group, bool apart) {
  return group.size() == 1 ? x : HeadExchange::apply(x, c10::make_intrusive<GroupHolder>(group), apart);
}

// If there are fewer key heads than ranks, each is repeated in place.
Tensor repeated(const Tensor& x, int64_t heads, int64_t times) {
  return times == 1 ? x : x.view({x.size(0), heads, -1}).repeat_interleave(times, 1).view({x.size(0), -1});
}

}  // namespace

SequenceParallel::SequenceParallel(ProcessGroup& world, const std::vector<int>& members, int64_t heads, bool gathers)
    : gathers_(gathers) {
  auto count = static_cast<int>(members.size());
  int sharing = static_cast<int>(std::gcd<int64_t, int64_t>(heads, count));
  rank_ = static_cast<int>(std::find(members.begin(), members.end(), world.rank()) - members.begin());
  std::vector<int> same_ring, same_heads;
  for (int i = 0; i < count; ++i) {
    if (i / sharing == rank_ / sharing) same_ring.push_back(members[static_cast<size_t>(i)]);
    if (i % sharing == rank_ % sharing) same_heads.push_back(members[static_cast<size_t>(i)]);
  }
  heads_ = world.subgroup(fmt::format("heads-{}", same_ring.front()), same_ring);
  ring_ = world.subgroup(fmt::format("ring-{}", same_heads.front()), same_heads);
}

std::string SequenceParallel::str() const {
  return fmt::format("each sequence on {} processes: heads over {}, {} of {}", size(), heads_->size(),
                     gathers_ ? "keys and values gathered" : "a ring", ring_->size());
}

void SequenceParallel::all_reduce(Tensor& values) const {
  heads_->all_reduce(values)->wait();
  ring_->all_reduce(values)->wait();
}

// A ring's ranks have two chunks each.
int64_t SequenceParallel::padding_multiple() const { return heads_->size() * ring_->size() * (ring_->size() > 1 ? 2 : 1); }

Tensor SequenceParallel::ring_positions(int64_t padded) const {
  if (ring_->size() == 1) return at::arange(padded, at::kLong);
  const auto [front, back] = ring_chunks(padded, ring_->size(), ring_->rank());
  return at::cat({at::arange(front.begin, front.end, at::kLong), at::arange(back.begin, back.end, at::kLong)});
}

Tensor SequenceParallel::positions(int64_t padded) const {
  HONE_CHECK(padded % padding_multiple() == 0, "{} positions over {}", padded, padding_multiple());
  return ring_positions(padded).chunk(heads_->size())[static_cast<size_t>(heads_->rank())];
}

Tensor SequenceParallel::attend(const Tensor& q, const Tensor& k, const Tensor& v, const ops::AttentionMetadata& metadata,
                                const ops::AttentionShape& shape) {
  int64_t sharing = heads_->size(), times = sharing / std::gcd(shape.kv_heads, sharing);
  auto own_q = exchange(q, *heads_, true);
  auto own_k = exchange(repeated(k, shape.kv_heads, times), *heads_, true),
       own_v = exchange(repeated(v, shape.kv_heads, times), *heads_, true);
  auto own_shape = shape;
  own_shape.heads = shape.heads / sharing;
  own_shape.kv_heads = shape.kv_heads * times / sharing;
  auto attended = ring_->size() == 1 ? ops::attention(own_q, own_k, own_v, metadata, own_shape)
                                     : ring_attention(own_q, own_k, own_v, {*ring_, metadata.segments, gathers_}, own_shape);
  return exchange(attended, *heads_, false);
}

}  // namespace hone::parallel
