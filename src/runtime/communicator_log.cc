// The lines of a healthy start at level INFO. They answer the first questions of a person who looks
// for the reason of a surprise.
#include <algorithm>
#include <map>
#include <set>

#include "base/log.h"
#include "runtime/communicator_options.h"

namespace r2ccl {
namespace {

// Lines of one kind; a large job has more hosts than anybody reads.
constexpr size_t kLinesMax = 16;

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

// "0-3, 7" from ranks in order.
std::string ranges(std::span<const Rank> ranks) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1].value() == ranks[last].value() + 1) ++last;
    parts.push_back(std::to_string(ranks[i].value()) +
                    (last > i ? "-" + std::to_string(ranks[last].value()) : std::string()));
    i = last + 1;
  }
  return join(parts);
}

void log_limited(const std::vector<std::string>& lines) {
  for (size_t i = 0; i < std::min(lines.size(), kLinesMax); ++i) {
    R2CCL_LOG(info, "%s", lines[i].c_str());
  }
  if (lines.size() > kLinesMax) R2CCL_LOG(info, "and %zu more", lines.size() - kLinesMax);
}

}  // namespace

void log_begin(const CommunicatorOptions& options) {
  // A person who asks for warnings only wants no line from a job that has none.
  if (log_level() == LogLevel::version) {
    R2CCL_LOG(version, "r2ccl %s", version_text(options.library_version).c_str());
  }
  if (!log_enabled(LogLevel::info)) return;
  R2CCL_LOG(info, "r2ccl %s, rank %d of %d", version_text(options.library_version).c_str(),
            options.self.value(), options.rank_count);
  const std::vector<std::string>& settings = options.config.notes.in_force;
  R2CCL_LOG(info, "settings: %s", settings.empty() ? "none is set" : join(settings).c_str());
  std::vector<std::string> places;
  for (const Endpoint& endpoint : options.rendezvous) places.push_back(to_string(endpoint));
  R2CCL_LOG(info, "rendezvous: %s", places.empty() ? "none" : join(places).c_str());
}

// The reason of each choice is the same as `r2ccl info` prints.
void log_nics(Transport& transport) {
  if (!log_enabled(LogLevel::info)) return;
  const auto nics = transport.nics();
  if (!nics.ok()) return;
  std::vector<std::string> lines;
  for (const Nic& nic : nics.value()) {
    const std::string address =
        nic.addresses.empty() ? "" : ", " + to_string(nic.addresses.front());
    lines.push_back("interface " + nic.name + " (" + to_string(nic.kind) + address + ") " +
                    nic.reason);
  }
  log_limited(lines);
}

void log_start(const CommunicatorOptions& options, RankRuntime& runtime) {
  if (!log_enabled(LogLevel::info)) return;
  Members& members = runtime.members();
  const HostMap& map = members.map();
  // By host: each pair of NICs once, however many ranks share them.
  std::vector<std::set<std::string>> rails(map.hosts());
  for (int32_t rank = 0; rank < options.rank_count; ++rank) {
    const Link* link = members.link(Rank(rank));
    if (link == nullptr) continue;
    for (const auto& path : link->paths()) {
      const PathSpec& spec = path->spec;
      if (spec.control_only || spec.fallback) continue;
      const std::string remote = spec.is_shm() ? "" : " to " + to_string(spec.remote.address);
      rails[map.host_of(Rank(rank))].insert(spec.local_name + remote);
    }
  }
  std::vector<std::string> lines;
  for (size_t host = 0; host < map.hosts(); ++host) {
    const std::string paths = join({rails[host].begin(), rails[host].end()});
    lines.push_back("host " + members.host_name(host) + ": ranks " + ranges(map.ranks_of(host)) +
                    (paths.empty() ? "" : "; rails: " + paths));
  }
  log_limited(lines);
  R2CCL_LOG(info, "algorithm: %s%s; costs in memory %s, by network %s",
            to_string(options.config.algo),
            options.config.reproducible ? ", floating-point reductions in rank order" : "",
            to_string(runtime.costs().memory).c_str(), to_string(runtime.costs().network).c_str());
  R2CCL_LOG(info, "connected to all ranks after %lld ms, %s",
            static_cast<long long>((runtime.clock().now() - runtime.started_at()) / kMillisecond),
            options.job.authenticated() ? "with a secret" : "without a secret");
}

}  // namespace r2ccl
