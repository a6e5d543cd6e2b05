// Counts the links of a rank that send or receive now, and those through memory, so that each link
// knows what else its rank has to do.
#pragma once

#include <cstddef>

namespace r2ccl {

class BusyLinks {
 public:
  // One link's part of the counts, which must outlive it.
  class Part {
   public:
    // `in_memory`: its peer is on this host.
    Part(BusyLinks& all, bool in_memory) : all_(all), in_memory_(in_memory ? 1 : 0) {
      all_.in_memory_ += in_memory_;
    }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;
    ~Part() {
      set_sends(false);
      set_receives(false);
      all_.in_memory_ -= in_memory_;
    }
    // `sends`: the link has messages that are not acknowledged.
    void set_sends(bool sends) { count(sends, sends_, all_.sending_); }
    // `receives`: it has posted large receives that are not complete.
    void set_receives(bool receives) { count(receives, receives_, all_.receiving_); }
    bool receives() const { return receives_; }
    // Returns whether the rank has more to do than what this link sends.
    bool others_to_do() const { return all_.receiving_ > 0 || all_.sending_ > (sends_ ? 1 : 0); }
    // Returns whether this host has further ranks, beside this one and the peer.
    bool others_in_memory() const { return all_.in_memory_ > in_memory_; }

   private:
    static void count(bool now, bool& before, size_t& links) {
      if (now == before) return;
      before = now;
      now ? ++links : --links;
    }

    BusyLinks& all_;
    const size_t in_memory_;
    bool sends_ = false;
    bool receives_ = false;
  };

 private:
  size_t sending_ = 0;
  size_t receiving_ = 0;
  size_t in_memory_ = 0;
};

}  // namespace r2ccl
