// Injects the faults of a scenario and records when each NIC had which trouble. Several faults may
// affect one NIC at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/cluster/cluster.h"
#include "sim/cluster/scenario.h"
#include "sim/fabric/random.h"

namespace r2ccl::sim {

class FaultScript {
 public:
  // The script calls `note` with a text about each fault, and `ends_job` before a fault that ends
  // the job.
  FaultScript(Cluster& cluster, const Scenario& scenario,
              std::function<void(const std::string&)> note, std::function<void()> ends_job = {});

  // Schedules every fault, with times counted from now.
  void start();
  // Returns whether every fault has begun and, except kills, ended.
  bool over() const { return over_ == faults_.size(); }
  // Returns the end of the last fault. Requires over().
  TimeNs ended_at() const { return ended_at_; }
  // The times when a fault began and ended; kNever: the fault did not.
  struct Span {
    FaultSpec spec;
    TimeNs from = kNever;
    TimeNs to = kNever;
  };
  std::vector<Span> spans() const;
  // Kills a rank beyond the script.
  void kill(int rank);
  // Returns whether a fault killed the rank.
  bool killed(int rank) const { return killed_[static_cast<size_t>(rank)]; }
  // Returns whether the rank's caller has aborted.
  bool aborted(int rank) const { return aborted_[static_cast<size_t>(rank)]; }
  bool any_aborted() const;
  // Returns the number of operator questions that living ranks have not answered yet.
  size_t unanswered() const;
  // Returns whether that NIC had trouble at any time from `from` to `to`, or shortly before.
  bool troubled(int host, int nic, TimeNs from, TimeNs to) const;
  // Returns whether a verdict may name that NIC. Changed bytes and actions of people do not count
  // as its trouble.
  bool may_be_named(int host, int nic, TimeNs from, TimeNs to) const;
  // Returns how many faults until then changed a frame between these NICs, or repeated one. A name
  // without a NIC stands for all NICs of the host.
  size_t changed_frames(const NicName& one, const NicName& other, TimeNs until) const;
  // Returns whether that NIC has dropped full-size frames for `for_so_long` before `at`.
  bool swallows_full_frames(int host, int nic, TimeNs at, TimeNs for_so_long) const;

 private:
  // A fault and its state.
  struct Active {
    FaultSpec spec;
    TimeNs began_at = kNever;
    TimeNs ended_at = kNever;
    bool in_force = false;  // a flap turns this on and off
  };
  struct Trouble {
    size_t fault;
    int host;
    int nic;
    TimeNs from;
    TimeNs to;  // kNever: the trouble goes on
  };

  // The question of an operator who waits at the rank for the answer.
  struct Question {
    int rank = 0;
    uint64_t number = 0;  // as in StatusSource::drain_status
    std::string line;     // a drain command; empty: asks for the job status
  };

  void abort(int rank);
  void ask(int rank, std::string line);
  void answer(int rank);
  void drain(const FaultSpec& spec, bool on);
  void wait_for_traffic(size_t index, TimeNs until);
  ProgressEngine* engine_of(int rank);
  bool carries_chunks(int host, int nic);
  void begin(size_t index);
  void end(size_t index);
  void apply(Active& fault, bool on);
  void flap(size_t index, uint64_t left);
  std::vector<FlowInfo> connections(const FaultSpec& spec);
  void add_other_end(const Active& fault, const FlowInfo& flow);
  void break_connection(const Active& fault);
  void tamper(const Active& fault);
  void lose_chunk(const Active& fault);
  const HeaderTag* tag_of(int rank, std::span<const std::byte, kDataHeaderBytes> header);
  void set_process(const FaultSpec& spec, bool on);
  bool may_move(int host);
  void readdress(const FaultSpec& spec);
  void refresh(int host);
  NicFaults combined(int host, int nic) const;
  NicFaults management_faults(int host) const;
  void refresh_severed();
  void open_trouble(size_t fault);
  void close_trouble(size_t fault);

  Cluster& cluster_;
  const int hosts_;
  const int nics_;
  const std::function<void(const std::string&)> note_;
  const std::function<void()> ends_job_;
  Random random_;
  Random wire_random_;
  std::vector<Active> faults_;
  std::vector<Trouble> troubles_;
  std::vector<bool> killed_;
  std::vector<bool> aborted_;
  std::vector<Question> questions_;  // open, oldest first
  uint64_t operators_ = 0;           // the number of questions so far
  std::vector<int> stopped_;         // the number of faults that hold each rank
  std::vector<bool> moved_;          // by host: one of its addresses has changed
  size_t over_ = 0;
  uint8_t next_address_ = 1;
  TimeNs ended_at_ = 0;
};

}  // namespace r2ccl::sim
