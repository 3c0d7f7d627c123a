// llama.cpp's share of decoding that reads weights, by its library ggml: every product of one token, with the weights laid out as
// llama.cpp does it on this processor. What it leaves out (attention, norms, sampling) makes llama.cpp look faster than it is.
//   ggml_products TYPE THREADS TOKENS LAYERS OUTxIN,OUTxIN,... HEAD_OUTxIN    ->   tokens a second
// bench/host.py --ggml builds and runs it; the project itself does not.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

namespace {

struct Shape {
  int64_t out, in;
};

std::vector<Shape> shapes_of(const char* text) {
  std::vector<Shape> shapes;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');)
    shapes.push_back({std::atoll(word.c_str()), std::atoll(word.c_str() + word.find('x') + 1)});
  return shapes;
}

ggml_type type_of(const std::string& name) {
  return name == "q4_0" ? GGML_TYPE_Q4_0 : name == "q8_0" ? GGML_TYPE_Q8_0 : GGML_TYPE_F16;
}

// The layout that llama.cpp prefers, where it has one for these weights: a row of random numbers, over and over.
class Weights {
 public:
  explicit Weights(ggml_backend_t cpu) : plain_(ggml_backend_get_default_buffer_type(cpu)), repacked_(nullptr) {
    auto* registry = ggml_backend_dev_backend_reg(ggml_backend_get_device(cpu));
    auto ask = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(
        ggml_backend_reg_get_proc_address(registry, "ggml_backend_dev_get_extra_bufts"));
    for (auto* kinds = ask ? ask(ggml_backend_get_device(cpu)) : nullptr; kinds && *kinds; ++kinds)
      if (std::string(ggml_backend_buft_name(*kinds)) == "CPU_REPACK") repacked_ = *kinds;
  }

  ggml_tensor* make(ggml_type type, Shape shape) {
    if (repacked_ && type != GGML_TYPE_F16)
      if (auto* weight = make_in(repacked_, type, shape); weight->extra) return filled(weight, shape);
    return filled(make_in(plain_, type, shape), shape);
  }

 private:
  static ggml_tensor* make_in(ggml_backend_buffer_type_t kind, ggml_type type, Shape shape) {
    auto* context = ggml_init({ggml_tensor_overhead() * 2, nullptr, true});
    auto* weight = ggml_new_tensor_2d(context, type, shape.in, shape.out);
    ggml_backend_buffer_set_usage(ggml_backend_alloc_ctx_tensors_from_buft(context, kind), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    return weight;
  }
  static ggml_tensor* filled(ggml_tensor* weight, Shape shape) {
    std::vector<float> numbers(static_cast<size_t>(shape.in));
    for (auto& number : numbers) number = static_cast<float>(std::rand() % 2001 - 1000) * 2e-5f;
    const size_t row = ggml_row_size(weight->type, shape.in);
    std::vector<char> bytes(row * static_cast<size_t>(shape.out));
    ggml_quantize_chunk(weight->type, numbers.data(), bytes.data(), 0, 1, shape.in, nullptr);
    for (int64_t i = 1; i < shape.out; ++i) std::memcpy(bytes.data() + static_cast<size_t>(i) * row, bytes.data(), row);
    ggml_backend_tensor_set(weight, bytes.data(), 0, bytes.size());
    return weight;
  }

  ggml_backend_buffer_type_t plain_, repacked_;
};

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) return std::fprintf(stderr, "usage: %s TYPE THREADS TOKENS LAYERS SHAPES HEAD\n", argv[0]), 2;
  const auto type = type_of(argv[1]);
  const int tokens = std::atoi(argv[3]);
  std::vector<Shape> all;
  for (int layer = 0; layer < std::atoi(argv[4]); ++layer)
    for (const auto& shape : shapes_of(argv[5])) all.push_back(shape);
  all.push_back(shapes_of(argv[6]).front());

  auto* cpu = ggml_backend_cpu_init();
  ggml_backend_cpu_set_n_threads(cpu, std::atoi(argv[2]));
  Weights weights(cpu);
  auto* context =
      ggml_init({ggml_tensor_overhead() * (2 * all.size() + 64) + ggml_graph_overhead_custom(4096, false), nullptr, true});
  auto* graph = ggml_new_graph_custom(context, 4096, false);
  std::map<int64_t, ggml_tensor*> inputs;
  for (const auto& shape : all)
    if (auto& input = inputs[shape.in]; !input) input = ggml_new_tensor_2d(context, GGML_TYPE_F32, shape.in, 1);
  for (const auto& shape : all)
    ggml_build_forward_expand(graph, ggml_mul_mat(context, weights.make(type, shape), inputs[shape.in]));
  ggml_backend_alloc_ctx_tensors(context, cpu);
  for (auto& [width, input] : inputs) {
    const std::vector<float> ones(static_cast<size_t>(width), 0.5f);
    ggml_backend_tensor_set(input, ones.data(), 0, ones.size() * sizeof(float));
  }
  for (int i = 0; i < 2; ++i) ggml_backend_graph_compute(cpu, graph);
  const double begin = seconds();
  for (int i = 0; i < tokens; ++i) ggml_backend_graph_compute(cpu, graph);
  std::printf("%.3f\n", tokens / (seconds() - begin));
  return 0;
}
