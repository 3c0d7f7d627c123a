// Admission control: counts all requests that the server holds, whether being read, prepared, generated or queued. I/O thread
// only.
#pragma once
#include "hone/serve/admin/metrics.h"
#include "hone/serve/engine_loop.h"

namespace hone::serve {

class Admission {
 public:
  Admission(const EngineLoop& loop, Metrics& metrics) : loop_(loop), metrics_(metrics) {}
  Admission(const Admission&) = delete;

  // A request's slot until its sequences are in the engine or it is answered. Released with the value.
  class Permit {
   public:
    Permit(Permit&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)), tokens_(std::exchange(other.tokens_, 0)) {}
    ~Permit() { leave(); }
    // Tokens that the engine computes besides generation. Throws ApiError(429) if there are too many now, 400 if there always
    // would be.
    void hold_tokens(size_t tokens);
    void leave();

   private:
    friend class Admission;
    explicit Permit(Admission& owner) : owner_(&owner) {}
    Admission* owner_;
    size_t tokens_ = 0;
  };

  // Throws ApiError(429) if the server is full.
  [[nodiscard]] Permit acquire();
  // Throws ApiError(400) naming the limit if they would not fit an empty server: retrying would not help.
  void check_fits(const EngineLoop::Load& load) const;
  size_t permits() const { return permits_; }
  [[noreturn]] void refuse() const;

 private:
  const EngineLoop& loop_;
  Metrics& metrics_;
  size_t permits_ = 0, tokens_ = 0;
};

}  // namespace hone::serve
