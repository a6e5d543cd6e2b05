#include "runtime/config/launch.h"

#include <array>
#include <charconv>
#include <span>

#include "base/limits.h"

namespace r2ccl {
namespace {

// Derived ports lie above the well-known ports and below the ephemeral ports of kernels (32768 on).
constexpr int64_t kSlurmPortFirst = 16384;
constexpr int64_t kSlurmPortCount = 16000;
// Spreads the steps of one job over the ports. A prime keeps neighbouring steps apart.
constexpr int64_t kSlurmStepStride = 997;

struct Launcher {
  const char* name;
  const char* rank;
  const char* rank_count;
  const char* local_rank;
};
constexpr std::array kLaunchers = {
    Launcher{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
    Launcher{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
             "OMPI_COMM_WORLD_LOCAL_RANK"},
    Launcher{"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    Launcher{"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
};

class Environment {
 public:
  explicit Environment(const GetEnv& get_env) : get_env_(get_env) {}

  // Returns the value, empty when the variable is not set or empty.
  std::string text(const char* name) const {
    const char* value = get_env_(name);
    return value == nullptr ? "" : value;
  }
  bool has(const char* name) const { return !text(name).empty(); }
  // Requires that the variable is set.
  Result<int64_t> number(const char* name, int64_t lowest, int64_t highest) const {
    const std::string value = text(name);
    int64_t out = 0;
    const char* end = value.data() + value.size();
    const auto [rest, error] = std::from_chars(value.data(), end, out);
    if (error != std::errc() || rest != end || out < lowest || out > highest) {
      return Status(Code::invalid_argument,
                    std::string(name) + "=" + value + ": allowed is a whole number, " +
                        std::to_string(lowest) + " to " + std::to_string(highest));
    }
    return out;
  }

 private:
  const GetEnv& get_env_;
};

Status missing(const std::string& what) {
  return {Code::invalid_usage, what};
}

// A launcher sets both variables or neither. A lone variable is an error: its partner was lost on
// the way to this process.
Result<const Launcher*> find_launcher(const Environment& env) {
  for (const Launcher& launcher : kLaunchers) {
    if (env.has(launcher.rank) && env.has(launcher.rank_count)) return &launcher;
  }
  for (const Launcher& launcher : kLaunchers) {
    if (env.has(launcher.rank)) {
      return missing(std::string(launcher.rank) + " is set but " + launcher.rank_count + " is not");
    }
    if (env.has(launcher.rank_count)) {
      return missing(std::string(launcher.rank_count) + " is set but " + launcher.rank + " is not");
    }
  }
  return missing(
      "no launcher's variables are set: start with torchrun, mpirun or srun, or set RANK, "
      "WORLD_SIZE, MASTER_ADDR and MASTER_PORT");
}

// A batch script often has a lone RANK or WORLD_SIZE beside another launcher's complete set. That
// is valid as long as both agree.
Status check_contradiction(const Environment& env, const Launcher& chosen) {
  const Launcher& plain = kLaunchers.front();
  if (&chosen == &plain) return {};
  for (const auto& [mine, other] :
       {std::pair(chosen.rank, plain.rank), std::pair(chosen.rank_count, plain.rank_count)}) {
    if (env.has(other) && env.text(other) != env.text(mine)) {
      return {Code::invalid_usage, std::string(other) + "=" + env.text(other) + " contradicts " +
                                       mine + "=" + env.text(mine)};
    }
  }
  return {};
}

struct Place {
  int64_t rank = 0;
  int64_t rank_count = 0;
};

// Returns no place unless both variables are set and valid.
std::optional<Place> place_of(const Environment& env, const Launcher& launcher) {
  const auto count = env.number(launcher.rank_count, 1, INT32_MAX);
  if (!count.ok()) return std::nullopt;
  const auto rank = env.number(launcher.rank, 0, count.value() - 1);
  if (!rank.ok()) return std::nullopt;
  return Place{rank.value(), count.value()};
}

// Returns true when each process of the outer launcher has started the same number of inner
// processes, and has numbered them in blocks or in turn. srun or mpirun of a script that launches
// ranks is usual.
bool runs_within(const Place& inner, const Place& outer) {
  const int64_t each = inner.rank_count / outer.rank_count;
  if (each < 2 || inner.rank_count % outer.rank_count != 0) return false;
  return inner.rank / each == outer.rank || inner.rank % outer.rank_count == outer.rank;
}

// Slurm sets SLURM_PROCID and SLURM_NTASKS also for a batch script, where it has launched no ranks.
// Only a step has ranks. The highest step numbers stand for steps that Slurm makes itself.
bool is_slurm_step(const Environment& env) {
  constexpr int64_t kStepMax = 0xfffffff0 - 1;
  return env.number("SLURM_STEP_ID", 0, kStepMax).ok();
}

std::string describe_place(const Launcher& launcher, const Place& place) {
  return std::string(launcher.rank) + "=" + std::to_string(place.rank) + " and " +
         launcher.rank_count + "=" + std::to_string(place.rank_count);
}

// Under mpirun or srun, RANK and WORLD_SIZE may come from a pod's template or a shell's profile.
// torchrun sets a variable of its own; then the outer launchers do not matter.
Status check_launchers_agree(const Environment& env) {
  const Launcher& plain = kLaunchers.front();
  if (env.has("TORCHELASTIC_RUN_ID")) return {};
  const std::optional<Place> mine = place_of(env, plain);
  if (!mine) return {};
  const Launcher* other = nullptr;
  Place theirs;
  for (const Launcher& launcher : std::span(kLaunchers).subspan(1)) {
    if (&launcher == &kLaunchers.back() && !is_slurm_step(env)) continue;
    const std::optional<Place> place = place_of(env, launcher);
    if (!place) continue;
    const bool same = place->rank == mine->rank && place->rank_count == mine->rank_count;
    if (same || runs_within(*mine, *place)) return {};
    if (other != nullptr) continue;
    other = &launcher;
    theirs = *place;
  }
  if (other == nullptr) return {};
  return {Code::invalid_usage,
          "two launchers disagree: " + describe_place(plain, *mine) + ", but " +
              describe_place(*other, theirs) + " (" + other->name + "). If " + other->name +
              " started this process, unset RANK and WORLD_SIZE (`env -u RANK -u WORLD_SIZE "
              "PROGRAM`); if not, unset " +
              other->rank + " and " + other->rank_count};
}

Status read_ranks(const Environment& env, const Launcher& launcher, Launch& launch) {
  const auto count = env.number(launcher.rank_count, 1, limits::kRanksMax);
  if (!count.ok()) return count.status();
  const auto rank = env.number(launcher.rank, 0, count.value() - 1);
  if (!rank.ok()) {
    return rank.status().with_context(std::string(launcher.rank_count) + "=" +
                                      env.text(launcher.rank_count));
  }
  launch.rank_count = static_cast<int32_t>(count.value());
  launch.rank = Rank(static_cast<int32_t>(rank.value()));
  if (env.has(launcher.local_rank)) {
    const auto local = env.number(launcher.local_rank, 0, count.value() - 1);
    if (!local.ok()) return local.status();
    launch.local_rank = static_cast<int32_t>(local.value());
  }
  return {};
}

Result<int64_t> slurm_port(const Environment& env) {
  const auto job = env.number("SLURM_JOB_ID", 0, UINT32_MAX);
  if (!job.ok()) return job.status();
  int64_t step = 0;
  if (env.has("SLURM_STEP_ID")) {
    const auto value = env.number("SLURM_STEP_ID", 0, UINT32_MAX);
    if (!value.ok()) return value.status();
    step = value.value();
  }
  return kSlurmPortFirst + (job.value() + kSlurmStepStride * step) % kSlurmPortCount;
}

Result<int64_t> master_port(const Environment& env, bool slurm) {
  if (!env.has("MASTER_PORT")) {
    if (slurm && env.has("SLURM_JOB_ID")) return slurm_port(env);
    return missing("MASTER_ADDR is set but MASTER_PORT is not");
  }
  // torchrun's agent itself listens on MASTER_PORT.
  const bool agent = env.has("TORCHELASTIC_RUN_ID");
  const auto port = env.number("MASTER_PORT", 1, agent ? 65534 : 65535);
  if (!port.ok()) return port.status();
  return port.value() + (agent ? 1 : 0);
}

// Prefers the step's own list: a step may run on a subset of the job's nodes.
Result<std::string> slurm_host(const Environment& env) {
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
    if (!env.has(name)) continue;
    const auto host = first_slurm_host(env.text(name));
    return host.ok() ? host : host.status().with_context(name);
  }
  return missing(
      "SLURM_JOB_NODELIST is not set: set MASTER_ADDR and MASTER_PORT, or R2CCL_COMM_ID");
}

Result<HostPort> find_rendezvous(const Environment& env, const std::string& comm_id, bool slurm) {
  if (!comm_id.empty()) {
    const auto where = parse_host_port(comm_id);
    return where.ok() ? where : where.status().with_context("R2CCL_COMM_ID");
  }
  HostPort where{env.text("MASTER_ADDR"), 0};
  if (where.host.empty()) {
    if (!slurm && env.has("MASTER_PORT"))
      return missing("MASTER_PORT is set but MASTER_ADDR is not");
    if (!slurm) {
      return missing(
          "the launcher does not say where the ranks meet: set R2CCL_COMM_ID=host:port, or "
          "MASTER_ADDR and MASTER_PORT, with the host of rank 0 and a free port there");
    }
    const auto host = slurm_host(env);
    if (!host.ok()) return host.status();
    where.host = host.value();
  }
  const auto port = master_port(env, slurm);
  if (!port.ok()) return port.status();
  where.port = static_cast<uint16_t>(port.value());
  return where;
}

// Each agent of torchrun counts only the restarts that it caused itself, so ranks of different
// agents may have different counts.
bool has_common_restart_count(const Environment& env) {
  return !env.has("LOCAL_WORLD_SIZE") || env.text("LOCAL_WORLD_SIZE") == env.text("WORLD_SIZE");
}

// The name tells this run from other runs that may meet at the same place. Each variable here has
// the same value on all ranks of one run.
std::string name_job(const Environment& env, const Launch& launch) {
  std::string name = launch.launcher;
  for (const char* part :
       {"TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT",
        "OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE", "PMI_JOBID"}) {
    name += "/" + env.text(part);
  }
  name += "/";
  if (has_common_restart_count(env)) name += env.text("TORCHELASTIC_RESTART_COUNT");
  // Use only the port: ranks may know the host by different names.
  return name + "/" + (launch.rendezvous ? std::to_string(launch.rendezvous->port) : "");
}

// Returns the launcher, and fills in its name and its ranks.
Result<const Launcher*> detect_ranks(const Environment& env, Launch& launch) {
  const auto found = find_launcher(env);
  if (!found.ok()) return found.status();
  const Launcher& launcher = *found.value();
  launch.launcher = launcher.name;
  R2CCL_RETURN_IF_ERROR(check_contradiction(env, launcher));
  R2CCL_RETURN_IF_ERROR(check_launchers_agree(env));
  R2CCL_RETURN_IF_ERROR(read_ranks(env, launcher, launch));
  return found;
}

}  // namespace

std::optional<LaunchedRank> find_launched_rank(const GetEnv& get_env) {
  const Environment env(get_env);
  Launch launch;
  if (!detect_ranks(env, launch).ok()) return std::nullopt;
  return LaunchedRank{launch.rank, launch.rank_count};
}

Result<Launch> detect_launch(const GetEnv& get_env, const std::string& comm_id) {
  const Environment env(get_env);
  Launch launch;
  const auto found = detect_ranks(env, launch);
  if (!found.ok()) return found.status();
  const Launcher& launcher = *found.value();
  const auto where = find_rendezvous(env, comm_id, &launcher == &kLaunchers.back());
  if (where.ok()) launch.rendezvous = where.value();
  // A lone rank needs no rendezvous.
  if (!where.ok() && launch.rank_count > 1) return where.status();
  launch.job_name = name_job(env, launch);
  return launch;
}

// Parses "node[07,09-12]-ib,login": the name before the first bracket, the first number in the
// bracket, and the text up to the next comma. A name may hold several brackets.
Result<std::string> first_slurm_host(const std::string& node_list) {
  const auto malformed = [&] {
    return Status(Code::invalid_argument, "\"" + node_list + "\" is not a list of hosts");
  };
  std::string host;
  for (size_t at = 0; at < node_list.size() && node_list[at] != ','; ++at) {
    if (node_list[at] != '[') {
      host += node_list[at];
      continue;
    }
    const size_t close = node_list.find(']', at);
    const size_t end = node_list.find_first_of(",-]", at + 1);
    if (close == std::string::npos || end == at + 1) return malformed();
    const std::string number = node_list.substr(at + 1, end - at - 1);
    if (number.find_first_not_of("0123456789") != std::string::npos) return malformed();
    host += number;
    at = close;
  }
  if (host.empty() || host.find_first_of("] \t/") != std::string::npos) return malformed();
  return host;
}

}  // namespace r2ccl
