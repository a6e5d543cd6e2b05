#include "plan/hosts/rail_division.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "plan/hosts/nic_loads.h"

namespace r2ccl {
namespace {

// Large moves come near the best division soon, and small ones refine it: each size is a part of
// the one before. Flows may move to and fro, so the passes of a size are bounded.
constexpr uint64_t kLargestMove = RailDivision::kParts / 16;
constexpr uint64_t kMovePart = 4;
constexpr int kPassesMax = 16;  // of one size

class Divider {
 public:
  Divider(const std::vector<HostRates>& hosts, const std::vector<RailFlow>& flows)
      : hosts_(hosts.size()),
        rails_(rails_of(hosts)),
        fastest_(fastest_of(hosts)),
        flows_(flows),
        send_(hosts, &NicRate::send, rails_, fastest_),
        receive_(hosts, &NicRate::receive, rails_, fastest_),
        parts_(flows.size() * rails_) {}

  RailDivision divide(uint64_t whole) {
    RailDivision division;
    for (size_t flow = 0; flow < flows_.size(); ++flow) {
      if (!begin(flow)) return division;
    }
    division.load = division.load_of_proportions = load(whole);
    division.parts = parts_;
    for (uint64_t parts = kLargestMove; parts > 0; parts /= kMovePart) {
      for (int pass = 0; pass < kPassesMax && move_all(parts); ++pass) {
      }
    }
    // Cheap moves may make the busiest NIC busier.
    const uint64_t moved = load(whole);
    if (moved >= division.load) return division;
    division.load = moved;
    division.parts = std::move(parts_);
    return division;
  }

 private:
  struct Way {
    size_t from;  // NICs
    size_t to;
  };
  Way way(size_t flow, size_t rail) const {
    return {flows_[flow].from * rails_ + rail, flows_[flow].to * rails_ + rail};
  }

  // Takes all rails in proportion. Returns false where there is none.
  bool begin(size_t flow) {
    std::vector<uint64_t> shared;
    for (size_t rail = 0; rail < rails_; ++rail) {
      const auto [from, to] = way(flow, rail);
      shared.push_back(std::min(send_.rates[from], receive_.rates[to]));
    }
    const uint64_t sum = std::accumulate(shared.begin(), shared.end(), uint64_t{0});
    if (sum == 0) return false;
    uint64_t before = 0;
    uint64_t taken = 0;
    for (size_t rail = 0; rail < rails_; ++rail) {
      before += shared[rail];
      const uint64_t parts = before * RailDivision::kParts / sum - taken;
      taken += parts;
      if (parts > 0) add(flow, rail, static_cast<int64_t>(parts));
    }
    return true;
  }

  void add(size_t flow, size_t rail, int64_t parts) {
    const int64_t left = parts_[flow * rails_ + rail] + parts;
    R2CCL_CHECK(left >= 0 && left <= int64_t{RailDivision::kParts});
    const auto [from, to] = way(flow, rail);
    const int64_t share = static_cast<int64_t>(flows_[flow].share) * parts;
    send_.loads[from] += static_cast<uint64_t>(share * static_cast<int64_t>(time(send_, from)));
    receive_.loads[to] += static_cast<uint64_t>(share * static_cast<int64_t>(time(receive_, to)));
    parts_[flow * rails_ + rail] = static_cast<uint16_t>(left);
  }

  // Returns the time of one unit.
  uint64_t time(const NicLoads& nics, size_t nic) const {
    R2CCL_CHECK(nics.rates[nic] > 0);
    return (fastest_ << NicLoads::kTimeBits) / nics.rates[nic];
  }

  // Returns whether any flow moved.
  bool move_all(uint64_t parts) {
    bool moves = false;
    NicPrices prices(1);
    for (size_t flow = 0; flow < flows_.size(); ++flow) {
      if (flow % hosts_ == 0) prices = NicPrices(std::max(send_.most(), receive_.most()));
      moves = move(flow, parts, prices) || moves;
    }
    return moves;
  }

  // Moves parts of the flow from its dearest rail to its cheapest one, if they are cheaper there.
  bool move(size_t flow, uint64_t parts, const NicPrices& prices) {
    size_t cheapest = 0;
    size_t dearest = 0;
    uint64_t least = UINT64_MAX;
    uint64_t most = 0;
    for (size_t rail = 0; rail < rails_; ++rail) {
      const auto [from, to] = way(flow, rail);
      if (send_.rates[from] == 0 || receive_.rates[to] == 0) continue;
      const uint64_t now = price(flow, rail, 0, prices);
      if (parts_[flow * rails_ + rail] >= parts && now > most) {
        most = now;
        dearest = rail;
      }
      const uint64_t then = price(flow, rail, parts, prices);
      if (then >= least) continue;
      least = then;
      cheapest = rail;
    }
    if (least >= most || cheapest == dearest) return false;
    add(flow, dearest, -static_cast<int64_t>(parts));
    add(flow, cheapest, static_cast<int64_t>(parts));
    return true;
  }

  // Returns the price of a unit of the flow on this rail, with so many parts more there.
  uint64_t price(size_t flow, size_t rail, uint64_t parts, const NicPrices& prices) const {
    const auto [from, to] = way(flow, rail);
    const uint64_t more = flows_[flow].share * parts;
    const uint64_t sends = time(send_, from);
    const uint64_t receives = time(receive_, to);
    return (prices.of(send_.loads[from] + more * sends) * sends +
            prices.of(receive_.loads[to] + more * receives) * receives) >>
           NicLoads::kTimeBits;
  }

  uint64_t load(uint64_t whole) const {
    const uint64_t most = std::max(send_.most(), receive_.most()) / RailDivision::kParts / whole;
    return relative_to_fastest_host(most, send_, receive_, fastest_);
  }

  const size_t hosts_;
  const size_t rails_;
  const uint64_t fastest_;  // NIC
  const std::vector<RailFlow>& flows_;
  NicLoads send_;
  NicLoads receive_;
  std::vector<uint16_t> parts_;
};

}  // namespace

RailDivision divide_over_rails(const std::vector<HostRates>& hosts,
                               const std::vector<RailFlow>& flows, uint64_t whole) {
  return Divider(hosts, flows).divide(whole);
}

}  // namespace r2ccl
