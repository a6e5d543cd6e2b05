#include "tools/simulate/scenario_file.h"

#include <toml++/toml.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <span>
#include <sstream>
#include <string_view>

#include "plan/text/plan_words.h"

namespace r2ccl::tools {

using namespace sim;
namespace {

constexpr int64_t kHostsMax = 256;
constexpr int64_t kNicsMax = 16;
constexpr int64_t kRateMax = 100'000'000'000;  // bytes a second
constexpr int64_t kHostRateMax = kNicsMax * kRateMax;
constexpr int64_t kCommunicatorsMax = 8;
constexpr int64_t kDepthMax = 16;
constexpr int64_t kRepeatMax = 100'000;
constexpr size_t kOperationsMax = 1'000'000;  // 50 MB
constexpr int64_t kCountMax = int64_t{1} << 30;
constexpr TimeNs kTimeMax = 1'000'000 * kSecond;
// Longer ways do not fit into the bounds of dials and handshakes (limits::kConnectAttempt).
constexpr TimeNs kLatencyMax = 50 * kMillisecond;

// One table of the file. Remembers its first error.
class Table {
 public:
  Table(const toml::table& table, std::string where, std::string file)
      : table_(table), where_(std::move(where)), file_(std::move(file)) {}

  int64_t integer(const char* key, int64_t fallback, int64_t least, int64_t most) {
    const toml::node* node = find(key);
    if (node == nullptr) return fallback;
    const auto value = node->value_exact<int64_t>();
    if (value && *value >= least && *value <= most) return *value;
    wrong(*node, std::string(key) + " must be a whole number from " + std::to_string(least) +
                     " to " + std::to_string(most));
    return fallback;
  }
  // Returns a time in milliseconds, or in units of `unit_ns`.
  TimeNs time(const char* key, TimeNs fallback, double unit_ns = 1e6, TimeNs max = kTimeMax) {
    const toml::node* node = find(key);
    if (node == nullptr) return fallback;
    const auto value = node->value<double>();
    const double bound = static_cast<double>(max) / unit_ns;
    if (value && *value >= 0 && *value <= bound) return std::llround(*value * unit_ns);
    wrong(*node, std::string(key) + " must be a time: a number from 0 to " +
                     std::to_string(std::llround(bound)));
    return fallback;
  }
  bool flag(const char* key, bool fallback) {
    const toml::node* node = find(key);
    if (node == nullptr) return fallback;
    if (const auto value = node->value_exact<bool>()) return *value;
    wrong(*node, std::string(key) + " must be true or false");
    return fallback;
  }
  // Returns one of the values that have a name.
  template <typename T>
  T choice(const char* key, T fallback, std::initializer_list<T> all) {
    return choice(key, fallback, std::span<const T>(all.begin(), all.size()));
  }
  template <typename T>
  T choice(const char* key, T fallback, std::span<const T> all) {
    const toml::node* node = find(key);
    if (node == nullptr) return fallback;
    std::string names;
    const auto value = node->value_exact<std::string>();
    for (const T one : all) {
      if (value && *value == to_string(one)) return one;
      names += std::string(names.empty() ? "" : ", ") + to_string(one);
    }
    wrong(*node, std::string(key) + " must be one of " + names);
    return fallback;
  }
  Algorithm algorithm(const char* key) {
    const toml::node* node = find(key);
    if (node == nullptr) return Algorithm::automatic;
    const auto word = node->value_exact<std::string>();
    const auto value = word ? value_of(kAlgorithmWords, *word) : std::nullopt;
    if (!value)
      wrong(*node, std::string(key) + " must be one of " + list_of_words(kAlgorithmWords));
    return value.value_or(Algorithm::automatic);
  }
  // Refuses keys that no call has read.
  void refuse_others(std::initializer_list<std::string_view> also = {}) {
    for (const auto& [key, node] : table_) {
      const std::string_view name = key.str();
      const auto is = [name](const auto& known) { return known == name; };
      if (std::ranges::any_of(asked_, is) || std::ranges::any_of(also, is)) continue;
      wrong(node, "unknown key " + std::string(name) + "; known are " + known_keys());
    }
  }
  void wrong(const toml::node& node, const std::string& what) {
    if (!error_.ok()) return;
    error_ = {Code::invalid_argument,
              file_ + ":" + std::to_string(node.source().begin.line) + ": " + where_ + what};
  }
  const Status& error() const { return error_; }

 private:
  const toml::node* find(const char* key) {
    asked_.emplace_back(key);
    return table_.get(key);
  }
  std::string known_keys() const {
    std::string all;
    for (const std::string& key : asked_) all += (all.empty() ? "" : ", ") + key;
    return all;
  }

