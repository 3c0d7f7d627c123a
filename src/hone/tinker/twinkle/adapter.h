// Twinkle's state of an adapter in addition to its weights: loss, optimizer, schedule, and progress between two steps.
#pragma once
#include <string>

#include "hone/base/json.h"

namespace hone::tinker {

struct TwinkleAdapter {
  Json loss = {{"name", "CrossEntropyLoss"}};  // and its settings
  Json optimizer;                              // null until it is set: lr, beta1, beta2, eps, weight_decay
  Json schedule;                               // null: the rate stays; name and settings
  int64_t accumulation = 1;                    // calls of backward to a step
  int64_t backwards = 0, rate_steps = 0;       // since the adapter was made
  int64_t calls = 0;                           // of backward since gradients were last cleared
  double units = 0;                            // what clip_grad_norm divides gradients by: labels, or 1 for a mean
  double scale = 1, max_norm = 0;              // for the next step, as clip_grad_norm left them
  double grad_norm = 0, loss_sum = 0;          // for calculate_metric
  int64_t loss_calls = 0;
  Json pairs;         // of DPO, for calculate_metric: sums over pairs, and their number
  Json similarities;  // of InfonceLoss, for calculate_metric: sums over anchors and over anchors with others' positives

  Json to_json() const;
  static TwinkleAdapter from_json(const Json& json);

  bool is_step() const;  // Twinkle's rule: whether step, clip_grad_norm, zero_grad and lr_step mean anything now
  double learning_rate() const;
  // `metrics` of a forward_backward: means over this many pairs, or none of them.
  void add_pairs(const Json& metrics, double count);
  Json take_pairs();  // as Twinkle's DPOMetric writes them
  void add_similarities(const Json& metrics);
  Json take_similarities();  // as Twinkle's EmbeddingMetric writes them
};

// All throw RequestError for what this server lacks, listing what it has.
void set_loss(TwinkleAdapter& adapter, const Json& body);
void set_optimizer(TwinkleAdapter& adapter, const Json& body);
void set_schedule(TwinkleAdapter& adapter, const Json& body);

}  // namespace hone::tinker
