// Reads the text form of a plan.
#include <algorithm>
#include <charconv>
#include <span>
#include <utility>

#include "plan/text/plan_text.h"
#include "plan/text/plan_words.h"
#include "plan/text/quoted.h"
#include "plan/text/view_text.h"

namespace r2ccl {
namespace {

// The words of one line. Remembers its first error. After an error there are no more words, and
// each call returns a default value.
class Words {
 public:
  Words(std::string_view line, size_t number) : rest_(line), number_(number) { advance(); }

  // Takes the next word if it is this one.
  bool take(std::string_view word) {
    if (word_ != word || !error_.ok()) return false;
    advance();
    return true;
  }
  void require(std::string_view word) {
    if (!take(word)) wrong(describe() + " where " + quoted(word) + " must stand");
  }
  // Takes the word `name` and the number after it.
  uint64_t number(std::string_view name, uint64_t most) {
    require(name);
    const uint64_t number = number_in(word_, name, most);
    advance();
    return number;
  }
  // Takes a number that has no name before it.
  uint64_t bare_number(std::string_view meaning, uint64_t most) {
    const uint64_t number = number_in(word_, meaning, most);
    advance();
    return number;
  }
  // Takes the word `name` and one of `words` after it.
  template <typename T, size_t n>
  T choice(std::string_view name, const std::array<PlanWord<T>, n>& words) {
    require(name);
    return bare_choice(name, words);
  }
  template <typename T, size_t n>
  T bare_choice(std::string_view meaning, const std::array<PlanWord<T>, n>& words) {
    const auto value = value_of(words, word_);
    if (!value) {
      wrong(describe() + " is no " + std::string(meaning) + "; there are " + list_of_words(words));
    }
    advance();
    return value.value_or(T{});
  }
  // Takes the word `name` and one of `values`, which have to_string().
  template <typename T>
  T named(std::string_view name, std::span<const T> values) {
    require(name);
    const auto found =
        std::ranges::find_if(values, [this](T value) { return word_ == to_string(value); });
    if (found == values.end()) wrong(describe() + " is no " + std::string(name));
    advance();
    return found == values.end() ? T{} : *found;
  }
  // Takes the word `name` and numbers with commas between them, if it comes next.
  template <typename T>
  std::vector<T> list(std::string_view name, uint64_t most) {
    std::vector<T> numbers;
    if (!take(name)) return numbers;
    std::string_view rest = word_;
    for (bool more = true; more && error_.ok();) {
      const size_t comma = rest.find(',');
      more = comma != std::string_view::npos;
      numbers.push_back(static_cast<T>(number_in(rest.substr(0, comma), name, most)));
      rest.remove_prefix(more ? comma + 1 : rest.size());
    }
    advance();
    return numbers;
  }
  // Takes the word `name` and the word after it, if it comes next; else returns an empty one.
  std::string_view word_after(std::string_view name) {
    if (!take(name)) return {};
    const std::string_view word = word_;
    if (word.empty()) wrong(std::string(name) + ": the line ends");
    advance();
    return word;
  }
  // Takes the word `name` and a region.
  Region region(std::string_view name) {
    require(name);
    const std::string_view word = word_;
    const size_t colon = word.find(':');
    const size_t plus = word.find('+');
    const auto buffer = value_of(kBufferWords, word.substr(0, colon));
    if (!buffer || colon == std::string_view::npos || plus == std::string_view::npos ||
        plus < colon) {
      wrong(describe() + " is no region; write BUFFER:OFFSET+COUNT, where BUFFER is one of " +
            list_of_words(kBufferWords));
      return {};
    }
    Region region{*buffer, 0, 0};
    region.offset =
        number_in(word.substr(colon + 1, plus - colon - 1), "offset", kPlanTextPositionMax);
    region.count = number_in(word.substr(plus + 1), "count", kPlanTextPositionMax);
    if (region.count > kPlanTextPositionMax - region.offset) {
      wrong("the region " + quoted(word) + " ends beyond element " +
            std::to_string(kPlanTextPositionMax));
    }
    advance();
    return region;
  }
  void require_end() {
    if (!word_.empty()) wrong("the word " + quoted(word_) + " is not expected here");
  }
  void wrong(const std::string& what) {
    if (error_.ok()) {
      error_ = {Code::invalid_argument, "line " + std::to_string(number_) + ": " + what};
    }
    word_ = rest_ = {};
  }