  const toml::table& table_;
  const std::string where_;
  const std::string file_;
  std::vector<std::string> asked_;
  Status error_;
};

Status read_cluster(Table& in, Scenario& s) {
  s.seed = static_cast<uint64_t>(in.integer("seed", 1, 0, INT64_MAX));
  s.hosts = static_cast<int>(in.integer("hosts", s.hosts, 2, kHostsMax));
  s.nics = static_cast<int>(in.integer("nics", s.nics, 1, kNicsMax));
  s.rate_bytes_per_s = static_cast<uint64_t>(
      in.integer("rate_bytes_per_s", static_cast<int64_t>(s.rate_bytes_per_s), 1000, kRateMax));
  s.latency = in.time("latency_us", s.latency, 1e3, kLatencyMax);
  s.wakeup_jitter = in.time("wakeup_jitter_us", s.wakeup_jitter, 1e3);
  s.segment_bytes = static_cast<uint64_t>(
      in.integer("segment_bytes", static_cast<int64_t>(s.segment_bytes), 500, 64 * 1024));
  s.socket_bytes = static_cast<uint64_t>(
      in.integer("socket_bytes", static_cast<int64_t>(s.socket_bytes), 4 * 1024, 64 * 1024 * 1024));
  s.initial_window_bytes = static_cast<uint64_t>(
      in.integer("initial_window_bytes", static_cast<int64_t>(s.initial_window_bytes), 1448,
                 64 * 1024 * 1024));
  s.management = in.flag("management", s.management);
  s.plan_host_ranks =
      static_cast<int>(in.integer("plan_host_ranks", s.plan_host_ranks, 1, kHostsMax));
  s.plan_hop = in.time("plan_hop_us", s.plan_hop, 1e3);
  s.plan_bytes_per_s = static_cast<uint64_t>(
      in.integer("plan_bytes_per_s", static_cast<int64_t>(s.plan_bytes_per_s), 0, kHostRateMax));
  s.data_at_start = in.flag("data_at_start", s.data_at_start);
  s.damping = in.flag("damping", s.damping);
  s.cutoff = in.time("cutoff_ms", s.cutoff);
  s.communicators =
      static_cast<int>(in.integer("communicators", s.communicators, 1, kCommunicatorsMax));
  s.depth = static_cast<int>(in.integer("depth", s.depth, 1, kDepthMax));
  s.think_max = in.time("think_max_ms", s.think_max);
  s.leave_early = in.flag("leave_early", s.leave_early);
  s.nics_write = in.flag("nics_write", s.nics_write);
  in.refuse_others({"operation", "fault"});
  return in.error();
}

Status read_operation(const toml::table& table, Table& in, Scenario& s) {
  using Kind = OperationSpec::Kind;
  OperationSpec o;
  o.kind =
      in.choice("kind", o.kind,
                {Kind::all_reduce, Kind::broadcast, Kind::barrier, Kind::shift, Kind::send_to_all,
                 Kind::run_ahead, Kind::reduce, Kind::all_gather, Kind::reduce_scatter,
                 Kind::gather, Kind::scatter, Kind::all_to_all, Kind::tagged, Kind::tagged_ahead});
  o.communicator = static_cast<int>(in.integer("communicator", 0, 0, s.communicators - 1));
  o.type = in.choice("type", o.type, std::span<const DataType>(kDataTypes));
  o.op = in.choice("op", o.op, std::span<const ReduceOp>(kReduceOps));
  o.count = static_cast<uint64_t>(in.integer("count", o.kind == Kind::barrier ? 0 : 1024,
                                             o.kind == Kind::barrier ? 0 : 1, kCountMax));
  o.root = static_cast<int>(in.integer("root", 0, 0, s.hosts - 1));
  o.in_place = in.flag("in_place", false);
  if (has_plan(o.kind)) o.algorithm = in.algorithm("algorithm");
  if (has_blocks(o.kind)) o.unequal = in.flag("unequal", false);
  const int64_t repeat = in.integer("repeat", 1, 1, kRepeatMax);
  in.refuse_others();
  if (!supports(o.type, o.op)) {
    in.wrong(table, std::string(to_string(o.op)) + " needs an integer type, which " +
                        to_string(o.type) + " is not");
  }
  if (s.operations.size() + static_cast<size_t>(repeat) > kOperationsMax) {
    in.wrong(table, "more than " + std::to_string(kOperationsMax) + " operations in all");
  }
  if (in.error().ok()) s.operations.insert(s.operations.end(), static_cast<size_t>(repeat), o);
  return in.error();
}

std::optional<FaultKind> fault_named(const std::string& name) {
  for (int i = 0; i < kFaultKinds; ++i) {
    if (name == to_string(static_cast<FaultKind>(i))) return static_cast<FaultKind>(i);
  }
  return std::nullopt;
}

Status read_fault(const toml::table& table, Table& in, Scenario& s) {
  FaultSpec f;
  const toml::node* kind = table.get("kind");
  const auto name = kind == nullptr ? std::nullopt : kind->value_exact<std::string>();
  const auto known = name ? fault_named(*name) : std::nullopt;
  if (!known) {
    std::string names;
    for (int i = 0; i < kFaultKinds; ++i) {
      names += std::string(i == 0 ? "" : ", ") + to_string(static_cast<FaultKind>(i));
    }
    in.wrong(kind == nullptr ? table : *kind, "kind must be one of " + names);
    return in.error();
  }
  f.kind = *known;
  f.at = in.time("at_ms", 0);
  f.when_busy = in.flag("when_busy", false);
  f.duration = in.time("for_ms", 100 * kMillisecond);
  f.host = static_cast<int>(in.integer("host", 0, 0, s.hosts - 1));
  f.nic = static_cast<int>(in.integer("nic", 0, 0, s.nics - 1));
  f.other_host = static_cast<int>(in.integer("other_host", (f.host + 1) % s.hosts, 0, s.hosts - 1));
  f.amount = static_cast<uint64_t>(in.integer("amount", 0, 0, INT64_MAX));
  if (needs_amount(f.kind) && f.amount == 0) {
    in.wrong(table, std::string(to_string(f.kind)) + " needs an amount that is not 0");
  }
  in.refuse_others({"kind"});
  s.faults.push_back(f);
  return in.error();
}

// Calls `each` for every [[name]] of the file.
template <typename Each>
Status for_each_table(const toml::table& file, const char* name, const std::string& file_name,
                      const Each& each) {
  const toml::node* node = file.get(name);
  if (node == nullptr) return {};
  const toml::array* all = node->as_array();
  for (size_t i = 0; all != nullptr && i < all->size(); ++i) {
    const toml::table* one = (*all)[i].as_table();
    if (one == nullptr) break;
    Table in(*one, std::string("[[") + name + "]] ", file_name);
    R2CCL_RETURN_IF_ERROR(each(*one, in));
    if (i + 1 == all->size()) return {};
  }
  return {Code::invalid_argument, file_name + ":" + std::to_string(node->source().begin.line) +
                                      ": write each as a table of its own, under [[" + name + "]]"};
}

bool may_begin_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '"' || c == '\'' || c == ']';
}

// Checks the character after [ and [[. toml++ 3.3 assumes, instead of checking, that the name in a
// table's header begins with a character of a name.
Status check_headers(const std::string& text, const std::string& file_name) {
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    line.resize(std::min(line.find('#'), line.size()));
    for (size_t at = line.find('['); at != std::string::npos; at = line.find('[', at)) {
      if (++at < line.size() && line[at] == '[') ++at;
      at = line.find_first_not_of(" \t", at);
      if (at != std::string::npos && may_begin_name(line[at])) continue;
      return {Code::invalid_argument, file_name + ":" + std::to_string(number) +
                                          ": write a table's name in letters: [[operation]]"};
    }
  }
  return {};
}

