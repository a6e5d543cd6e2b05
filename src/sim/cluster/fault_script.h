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
  // `note`: told in words what happens.
  FaultScript(Cluster& cluster, const Scenario& scenario,
              std::function<void(const std::string&)> note);

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

  void wait_for_traffic(size_t index, TimeNs until);
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
  Random dice_;
  Random wire_dice_;
  std::vector<Active> faults_;
  std::vector<Trouble> troubles_;
  std::vector<bool> killed_;
  std::vector<int> stopped_;  // by rank: so many faults hold it
  std::vector<bool> moved_;   // by host: an address of it is another one
  size_t over_ = 0;
  uint8_t next_address_ = 1;
  TimeNs ended_at_ = 0;
};

}  // namespace r2ccl::sim
