// Makes the faults of a scenario happen, several on one NIC at a time too, and knows afterwards
// which trouble each NIC had when.
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
  // `note`: told in words what happens. `ends_job`: called before a fault that ends the job.
  FaultScript(Cluster& cluster, const Scenario& scenario,
              std::function<void(const std::string&)> note, std::function<void()> ends_job = {});

  // Schedules everything, from now on.
  void start();
  // Every fault has begun and, but for kills, ended.
  bool over() const { return over_ == faults_.size(); }
  // Legal once over().
  TimeNs ended_at() const { return ended_at_; }
  // When a fault began and ended; kNever: it did not.
  struct Span {
    FaultSpec spec;
    TimeNs from = kNever;
    TimeNs to = kNever;
  };
  std::vector<Span> spans() const;
  // The rank was killed.
  bool killed(int rank) const { return killed_[static_cast<size_t>(rank)]; }
  // The rank's caller has aborted.
  bool aborted(int rank) const { return aborted_[static_cast<size_t>(rank)]; }
  bool any_aborted() const;
  // Questions of operators that living ranks have not answered yet.
  size_t unanswered() const;
  // Something was wrong with that NIC at `at`, or shortly before.
  bool troubled(int host, int nic, TimeNs at) const { return troubled(host, nic, at, at); }
  // The same at any time from `from` to `to`.
  bool troubled(int host, int nic, TimeNs from, TimeNs to) const;
  // A verdict may name it: more was wrong than that bytes were changed on the way.
  bool may_be_named(int host, int nic, TimeNs from, TimeNs to) const;
  // Full-size frames have not passed that NIC for so long before `at`.
  bool swallows_full_frames(int host, int nic, TimeNs at, TimeNs for_so_long) const;

 private:
  // A fault under way.
  struct Active {
    FaultSpec spec;
    TimeNs began_at = kNever;
    TimeNs ended_at = kNever;
    bool in_force = false;  // a flap is, now and then
  };
  struct Trouble {
    size_t fault;
    int host;
    int nic;
    TimeNs from;
    TimeNs to;  // kNever: it goes on
  };

  // An operator waits at the rank.
  struct Question {
    int rank = 0;
    uint64_t number = 0;  // as StatusSource::drain_status
    std::string line;     // of a drain; empty: the status of the job
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
  Random dice_;
  Random wire_dice_;
  std::vector<Active> faults_;
  std::vector<Trouble> troubles_;
  std::vector<bool> killed_;
  std::vector<bool> aborted_;
  std::vector<Question> questions_;  // open, oldest first
  uint64_t operators_ = 0;           // so far
  std::vector<int> stopped_;         // by rank: so many faults hold it
  std::vector<bool> moved_;          // by host: an address of it is another one
  size_t over_ = 0;
  uint8_t next_address_ = 1;
  TimeNs ended_at_ = 0;
};

}  // namespace r2ccl::sim
