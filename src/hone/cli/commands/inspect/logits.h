// `hone logits`: a model's logits, loss and gradients written to a file. For comparing with other implementations; hidden from
// help.
#pragma once
#include <string>
#include <vector>

namespace hone::cli {

struct LogitsOptions {
  std::string model;                  // folder
  std::vector<std::string> adapters;  // PEFT folders, all active
  std::string new_adapter;            // an adapter_config.json: starts such an adapter …
  std::string save_adapter;           // … and writes it here
  std::string input;   // {"sequences": [[ids, …], …], "labels": optional, the same shape, -100 where there is none}
  std::string output;  // safetensors: logits [T, vocabulary], loss (sum), correct, count, "grad.<parameter>"
  std::string dtype;   // float32, bfloat16, float16; empty: the checkpoint's
  std::string device = "cpu";
  double router_balance = 0;  // the experts' balance times this is added to the loss
  bool grads = false;         // of every parameter, through the fused loss
  bool recompute = false;     // activation checkpointing
  bool cached = false;        // token by token through the cache
};

int logits_command(const LogitsOptions& options);

}  // namespace hone::cli