  // Returns the next word, without taking it; an empty one at the end.
  std::string_view next() const { return word_; }
  size_t line() const { return number_; }
  const Status& error() const { return error_; }

 private:
  std::string describe() const { return word_.empty() ? "the line ends" : quoted(word_); }

  uint64_t number_in(std::string_view text, std::string_view meaning, uint64_t most) {
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool whole = !text.empty() && end == text.data() + text.size();
    if (whole && error == std::errc() && number <= most) return number;
    const bool large = whole && error != std::errc::invalid_argument;
    wrong(std::string(meaning) + ": " + (text.empty() ? "a number is missing" : quoted(text)) +
          (large          ? " is more than " + std::to_string(most)
           : text.empty() ? ""
                          : " is no number"));
    return 0;
  }

  void advance() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size()));
    const size_t length = std::min(rest_.find(' '), rest_.size());
    word_ = rest_.substr(0, length);
    rest_.remove_prefix(length);
  }

  std::string_view rest_;
  std::string_view word_;
  const size_t number_;
  Status error_;
};

// The lines of a text that mean something, with their numbers.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}

  // Returns the words of the next line. At the end of the text it has none.
  Words next() {
    while (!rest_.empty()) {
      ++number_;
      const size_t end = std::min(rest_.find('\n'), rest_.size());
      std::string_view line = rest_.substr(0, end);
      rest_.remove_prefix(std::min(end + 1, rest_.size()));
      if (line.ends_with('\r')) line.remove_suffix(1);
      Words words(line, number_);
      if (!words.next().empty() && !words.next().starts_with('#')) return words;
    }
    return {{}, number_ + 1};
  }

 private:
  std::string_view rest_;
  size_t number_ = 0;
};

class PlanReader {
 public:
  explicit PlanReader(std::string_view text) : lines_(text) {}

  Result<WholePlan> read() {
    R2CCL_RETURN_IF_ERROR(read_header());
    for (int32_t rank = 0; rank < key_.rank_count; ++rank) {
      R2CCL_RETURN_IF_ERROR(read_rank(Rank(rank)));
    }
    Words words = lines_.next();
    words.require_end();
    R2CCL_RETURN_IF_ERROR(words.error());
    return std::move(plan_);
  }

 private:
  Status read_header() {
    Words words = lines_.next();
    words.require("r2ccl-plan");
    if (words.bare_number("version of the form", UINT64_MAX) != 1) {
      words.wrong("the form has another version than 1");
    }
    key_.collective = words.choice("collective", kCollectiveWords);
    key_.algorithm = words.choice("algorithm", kAlgorithmWords);
    key_.type = words.named<DataType>("type", kDataTypes);
    key_.op = words.named<ReduceOp>("op", kReduceOps);
    const uint64_t ranks = words.number("ranks", kPlanTextRanksMax);
    if (ranks == 0) words.wrong("ranks: a plan has at least one rank");
    key_.rank_count = static_cast<int32_t>(ranks);
    key_.root = Rank(static_cast<int32_t>(words.number("root", ranks > 0 ? ranks - 1 : 0)));
    key_.count = words.number("count", kPlanTextCountMax);
    key_.reproducible = words.take("reproducible");
    const auto hosts = words.list<uint32_t>("hosts", UINT32_MAX);
    check_length(words, "hosts", hosts.size());
    if (words.error().ok()) key_.hosts = HostGroups(hosts);
    read_view(words);
    read_costs(words, "memory_costs", key_.costs.memory);
    read_costs(words, "network_costs", key_.costs.network);
    words.require_end();
    if (words.error().ok() && !supports(key_.type, key_.op)) {
      words.wrong(std::string("op: ") + to_string(key_.op) + " needs an integer type");
    }
    return words.error();
  }

  void read_view(Words& words) {
    const std::string_view text = words.word_after("view");
    if (text.empty()) return;
    const size_t hosts =
        key_.hosts.empty() ? static_cast<size_t>(key_.rank_count) : key_.hosts.hosts().size();
    Result<View> view = parse_view(text, hosts);
    if (!view.ok()) return words.wrong("view: " + view.status().message());
    key_.view = std::move(view).value();
  }

  static void read_costs(Words& words, const std::string& name, DomainCosts& costs) {
    const std::string_view text = words.word_after(name);
    if (text.empty()) return;
    const auto read = parse_domain_costs(text);
    if (!read) return words.wrong(name + ": " + quoted(text) + " is not seven numbers");
    costs = *read;
  }

