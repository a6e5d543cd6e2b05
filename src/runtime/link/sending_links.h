// Counts the links of a rank that send now, and those through memory, so that each link knows
// whether there are others.
#pragma once

#include <cstddef>

namespace r2ccl {

class SendingLinks {
 public:
  // One link's part of the counts, which must outlive it.
  class Part {
   public:
    // `in_memory`: its peer is on this host.
    Part(SendingLinks& all, bool in_memory) : all_(all), in_memory_(in_memory ? 1 : 0) {
      all_.in_memory_ += in_memory_;
    }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;
    ~Part() {
      set(false);
      all_.in_memory_ -= in_memory_;
    }
    // `sends`: the link has messages that are not acknowledged.
    void set(bool sends) {
      if (sends == sends_) return;
      sends_ = sends;
      sends ? ++all_.sending_ : --all_.sending_;
    }
    // Returns whether another link sends.
    bool others_send() const { return all_.sending_ > (sends_ ? 1 : 0); }
    // Returns whether this host has further ranks, beside this one and the peer.
    bool others_in_memory() const { return all_.in_memory_ > in_memory_; }

   private:
    SendingLinks& all_;
    const size_t in_memory_;
    bool sends_ = false;
  };

 private:
  size_t sending_ = 0;
  size_t in_memory_ = 0;
};

}  // namespace r2ccl