// toml++ 3.3 bounds the depth of values, but not of dotted keys, and recurses into these.
Status check_keys(const std::string& text, const std::string& file_name) {
  constexpr ptrdiff_t kPartsMax = 64;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const size_t first = line.find_first_not_of(" \t");
    if (first == std::string::npos || line[first] == '#') continue;
    for (size_t at = 0; at != std::string::npos;) {
      const size_t end = line.find_first_of("=,{}[]", at);
      const std::string_view key = std::string_view(line).substr(at, end - at);
      if (std::ranges::count(key, '.') >= kPartsMax) {
        return {Code::invalid_argument, file_name + ":" + std::to_string(number) +
                                            ": a key or text has more than 64 parts"};
      }
      at = end == std::string::npos ? end : end + 1;
    }
  }
  return {};
}

std::string decimal(TimeNs time, double unit_ns) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.6f", static_cast<double>(time) / unit_ns);
  return text;
}

void print_operation(std::ostringstream& out, const OperationSpec& o, size_t repeat) {
  out << "\n[[operation]]\nkind = \"" << to_string(o.kind) << "\"\n";
  if (o.communicator != 0) out << "communicator = " << o.communicator << '\n';
  out << "type = \"" << to_string(o.type) << "\"\nop = \"" << to_string(o.op)
      << "\"\ncount = " << o.count << '\n';
  if (o.root != 0) out << "root = " << o.root << '\n';
  if (o.in_place) out << "in_place = true\n";
  if (o.unequal) out << "unequal = true\n";
  if (o.algorithm != Algorithm::automatic) {
    out << "algorithm = \"" << word_of(kAlgorithmWords, o.algorithm) << "\"\n";
  }
  if (repeat > 1) out << "repeat = " << repeat << '\n';
}

