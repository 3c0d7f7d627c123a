// A decoder cut along its heads and the width of its MLPs, for inference: every slice computes on a thread, and where there are several
// on a device, of its own; what they compute of a block is summed.
#pragma once
#include "hone/model/decoder.h"
#include "hone/model/slice_team.h"

namespace hone::model {

class SlicedDecoder {
 public:
  // Throws UserError(usage), naming the numbers that fit, when heads or widths cannot be divided by so many.
  static void check(const DecoderConfig& config, size_t slices);

  // `whole` keeps the weights' names, and adapters are attached to it. A slice on each of `devices`.
  SlicedDecoder(const Decoder& whole, const std::vector<at::Device>& devices);

  std::vector<Decoder>& slices() { return slices_; }
  at::Device device() const { return slices_[0].embedding.weight.device(); }
  std::vector<at::Device> block_devices() const;  // slice by slice, as the blocks of the slices count the layers of a cache

  void follow(const Decoder& whole);  // adapters that came or went since
  // Hidden states after the final norm, on the first device. `pass_on` makes what the blocks of a device share.
  Tensor hidden(const Tensor& tokens_t, const ops::AdapterRows& rows, const std::function<std::shared_ptr<Pass>(at::Device)>& pass_on);
  Tensor logits(const Tensor& hidden_th, const LinearMode& mode);  // each slice has a part of the vocabulary

 private:
  // An adapter as it was when the slices took it. The tensor is held, so that no other can come to lie at its address.
  struct Followed {
    Tensor a;  // undefined: here a layer's list ends
    bool active;
    bool operator==(const Followed& other) const { return a.is_same(other.a) && active == other.active; }
  };
  static std::vector<Followed> adapters_of(const Decoder& whole);

  std::vector<Decoder> slices_;
  SliceTeam team_;
  std::mutex following_;            // replicas that share a model may come for the same change
  std::vector<Followed> followed_;  // which adapters the slices carry
};

}  // namespace hone::model
