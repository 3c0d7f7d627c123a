#include "hone/train/distributed/matrix_shards.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "hone/device/tensor_identity.h"
#include "hone/optim/optimizers/muon.h"

namespace hone::train {
namespace {

// Matrices whose optimizer state is sharded. Each is sent to one of the ranks that share it, and every rank computes another one
// meanwhile. With tensor parallelism what arrives is a shard, of which those ranks gather the full matrix.
class ShardedMatrices final : public optim::MatrixPieces {
 public:
  ShardedMatrices(const SessionModels& models, const std::vector<optim::ParameterGroup>& working) {
    std::unordered_map<const void*, std::string> names;
    for (const auto& group : working)
      for (size_t i = 0; i < group.parameters.size(); ++i) names[device::identity_of(group.parameters[i])] = group.names[i];
    for (const auto* loaded : models.trained())
      for (const auto& [name, parameter] : loaded->tuned.trainable)
        if (loaded->sharded->holds(parameter) && optim::is_hidden_matrix(name, parameter)) add(*loaded, parameter, names);
    // Matrices of one round are of similar size. The order is that of full sizes, which tensor parallel ranks have in common.
    for (auto& [group, matrices] : groups_)
      std::ranges::stable_sort(matrices, std::greater(), [](const Matrix& matrix) { return matrix.full_size; });
  }

  bool contains(const std::string& piece) const override { return pieces_.contains(piece); }

  void update(const Read& read, const Compute& compute, const Write& write) override {
    for (const auto& [group, all] : groups_) {
      std::vector<const Matrix*> trained;  // LISA freezes layers for some steps
      for (const auto& matrix : all)
        if (matrix.flat->requires_grad_now()) trained.push_back(&matrix);
      const auto size = static_cast<size_t>(group->size());
      for (size_t first = 0; first < trained.size(); first += size)
        run_round(*group,
                  {trained.begin() + static_cast<std::ptrdiff_t>(first),
                   trained.begin() + static_cast<std::ptrdiff_t>(std::min(first + size, trained.size()))},
                  read, compute, write);
    }
  }

 private:
  struct Matrix {
    parallel::FlatParameter* flat;
    size_t member;
    Tensor parameter;
    parallel::TensorParallelModel* tensor;  // null: the parameter is the full matrix
    int64_t full_size;
    std::string piece;  // the name of this process's; empty: it has none

    int64_t count(int rank) const {
      const auto [begin, end] = flat->elements_of(member, rank);
      return end - begin;
    }
  };
  using Round = std::vector<const Matrix*>;  // the matrix of each rank, fewer in the last round

  void add(const LoadedModel& loaded, const Tensor& parameter, const std::unordered_map<const void*, std::string>& names) {
    const auto [flat, member] = loaded.sharded->flat_of(parameter);
    const auto* shard = loaded.tensor ? loaded.tensor->shard_of(parameter) : nullptr;
    const auto& pieces = loaded.sharded->shards_of(parameter);
    Matrix matrix{.flat = flat,
                  .member = member,
                  .parameter = parameter,
                  .tensor = shard ? loaded.tensor.get() : nullptr,
                  .full_size = shard ? c10::multiply_integers(shard->full_shape) : parameter.numel(),
                  .piece = pieces.empty() ? "" : names.at(device::identity_of(pieces.front()->values))};
    if (!matrix.piece.empty()) pieces_.insert(matrix.piece);
    auto found = std::ranges::find(groups_, &flat->group(), &std::pair<parallel::ProcessGroup*, std::vector<Matrix>>::first);
    if (found == groups_.end()) found = groups_.insert(found, {&flat->group(), {}});
    found->second.push_back(std::move(matrix));
  }

  static Tensor full_update(const Matrix& matrix, const Tensor& here, const Compute& compute) {
    if (!matrix.tensor) return compute(here);
    const Tensor update = compute(matrix.tensor->gathered_values(matrix.parameter, here));
    return matrix.tensor->shard_of(matrix.parameter)->extract(update);
  }

  static void run_round(parallel::ProcessGroup& group, const Round& round, const Read& read, const Compute& compute,
                        const Write& write) {
    const auto ranks = static_cast<size_t>(group.size()), rank = static_cast<size_t>(group.rank());
    const auto* own = rank < round.size() ? round[rank] : nullptr;
    const auto options = at::TensorOptions(round.front()->parameter.device()).dtype(at::kFloat);
    parallel::ProcessGroup::RowCounts sent(ranks), received(ranks);
    for (size_t i = 0; i < round.size(); ++i) sent[i] = round[i]->count(group.rank());
    for (size_t i = 0; own && i < ranks; ++i) received[i] = own->count(static_cast<int>(i));
    auto here = at::empty({std::accumulate(sent.begin(), sent.end(), int64_t{0})}, options);
    auto pieces = here.split_with_sizes(sent);
    for (size_t i = 0; i < round.size(); ++i)
      if (sent[i] > 0) pieces[i].copy_(read(round[i]->piece));
    auto whole = at::empty({std::accumulate(received.begin(), received.end(), int64_t{0})}, options);
    group.all_to_all(whole, here, received, sent)->wait();
    if (own) whole = full_update(*own, whole.view(own->parameter.sizes()), compute).to(at::kFloat).reshape({-1}).contiguous();
    group.all_to_all(here, whole, sent, received)->wait();
    for (size_t i = 0; i < round.size(); ++i)
      if (sent[i] > 0) write(round[i]->piece, pieces[i]);
  }

  std::vector<std::pair<parallel::ProcessGroup*, std::vector<Matrix>>> groups_;  // by the ranks that share them
  std::unordered_set<std::string> pieces_;
};

}  // namespace

optim::MatrixShards matrix_shards(const SessionModels& models, const std::vector<optim::ParameterGroup>& working) {
  if (models.policy().sharded) return {.pieces = std::make_shared<ShardedMatrices>(models, working)};
  struct Matrix {
    parallel::TensorParallelModel* model;
    Tensor parameter;
  };
  auto matrices = std::make_shared<std::unordered_map<std::string, Matrix>>();
  for (const auto* loaded : models.trained())
    for (const auto& group : working)
      for (size_t i = 0; loaded->tensor && i < group.parameters.size(); ++i)
        if (loaded->tensor->shard_of(group.parameters[i]))
          matrices->insert({group.names[i], {loaded->tensor.get(), group.parameters[i]}});
  if (matrices->empty()) return {};
  return {.gather =
              [matrices](const std::string& name, const Tensor& shard) {
                const auto found = matrices->find(name);
                return found == matrices->end() ? shard : found->second.model->gathered_values(found->second.parameter, shard);
              },
          .shard =
              [matrices](const std::string& name, const Tensor& whole) {
                const auto found = matrices->find(name);
                return found == matrices->end() ? whole : found->second.model->shard_of(found->second.parameter)->extract(whole);
              }};
}

}  // namespace hone::train
