// Sources of conversations: a finite set with random access, or a stream. Only an index is held in memory.
#pragma once
#include <memory>
#include <optional>

#include "hone/data/conversation.h"

namespace hone::data {

class ConversationSource {
 public:
  virtual ~ConversationSource() = default;
  virtual int64_t size() const = 0;
  // Thread-safe. An invalid row is an Error "file:line: what was found; what was expected".
  virtual Result<Conversation> at(int64_t index) const = 0;
};

// Read once from start to end, for files too large or endless. `position` is exact after any call and small.
class ConversationStream {
 public:
  virtual ~ConversationStream() = default;
  virtual std::optional<Result<Conversation>> next() = 0;  // nullopt at the end of one pass
  virtual Json position() const = 0;
  virtual void seek(const Json& position) = 0;
};

}  // namespace hone::data
