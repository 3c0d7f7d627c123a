#include "hone/parallel/collectives/hccl_backend.h"

#include <dlfcn.h>

#include "hone/base/error.h"

namespace hone::parallel {
namespace {

using OptionsPointer = c10::intrusive_ptr<c10d::Backend::Options>;

constexpr const char* kOptions = "_ZN8c10d_npu16ProcessGroupHCCL7OptionsC1Eb";
constexpr const char* kBackend =
    "_ZN8c10d_npu16ProcessGroupHCCLC1ERKN3c1013intrusive_ptrIN4c10d5StoreENS1_6detail34intrusive_target_default_null_typeIS4_"
    "EEEEiiNS2_"
    "INS0_7OptionsENS6_ISB_EEEE";

template <class Function>
Function torch_npu_symbol(const char* name) {
  auto* found = ::dlsym(RTLD_DEFAULT, name);
  if (!found)
    throw UserError(ExitCode::usage, "this torch_npu has no HCCL backend that C++ can construct",
                    "install the torch_npu wheel of your torch");
  return reinterpret_cast<Function>(found);
}

// torch_npu is loaded, not linked, and its headers need CANN's. Its objects are therefore built by their exported constructors in
// memory larger than any release's object; their virtual functions are those of c10d.
template <class T>
c10::intrusive_ptr<T> built(const std::function<void(void*)>& construct) {
  constexpr size_t kRoom = 64 << 10;
  void* memory = ::operator new(kRoom);
  try {
    construct(memory);
  } catch (...) {
    ::operator delete(memory);
    throw;
  }
  return c10::intrusive_ptr<T>::unsafe_steal_from_new(static_cast<T*>(memory));
}

}  // namespace

bool has_hccl_backend() { return ::dlsym(RTLD_DEFAULT, kOptions) && ::dlsym(RTLD_DEFAULT, kBackend); }

CollectiveBackend hccl_backend(const GroupContext& context, const std::string& name, int rank, int size) {
  auto options =
      built<c10d::Backend::Options>([](void* memory) { torch_npu_symbol<void (*)(void*, bool)>(kOptions)(memory, false); });
  options->timeout = context.config.collective_timeout;
  auto backend = built<c10d::Backend>([&](void* memory) {
    torch_npu_symbol<void (*)(void*, const c10::intrusive_ptr<c10d::Store>&, int, int, OptionsPointer)>(kBackend)(
        memory, store_of(context, name), rank, size, options);
  });
  return {backend, SendRecvOrder::alternating};
}

}  // namespace hone::parallel