  void check_length(Words& words, const std::string& name, size_t length) const {
    if (length == 0 || length == static_cast<size_t>(key_.rank_count)) return;
    words.wrong(name + ": there are " + std::to_string(length) + " numbers for " +
                std::to_string(key_.rank_count) + " ranks");
  }

  std::vector<uint64_t> read_blocks(Words& words, const char* name, uint64_t most) const {
    std::vector<uint64_t> numbers = words.list<uint64_t>(name, most);
    check_length(words, name, numbers.size());
    return numbers;
  }

  Status read_rank(Rank rank) {
    Words words = lines_.next();
    const auto expected = static_cast<uint64_t>(rank.value());
    if (words.next().empty()) {
      words.wrong("the text ends before rank " + std::to_string(expected));
    }
    if (words.number("rank", UINT64_MAX) != expected) {
      words.wrong("the block of rank " + std::to_string(expected) + " must stand here");
    }
    const uint64_t steps = words.number("steps", UINT32_MAX - 1);
    RankPlan plan;
    plan.rank = rank;
    plan.scratch = words.number("scratch", kPlanTextPositionMax);
    if (words.next() == "wide") plan.wide = words.number("wide", kPlanTextPositionMax);
    PlanKey key = key_;
    key.in_place = words.take("in_place");
    key.blocks.counts = read_blocks(words, "counts", kPlanTextCountMax);
    key.blocks.starts = read_blocks(words, "starts", kPlanTextPositionMax);
    key.received.counts = read_blocks(words, "received_counts", kPlanTextCountMax);
    key.received.starts = read_blocks(words, "received_starts", kPlanTextPositionMax);
    words.require_end();
    R2CCL_RETURN_IF_ERROR(words.error());
    // The number of steps is not believed before they are there.
    for (uint64_t index = 0; index < steps; ++index) {
      R2CCL_RETURN_IF_ERROR(read_step(rank, index, steps, plan));
    }
    plan_.keys.push_back(std::move(key));
    plan_.plans.push_back(std::move(plan));
    return Status::ok_status();
  }

  Status read_step(Rank rank, uint64_t index, uint64_t steps, RankPlan& plan) {
    Words words = lines_.next();
    if (words.next().empty() || words.next() == "rank") {
      words.wrong("rank " + std::to_string(rank.value()) + " has " + std::to_string(index) +
                  " steps, and its block says " + std::to_string(steps));
    }
    if (words.bare_number("number of the step", UINT64_MAX) != index) {
      words.wrong("step " + std::to_string(index) + " must stand here");
    }
    Step step;
    step.kind = words.bare_choice("kind of step", kStepKindWords);
    if (has_peer(step.kind)) step.peer = read_peer(words, rank);
    if (step.kind != StepKind::receive) step.source = words.region("source");
    if (step.kind != StepKind::send) step.target = words.region("target");
    if (step.kind == StepKind::reduce) step.addend = words.region("addend");
    if (step.kind == StepKind::receive_reduce || step.kind == StepKind::reduce) {
      step.operands = words.choice("operands", kOperandsWords);
      step.last_reduction = words.take("last_reduction");
    }
    step.after = words.list<uint32_t>("after", UINT32_MAX);
    for (const uint32_t before : step.after) {
      if (before >= index) {
        words.wrong("after: " + std::to_string(before) + " is no step before step " +
                    std::to_string(index));
      }
    }
    words.require_end();
    R2CCL_RETURN_IF_ERROR(words.error());
    plan.steps.push_back(std::move(step));
    return Status::ok_status();
  }

  Rank read_peer(Words& words, Rank self) const {
    const auto last = static_cast<uint64_t>(key_.rank_count - 1);
    const Rank peer(static_cast<int32_t>(words.number("peer", last)));
    if (peer == self) words.wrong("peer: " + std::to_string(peer.value()) + " is the rank itself");
    return peer;
  }

  Lines lines_;
  PlanKey key_;  // as far as the first line gives it
  WholePlan plan_;
};

}  // namespace

Result<WholePlan> parse_plan(std::string_view text) {
  if (text.size() > kPlanTextBytesMax) {
    return Status(Code::invalid_argument,
                  "line 1: the text has more than " + std::to_string(kPlanTextBytesMax) + " bytes");
  }
  return PlanReader(text).read();
}

}  // namespace r2ccl
