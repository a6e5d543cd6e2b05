// The links that send, by the time at which each ends its message: a heap of four children a node
// that also finds a given link. Links that end at the same time come in the order of their numbers,
// so that a run is the same each time.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"

namespace r2ccl::sim {

class LinkHeap {
 public:
  explicit LinkHeap(size_t links) : times_(links), places_(links, kAbsent) {}

  bool empty() const { return heap_.empty(); }
  // Requires that it is not empty.
  uint32_t first() const { return heap_.front(); }
  double first_time() const { return times_[heap_.front()]; }

  // Adds the link, or moves it.
  void set(uint32_t link, double time) {
    if (places_[link] == kAbsent) {
      places_[link] = static_cast<uint32_t>(heap_.size());
      heap_.push_back(link);
      times_[link] = time;
      rise(places_[link]);
      return;
    }
    const double before = std::exchange(times_[link], time);
    if (time < before) {
      rise(places_[link]);
    } else {
      sink(places_[link]);
    }
  }

  // Does nothing when the link is not there.
  void remove(uint32_t link) {
    const uint32_t place = places_[link];
    if (place == kAbsent) return;
    places_[link] = kAbsent;
    const uint32_t last = heap_.back();
    heap_.pop_back();
    if (last == link) return;
    put(place, last);
    rise(place);
    sink(places_[last]);
  }

 private:
  static constexpr uint32_t kAbsent = UINT32_MAX;

  bool before(uint32_t a, uint32_t b) const {
    return times_[a] != times_[b] ? times_[a] < times_[b] : a < b;
  }
  void put(uint32_t place, uint32_t link) {
    heap_[place] = link;
    places_[link] = place;
  }
  void rise(uint32_t place) {
    const uint32_t link = heap_[place];
    while (place > 0 && before(link, heap_[(place - 1) / 4])) {
      put(place, heap_[(place - 1) / 4]);
      place = (place - 1) / 4;
    }
    put(place, link);
  }
  void sink(uint32_t place) {
    const uint32_t link = heap_[place];
    for (;;) {
      const uint64_t first_child = uint64_t{place} * 4 + 1;
      uint32_t least = link;
      for (uint64_t child = first_child; child < first_child + 4 && child < heap_.size(); ++child) {
        if (before(heap_[child], least)) least = heap_[child];
      }
      if (least == link) break;
      const uint32_t freed = places_[least];
      put(place, least);
      place = freed;
    }
    put(place, link);
  }

  std::vector<double> times_;
  std::vector<uint32_t> places_;
  std::vector<uint32_t> heap_;
};

}  // namespace r2ccl::sim