void print_fault(std::ostringstream& out, const FaultSpec& f) {
  out << "\n[[fault]]\nkind = \"" << to_string(f.kind) << "\"\nat_ms = " << decimal(f.at, 1e6)
      << '\n';
  if (f.when_busy) out << "when_busy = true\n";
  out << "for_ms = " << decimal(f.duration, 1e6) << "\nhost = " << f.host << "\nnic = " << f.nic
      << "\nother_host = " << f.other_host << '\n';
  if (f.amount != 0) out << "amount = " << f.amount << '\n';
}

}  // namespace

Result<Scenario> parse_scenario(const std::string& text, const std::string& file_name) {
  R2CCL_RETURN_IF_ERROR(check_headers(text, file_name));
  R2CCL_RETURN_IF_ERROR(check_keys(text, file_name));
  toml::table file;
  try {
    file = toml::parse(text, file_name);
  } catch (const toml::parse_error& error) {
    return Status(Code::invalid_argument, file_name + ":" +
                                              std::to_string(error.source().begin.line) + ": " +
                                              std::string(error.description()));
  }
  Scenario s;
  Table cluster(file, "", file_name);
  R2CCL_RETURN_IF_ERROR(read_cluster(cluster, s));
  R2CCL_RETURN_IF_ERROR(for_each_table(
      file, "operation", file_name,
      [&](const toml::table& table, Table& in) { return read_operation(table, in, s); }));
  R2CCL_RETURN_IF_ERROR(for_each_table(
      file, "fault", file_name,
      [&](const toml::table& table, Table& in) { return read_fault(table, in, s); }));
  if (s.operations.empty()) {
    return Status(Code::invalid_argument,
                  file_name + ": there is nothing to do: write an [[operation]]");
  }
  return s;
}

Result<Scenario> read_scenario(const std::string& path) {
  std::ifstream in(path);
  if (!in) return Status(Code::invalid_argument, "cannot read " + path);
  std::ostringstream text;
  text << in.rdbuf();
  // A folder opens, and cannot be read.
  if (!in || !text) return Status(Code::invalid_argument, "cannot read " + path);
  return parse_scenario(text.str(), path);
}

std::string to_toml(const Scenario& s) {
  std::ostringstream out;
  out << "# " << describe(s) << "\nseed = " << s.seed << "\nhosts = " << s.hosts
      << "\nnics = " << s.nics << "\nrate_bytes_per_s = " << s.rate_bytes_per_s
      << "\nlatency_us = " << decimal(s.latency, 1e3)
      << "\nwakeup_jitter_us = " << decimal(s.wakeup_jitter, 1e3)
      << "\nsegment_bytes = " << s.segment_bytes << "\nsocket_bytes = " << s.socket_bytes
      << "\ninitial_window_bytes = " << s.initial_window_bytes << std::boolalpha
      << "\nmanagement = " << s.management << "\nplan_host_ranks = " << s.plan_host_ranks
      << "\nplan_hop_us = " << decimal(s.plan_hop, 1e3)
      << "\nplan_bytes_per_s = " << s.plan_bytes_per_s << "\ndata_at_start = " << s.data_at_start
      << "\ndamping = " << s.damping << "\ncutoff_ms = " << decimal(s.cutoff, 1e6)
      << "\ncommunicators = " << s.communicators << "\ndepth = " << s.depth
      << "\nthink_max_ms = " << decimal(s.think_max, 1e6) << "\nleave_early = " << s.leave_early
      << "\nnics_write = " << s.nics_write << '\n';
  for (size_t i = 0; i < s.operations.size();) {
    size_t same = 1;
    while (same < size_t{kRepeatMax} && i + same < s.operations.size() &&
           s.operations[i + same] == s.operations[i]) {
      ++same;
    }
    print_operation(out, s.operations[i], same);
    i += same;
  }
  for (const FaultSpec& fault : s.faults) print_fault(out, fault);
  return out.str();
}

}  // namespace r2ccl::tools
