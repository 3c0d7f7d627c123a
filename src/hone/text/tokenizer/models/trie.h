// A static trie over bytes that finds every word that is a prefix of a text.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace hone::text::tokenizer {

// Nodes are numbered breadth-first, so that edge e leads to node e + 1.
class Trie {
 public:
  Trie() : Trie(std::vector<std::pair<std::string_view, int32_t>>{}) {}
  // Words are not empty; of equal words the one with the highest value is kept.
  explicit Trie(std::vector<std::pair<std::string_view, int32_t>> words) {
    std::sort(words.begin(), words.end());
    struct Range {
      size_t begin, end, depth;
    };
    std::vector<Range> queue{{0, words.size(), 0}};
    for (size_t node = 0; node < queue.size(); ++node) {
      auto [begin, end, depth] = queue[node];
      int32_t value = -1;
      for (; begin < end && words[begin].first.size() == depth; ++begin) value = words[begin].second;
      nodes_.push_back({static_cast<uint32_t>(edges_.size()), 0, value});
      while (begin < end) {
        char label = words[begin].first[depth];
        size_t next = begin;
        while (next < end && words[next].first[depth] == label) ++next;
        edges_.push_back(static_cast<unsigned char>(label));
        queue.push_back({begin, next, depth + 1});
        begin = next;
      }
      nodes_.back().edge_end = static_cast<uint32_t>(edges_.size());
    }
  }

  // Calls found(length, value) for every word that is a prefix of `text`, shortest first.
  template <class Found>
  void prefixes(std::string_view text, Found&& found) const {
    size_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      auto* first = edges_.data() + nodes_[node].edge_begin;
      auto* last = edges_.data() + nodes_[node].edge_end;
      auto* edge = std::lower_bound(first, last, static_cast<unsigned char>(text[i]));
      if (edge == last || *edge != static_cast<unsigned char>(text[i])) return;
      node = static_cast<size_t>(edge - edges_.data()) + 1;
      if (nodes_[node].value >= 0) found(i + 1, nodes_[node].value);
    }
  }

 private:
  struct Node {
    uint32_t edge_begin, edge_end;
    int32_t value;
  };
  std::vector<Node> nodes_;
  std::vector<unsigned char> edges_;
};

}  // namespace hone::text::tokenizer
