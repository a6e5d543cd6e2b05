#include "runtime/collective/cost_meter.h"

#include <algorithm>
#include <span>
#include <thread>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "plan/cost_model.h"
#include "protocol/wire/byte_io.h"

namespace r2ccl {
namespace {

uint64_t median_of(std::vector<uint64_t> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

void put(std::span<const uint64_t> numbers, std::vector<std::byte>& bytes) {
  ByteWriter out(bytes);
  for (const uint64_t number : numbers) out.put(number);
}

constexpr size_t kCosts = 2 * std::tuple_size_v<CostNumbers>;  // numbers in a PlanCosts

std::vector<std::byte> encode(const PlanCosts& costs) {
  std::vector<std::byte> bytes;
  put(numbers_of(costs.memory), bytes);
  put(numbers_of(costs.network), bytes);
  return bytes;
}

DomainCosts read_domain(ByteReader& in) {
  CostNumbers numbers{};
  for (uint64_t& number : numbers) number = in.get<uint64_t>();
  return domain_costs(numbers);
}

PlanCosts read_costs(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  PlanCosts costs;
  costs.memory = read_domain(in);
  costs.network = read_domain(in);
  return bounded(costs);
}

}  // namespace

CostMeter::CostMeter(Rank self, ChannelId channel, const std::vector<MessagePort*>& ports,
                     const HostGroups& hosts, const Clock& clock, Send send)
    : self_(self),
      hosts_(hosts),
      clock_(clock),
      ranks_(ports.size()),
      send_(std::move(send)),
      messages_(self, channel, ports) {}

void CostMeter::start(Done done) {
  R2CCL_CHECK(!done_ && pattern_ == 0);
  done_ = std::move(done);
  if (ranks_ == 1) return finish(PlanCosts());
  source_.resize(kPatternBytesMax);
  part_ = part_in(CostPattern{}, hosts_, ranks_, self_);
  run();
}

// Goes on to the next pattern that this rank takes part in.
void CostMeter::run() {
  while (part_.to.empty()) {
    if (++pattern_ == kCostPatterns) return agree();
    part_ = part_in(static_cast<CostPattern>(pattern_), hosts_, ranks_, self_);
  }
  round_ = 0;
  target_.resize(2 * part_.from.size() * part_.bytes);
  post_receives(0);
  post_receives(1);
  if (!part_.answers) post_sends();
}

// Receives are posted one round ahead, as those of a plan: so the sender has credit.
void CostMeter::post_receives(int round) {
  if (round > last_round()) return;
  const auto slot = static_cast<size_t>(round % 2);
  receives_left_[slot] = part_.from.size();
  for (size_t i = 0; i < part_.from.size(); ++i) {
    const size_t place = (slot * part_.from.size() + i) * part_.bytes;
    messages_.receive(part_.from[i], std::span(target_).subspan(place, part_.bytes),
                      DataType::uint8, [this, slot](const Status& status) {
                        if (status.ok() && --receives_left_[slot] == 0) end_rounds();
                      });
  }
}

void CostMeter::post_sends() {
  const std::span bytes = std::span(source_).first(part_.bytes);
  for (const Rank rank : part_.to) {
    messages_.send(rank, bytes, DataType::uint8, [](const Status&) {});
  }
}

// A round is over when its last message has arrived, as a step of a plan is: the acknowledgements
// of its sends come later. Messages of the next one may have come before.
void CostMeter::end_rounds() {
  while (!part_.to.empty() && receives_left_[static_cast<size_t>(round_ % 2)] == 0) {
    if (part_.answers) post_sends();
    note_time();
    if (round_ == last_round()) {
      if (!part_.answers) times_[pattern_] = median_of(batches_);
      batches_.clear();
      part_ = {};
      return run();
    }
    ++round_;
    post_receives(round_ + 1);
    if (!part_.answers) post_sends();
  }
}

// A rank may be some rounds ahead of another and then wait, so only the time of several rounds
// tells how long one takes.
void CostMeter::note_time() {
  const int counted = round_ - (part_.first_rounds - 1);
  if (counted < 0 || counted % part_.rounds != 0) return;
  const TimeNs now = clock_.now();
  const TimeNs batch = std::max<TimeNs>(now - batch_began_, part_.rounds);
  if (counted > 0) batches_.push_back(static_cast<uint64_t>(batch / part_.rounds));
  batch_began_ = now;
}

void CostMeter::agree() {
  agrees_ = true;
  if (self_ == Rank(0)) return collect(self_, times_);
  std::vector<std::byte> body;
  put(times_, body);
  send_(Rank(0), body);
}

void CostMeter::on_notice(Rank from, std::span<const std::byte> body) {
  const bool collects = self_ == Rank(0);
  const size_t numbers = collects ? kCostPatterns : kCosts;
  if (body.size() != numbers * sizeof(uint64_t) || (!collects && from != Rank(0))) {
    R2CCL_LOG(info, "a notice of costs from rank %d that does not fit", from.value());
    return;
  }
  if (!collects) return done_ && agrees_ ? finish(read_costs(body)) : void();
  PatternTimes times{};
  ByteReader in(body);
  for (uint64_t& time : times) time = in.get<uint64_t>();
  collect(from, times);
}

// Others may end their patterns before this rank ends its own.
void CostMeter::collect(Rank from, const PatternTimes& times) {
  collected_[from] = times;
  if (done_ && agrees_ && collected_.size() == ranks_) decide();
}

std::vector<Rank> CostMeter::waits_on() const {
  if (!agrees_ || done_ == nullptr) return messages_.waits_on();
  if (self_ != Rank(0)) return {Rank(0)};
  std::vector<Rank> missing;
  for (size_t rank = 0; rank < ranks_; ++rank) {
    const Rank each(static_cast<int32_t>(rank));
    if (!collected_.contains(each)) missing.push_back(each);
  }
  return missing;
}

void CostMeter::decide() {
  PatternTimes times{};
  for (size_t pattern = 0; pattern < kCostPatterns; ++pattern) {
    std::vector<uint64_t> taken;
    for (const auto& [rank, each] : collected_) {
      if (each[pattern] > 0) taken.push_back(each[pattern]);
    }
    times[pattern] = median_of(std::move(taken));
  }
  for (size_t pattern = 0; pattern < kCostPatterns; ++pattern) {
    R2CCL_LOG(trace, "pattern %zu of the costs takes %llu ns", pattern,
              static_cast<unsigned long long>(times[pattern]));
  }
  const PlanCosts costs =
      bounded(costs_from(times, hosts_, ranks_, std::thread::hardware_concurrency()));
  const std::vector<std::byte> body = encode(costs);
  for (size_t rank = 1; rank < ranks_; ++rank) send_(Rank(static_cast<int32_t>(rank)), body);
  finish(costs);
}

void CostMeter::finish(const PlanCosts& costs) {
  const Done done = std::exchange(done_, nullptr);
  done(costs);
}

}  // namespace r2ccl
