// How an operator is written. ACLNN(Add, [](Tensor self, Tensor other, Scalar alpha, Tensor out) { store(out, at::add(self,
// other, alpha)); }) exports the two C functions aclnnAddGetWorkspaceSize and aclnnAdd. The first takes what the lambda's
// parameters say, in their C form (a Tensor is an aclTensor*, Ints an aclIntArray* …), wraps it and keeps it; the second runs the
// lambda.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "cann_emulator/ops/objects.h"

namespace cann {

using at::Tensor;
using c10::Scalar;
using Tensors = std::vector<Tensor>;
using Scalars = std::vector<Scalar>;
using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;
using Bools = std::vector<bool>;
using OptionalInts = std::optional<Ints>;
using OptionalScalar = std::optional<Scalar>;
struct DataType {  // an aclDataType passed by value
  c10::ScalarType type;
};
struct DynamicOutput {  // an output whose shape the operator finds out
  aclTensor* object;
  void store(const Tensor& value) const;
};

// How a kernel's parameter crosses the C border: its C type, and how that is kept until the second phase.
template <class T>
struct CArgument {
  using C = T;
  static T from_c(C value) { return value; }
};
template <>
struct CArgument<Tensor> {
  using C = const aclTensor*;
  static Tensor from_c(C value) { return view(value); }
};
template <>
struct CArgument<Scalar> {
  using C = const aclScalar*;
  static Scalar from_c(C value) {
    if (!value) throw BadParameter(kParameterNull, "a scalar is null");
    return value->value;
  }
};
template <>
struct CArgument<OptionalScalar> {
  using C = const aclScalar*;
  static OptionalScalar from_c(C value) { return value ? OptionalScalar(value->value) : std::nullopt; }
};
template <>
struct CArgument<Ints> {
  using C = const aclIntArray*;
  static Ints from_c(C value) { return value ? value->values : Ints(); }
};
template <>
struct CArgument<OptionalInts> {
  using C = const aclIntArray*;
  static OptionalInts from_c(C value) { return value ? OptionalInts(value->values) : std::nullopt; }
};
template <>
struct CArgument<Floats> {
  using C = const aclFloatArray*;
  static Floats from_c(C value) { return value ? value->values : Floats(); }
};
template <>
struct CArgument<Bools> {
  using C = const aclBoolArray*;
  static Bools from_c(C value) { return value ? value->values : Bools(); }
};
template <>
struct CArgument<Tensors> {
  using C = const aclTensorList*;
  static Tensors from_c(C value) {
    Tensors out;
    if (value)
      for (const auto* tensor : value->values) out.push_back(view(tensor));
    return out;
  }
};
template <>
struct CArgument<Scalars> {
  using C = const aclScalarList*;
  static Scalars from_c(C value) {
    Scalars out;
    if (value)
      for (const auto* scalar : value->values) out.push_back(scalar->value);
    return out;
  }
};
template <>
struct CArgument<std::string> {
  using C = const char*;
  static std::string from_c(C value) { return value ? value : ""; }
};
template <>
struct CArgument<DataType> {
  using C = int;
  static DataType from_c(C value) { return {scalar_type(value)}; }
};
template <>
struct CArgument<DynamicOutput> {
  using C = aclTensor*;
  static DynamicOutput from_c(C value) { return {value}; }
};

// Writes a result into the tensor the caller gave; their shapes must agree.
void store(Tensor out, const Tensor& value);

}  // namespace cann

struct aclOpExecutor {
  const char* name;
  std::function<void()> run;
};

namespace cann {

Status prepared(const char* name, uint64_t* workspace, aclOpExecutor** executor,
                const std::function<std::function<void()>()>& keep);
Status launch(aclOpExecutor* executor, void* stream);

template <class Op, class Call = decltype(&Op::Kernel::operator())>
struct FirstPhase;
template <class Op, class Kernel, class... A>
struct FirstPhase<Op, void (Kernel::*)(A...) const> {
  static Status call(typename CArgument<A>::C... values, uint64_t* workspace, aclOpExecutor** executor) {
    return prepared(Op::kName, workspace, executor, [&]() -> std::function<void()> {
      return [kept = std::tuple<A...>(CArgument<A>::from_c(values)...)] { std::apply(Kernel{}, kept); };
    });
  }
};

}  // namespace cann

// The first function's C signature is that of FirstPhase::call, which only the lambda knows: the symbol is bound to it when it is
// looked up.
#define ACLNN(NAME, ...)                                                                                           \
  namespace {                                                                                                      \
  constexpr auto kernel_##NAME = __VA_ARGS__;                                                                      \
  struct Op##NAME {                                                                                                \
    using Kernel = std::remove_const_t<decltype(kernel_##NAME)>;                                                   \
    static constexpr const char* kName = "aclnn" #NAME;                                                            \
  };                                                                                                               \
  }                                                                                                                \
  extern "C" {                                                                                                     \
  [[gnu::used]] static auto first_phase_of_##NAME() -> void (*)() {                                                \
    return reinterpret_cast<void (*)()>(&::cann::FirstPhase<Op##NAME>::call);                                      \
  }                                                                                                                \
  __attribute__((visibility("default"), ifunc("first_phase_of_" #NAME))) void aclnn##NAME##GetWorkspaceSize();     \
  __attribute__((visibility("default"))) int aclnn##NAME(void*, uint64_t, aclOpExecutor* executor, void* stream) { \
    return ::cann::launch(executor, stream);                                                                       \
  }                                                                                                                \
  }
