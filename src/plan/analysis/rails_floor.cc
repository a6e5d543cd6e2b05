#include "plan/analysis/rails_floor.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace r2ccl {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr size_t kNone = SIZE_MAX;
// A sweep passes a message of each host in each direction. Many hosts have fewer sweeps.
constexpr size_t kSweepsMax = 2000;
constexpr size_t kStepsMax = size_t{1} << 26;
// The logarithm by which the price of a NIC that is always busy rises in a sweep.
constexpr double kRise = 0.1;
// A slow NIC beside fast ones would rise beyond all numbers: by so much at a time at most, and
// above this price all prices are lowered.
constexpr double kRiseMax = 200;
constexpr double kPriceMax = 1e200;

// All NICs of all hosts in one direction: `host * rails + rail`.
struct Nics {
  std::vector<double> rates;
  std::vector<double> prices;  // of an element; kNever for a NIC of no rate
};

class Prices {
 public:
  explicit Prices(const std::vector<HostRates>& hosts) : size_(hosts.size()) {
    for (const HostRates& host : hosts) rails_ = std::max(rails_, host.size());
    read(hosts, &NicRate::send, send_);
    read(hosts, &NicRate::receive, receive_);
  }

  double best_floor() {
    double best = floor();
    if (!(best > 0) || best == kNever) return best;
    const size_t sweeps = std::min(kSweepsMax, kStepsMax / (size_ * size_ * rails_));
    for (size_t sweep = 0; sweep < sweeps; ++sweep) {
      rise_ = kRise / best;
      for (size_t host = 0; host < size_; ++host) {
        pass(host, send_, receive_);
        pass(host, receive_, send_);
      }
      lower_all();
      best = std::max(best, floor());
    }
    return best;
  }

 private:
  void read(const std::vector<HostRates>& hosts, uint32_t NicRate::*direction, Nics& nics) const {
    nics.rates.assign(size_ * rails_, 0);
    for (size_t host = 0; host < size_; ++host) {
      for (size_t rail = 0; rail < hosts[host].size(); ++rail) {
        nics.rates[host * rails_ + rail] = hosts[host][rail].*direction;
      }
    }
    for (const double rate : nics.rates) nics.prices.push_back(rate > 0 ? 1 : kNever);
  }

  // Returns the cheapest NIC of the rail of any host but this one.
  size_t cheapest(const Nics& nics, size_t rail, size_t without) const {
    size_t best = kNone;
    for (size_t host = 0; host < size_; ++host) {
      const size_t nic = host * rails_ + rail;
      if (host == without || nics.rates[nic] == 0) continue;
      if (best == kNone || nics.prices[nic] < nics.prices[best]) best = nic;
    }
    return best;
  }

  struct Message {
    double price = kNever;
    size_t own = 0;
    size_t other = 0;
  };
  Message cheapest_message(size_t host, const Nics& own, const Nics& others) const {
    Message best;
    for (size_t rail = 0; rail < rails_; ++rail) {
      const size_t nic = host * rails_ + rail;
      const size_t other = own.rates[nic] > 0 ? cheapest(others, rail, host) : kNone;
      if (other == kNone) continue;
      const double price = own.prices[nic] + others.prices[other];
      if (price < best.price) best = {price, nic, other};
    }
    return best;
  }

  void pass(size_t host, Nics& own, Nics& others) {
    const Message message = cheapest_message(host, own, others);
    load(own, message.own);
    load(others, message.other);
  }
  void load(Nics& nics, size_t nic) {
    nics.prices[nic] *= std::exp(std::min(rise_ / nics.rates[nic], kRiseMax));
    if (nics.prices[nic] > kPriceMax) lower_all();
  }

  // Only the ratios of prices count.
  void lower_all() {
    double most = 0;
    for (const Nics* nics : {&send_, &receive_}) {
      for (const double price : nics->prices) most = price < kNever ? std::max(most, price) : most;
    }
    for (Nics* nics : {&send_, &receive_}) {
      for (double& price : nics->prices) price /= most;
    }
  }

  // Returns the floor by these prices.
  double floor() const {
    double paid = 0;
    double dearest = 0;
    for (size_t host = 0; host < size_; ++host) {
      const double price = cheapest_message(host, send_, receive_).price +
                           cheapest_message(host, receive_, send_).price;
      paid += price;
      dearest = std::max(dearest, price);
    }
    if (dearest == kNever) return kNever;
    double earned = 0;
    for (const Nics* nics : {&send_, &receive_}) {
      for (size_t nic = 0; nic < nics->rates.size(); ++nic) {
        if (nics->rates[nic] > 0) earned += nics->rates[nic] * nics->prices[nic];
      }
    }
    return (paid - dearest) / earned;
  }

  const size_t size_;
  size_t rails_ = 0;
  double rise_ = 0;
  Nics send_;
  Nics receive_;
};

}  // namespace

double rails_floor(const std::vector<HostRates>& hosts) {
  return Prices(hosts).best_floor();
}

}  // namespace r2ccl
