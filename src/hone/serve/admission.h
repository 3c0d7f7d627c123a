// Who is let in: one count of all that the server holds, whether it is read, prepared, generated or waits for a verdict. I/O
// thread only.
#pragma once
#include "hone/serve/admin/metrics.h"
#include "hone/serve/engine_loop.h"

namespace hone::serve {

class Admission {
 public:
  Admission(const EngineLoop& loop, Metrics& metrics) : loop_(loop), metrics_(metrics) {}
  Admission(const Admission&) = delete;

  // A request's place until its answers are the engine's business, or until it is answered. Given back with the value.
  class Permit {
   public:
    Permit(Permit&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)), tokens_(std::exchange(other.tokens_, 0)) {}
    ~Permit() { leave(); }
    // Tokens that the engine computes besides generating. Throws Problem(429) when they are too many, 400 when they
    // always will be.
    void hold_tokens(size_t tokens);
    void leave();

   private:
    friend class Admission;
    explicit Permit(Admission& house) : owner_(&house) {}
    Admission* owner_;
    size_t tokens_ = 0;
  };

  // Throws Problem(429) when there is no room for one more.
  [[nodiscard]] Permit acquire();
  // Throws Problem(400) naming the limit when they would not fit an empty server: to try again would not help.
  void check_fits(const EngineLoop::Load& load) const;
  size_t places() const { return places_; }
  [[noreturn]] void refuse() const;

 private:
  const EngineLoop& loop_;
  Metrics& metrics_;
  size_t places_ = 0, tokens_ = 0;
};

}  // namespace hone::serve
