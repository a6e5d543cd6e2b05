// `r2ccl plan`: shows the plan of a collective, and proves a plan that a file describes.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>
#include <sstream>

#include "plan/analysis/checker.h"
#include "plan/cost_model.h"
#include "plan/text/plan_text.h"
#include "plan/text/plan_words.h"
#include "tools/common/command.h"
#include "tools/common/parse.h"
#include "tools/plan/plan_json.h"
#include "tools/plan/plan_view.h"

namespace r2ccl::tools {
namespace {

// Bounds of a plan that is shown: it and its proof take up to 1 KB for each step.
constexpr int kRanksShownMax = 256;
constexpr uint64_t kBytesShownMax = uint64_t{64} << 30;
constexpr size_t kStepsShownMax = 1'000'000;

struct ShowPlanOptions {
  std::string collective;
  int ranks = 0;
  uint64_t count = 0;
  std::string type = "float32";
  int root = 0;
  std::string hosts;
  std::string algorithm = "automatic";
  std::string memory_costs = to_string(PlanCosts().memory);
  std::string network_costs = to_string(PlanCosts().network);
  bool in_place = false;
  bool reproducible = false;
  int rank = -1;
  bool json = false;
  bool text = false;
};

Status wrong(const std::string& what) {
  return {Code::invalid_argument, what};
}

// Returns the hosts that "4,4" describes: the ranks of each host, in a row.
Result<HostGroups> hosts_of(const std::string& text, int ranks) {
  std::vector<uint32_t> host_of;
  const auto left = [&] { return static_cast<size_t>(ranks) - host_of.size(); };
  std::istringstream sizes(text);
  uint32_t host = 0;
  for (std::string word; std::getline(sizes, word, ','); ++host) {
    const std::optional<int> size = parse_int(word);
    if (!size || *size < 1) return wrong("--hosts: '" + word + "' is no number of ranks");
    if (static_cast<size_t>(*size) > left()) {
      return wrong("--hosts: host " + std::to_string(host) + " has " + word + " ranks, and " +
                   std::to_string(left()) + " of " + std::to_string(ranks) + " are left");
    }
    host_of.insert(host_of.end(), static_cast<size_t>(*size), host);
  }
  if (!text.empty() && left() > 0) {
    return wrong("--hosts: the hosts have " + std::to_string(host_of.size()) + " of " +
                 std::to_string(ranks) + " ranks");
  }
  return HostGroups(host_of);
}

Result<PlanKey> key_of(const ShowPlanOptions& options) {
  PlanKey key;
  const auto collective = value_of(kCollectiveWords, options.collective);
  if (!collective) {
    return wrong("no collective '" + options.collective + "'; there are " +
                 list_of_words(kCollectiveWords));
  }
  const auto algorithm = value_of(kAlgorithmWords, options.algorithm);
  if (!algorithm) {
    return wrong("--algorithm: no algorithm '" + options.algorithm + "'; there are " +
                 list_of_words(kAlgorithmWords));
  }
  const auto type = std::ranges::find_if(
      kDataTypes, [&](DataType each) { return options.type == to_string(each); });
  if (type == kDataTypes.end()) return wrong("--type: no type '" + options.type + "'");
  if (options.root >= options.ranks) {
    return wrong("--root: " + std::to_string(options.root) + " is none of " +
                 std::to_string(options.ranks) + " ranks");
  }
  if (options.rank >= options.ranks) {
    return wrong("--rank: " + std::to_string(options.rank) + " is none of " +
                 std::to_string(options.ranks) + " ranks");
  }
  const uint64_t most = kBytesShownMax / size_of(*type) / static_cast<uint64_t>(options.ranks);
  if (options.count > most) {
    return wrong("--count: " + std::to_string(options.count) + " is more than " +
                 std::to_string(most) + ", which is the most for this type and number of ranks");
  }
  const auto memory = parse_domain_costs(options.memory_costs);
  const auto network = parse_domain_costs(options.network_costs);
  if (!memory || !network) return wrong("--memory-costs and --network-costs have seven numbers");
  Result<HostGroups> hosts = hosts_of(options.hosts, options.ranks);
  R2CCL_RETURN_IF_ERROR(hosts.status());
  key.collective = *collective;
  key.algorithm = *algorithm;
  key.type = *type;
  key.in_place = options.in_place;
  key.reproducible = options.reproducible;
  key.rank_count = options.ranks;
  key.root = Rank(options.root);
  key.count = options.count;
  key.hosts = hosts.value();
  key.costs = bounded({*memory, *network});
  return key;
}

Result<WholePlan> plan_of(const PlanKey& key) {
  WholePlan plan;
  size_t steps = 0;
  for (int32_t rank = 0; rank < key.rank_count; ++rank) {
    plan.keys.push_back(key);
    plan.plans.push_back(make_plan(key, Rank(rank)));
    steps += plan.plans.back().steps.size();
    if (steps > kStepsShownMax) {
      return wrong("the plan has more than " + std::to_string(kStepsShownMax) +
                   " steps; take fewer ranks or elements");
    }
  }
  return plan;
}

int show(const ShowPlanOptions& options) {
  const Result<PlanKey> key = key_of(options);
  if (!key.ok()) return report_error("plan show", key.status());
  const Result<WholePlan> plan = plan_of(key.value());
  if (!plan.ok()) return report_error("plan show", plan.status());
  const Status proof = check_plan(plan.value().keys, plan.value().plans);
  const std::optional<Rank> only =
      options.rank < 0 ? std::nullopt : std::optional(Rank(options.rank));
  const std::string text = options.text   ? print_plan(plan.value())
                           : options.json ? plan_json(plan.value(), only, proof)
                                          : describe_plan(plan.value(), only, proof);
  std::fputs(text.c_str(), stdout);
  return proof.ok() ? 0 : kExitFailed;
}

// Reads at most one byte more than a plan may have.
Result<std::string> read_text(const std::string& path) {
  std::FILE* in = path == "-" ? stdin : std::fopen(path.c_str(), "rb");
  if (in == nullptr) return system_error(path, errno);
  std::string text;
  char block[64 * 1024];
  while (text.size() <= kPlanTextBytesMax) {
    const size_t length = std::fread(block, 1, sizeof block, in);
    text.append(block, length);
    if (length == 0) break;
  }
  const bool failed = std::ferror(in) != 0;
  const int error = errno;
  if (in != stdin) std::fclose(in);
  if (failed) return system_error(path, error);
  return text;
}

Result<WholePlan> parse_either(const std::string& form) {
  const size_t first = form.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string::npos && form[first] == '{';
  if (!is_json || form.size() > kPlanTextBytesMax) return parse_plan(form);
  const Result<std::string> text = plan_text_of_json(form);
  R2CCL_RETURN_IF_ERROR(text.status());
  Result<WholePlan> plan = parse_plan(text.value());
  return plan.ok() ? plan : plan.status().with_context("in the text form");
}

int check(const std::string& path) {
  const Result<std::string> text = read_text(path);
  if (!text.ok()) return report_error("plan check", text.status());
  const Result<WholePlan> plan = parse_either(text.value());
  if (!plan.ok()) return report_error("plan check", plan.status().with_context(path));
  const Status proof = check_plan(plan.value().keys, plan.value().plans);
  std::printf("%s%s\n", proof.ok() ? "proved" : "not proved: ", proof.message().c_str());
  return proof.ok() ? 0 : kExitFailed;
}

void add_show(CLI::App* plan, Action* action) {
  CLI::App* command = plan->add_subcommand("show", "Show the plan of a collective, and prove it");
  auto options = std::make_shared<ShowPlanOptions>();
  command
      ->add_option("COLLECTIVE", options->collective,
                   "all_reduce, broadcast, barrier, reduce, all_gather, reduce_scatter, gather, "
                   "scatter or all_to_all")
      ->required();
  command->add_option("-p,--ranks", options->ranks, "Ranks")
      ->check(CLI::Range(1, kRanksShownMax))
      ->required();
  command
      ->add_option("-c,--count", options->count,
                   "Elements of the vector, or of each block where the collective has blocks")
      ->capture_default_str();
  command->add_option("-t,--type", options->type, "Element type")
      ->type_name("TYPE")
      ->capture_default_str();
  command->add_option("--root", options->root, "Root")
      ->check(CLI::Range(0, kRanksShownMax - 1))
      ->capture_default_str();
  command
      ->add_option("--hosts", options->hosts,
                   "Ranks on each host, as 4,4 (default: a host for each rank)")
      ->type_name("N,N...");
  command
      ->add_option("--algorithm", options->algorithm,
                   "automatic, ring, halving_doubling, recursive_doubling, hierarchical or direct; "
                   "a collective that lacks it takes another one")
      ->type_name("NAME")
      ->capture_default_str();
  const char* const costs =
      ", in ns: of a hop, a message more, 1024 bytes to one and to several ranks, where all ranks "
      "act; "
      "of a hop, a message more and 1024 bytes, where one rank of each host does. A job logs its "
      "own "
      "at level INFO";
  command
      ->add_option("--memory-costs", options->memory_costs,
                   std::string("Costs between ranks of a host") + costs)
      ->type_name("N,N,N,N,N,N,N")
      ->capture_default_str();
  command->add_option("--network-costs", options->network_costs, "The same between hosts")
      ->type_name("N,N,N,N,N,N,N")
      ->capture_default_str();
  command->add_flag("--in-place", options->in_place, "The input lies in the output");
  command->add_flag("--reproducible", options->reproducible,
                    "Reduce floating-point elements in rank order");
  command->add_option("--rank", options->rank, "Show the steps of this rank alone")
      ->check(CLI::Range(0, kRanksShownMax - 1));
  CLI::Option* as_json =
      command->add_flag("--json", options->json, "Print JSON, which `r2ccl plan check` reads");
  command
      ->add_flag("--text", options->text,
                 "Print the text of all ranks, which `r2ccl plan check` reads")
      ->excludes(as_json);
  command->footer("Exit status: 0; 1 when the plan is not proved; 2 on an error.");
  command->callback([options, action] { *action = [options] { return show(*options); }; });
}

void add_check(CLI::App* plan, Action* action) {
  CLI::App* command =
      plan->add_subcommand("check", "Prove a plan of all ranks that a file describes");
  auto path = std::make_shared<std::string>();
  command->add_option("FILE", *path, "The file; - is standard input")->required();
  command->footer(
      "`r2ccl plan show --text` or `--json` writes one to begin with; docs/plans.md describes the "
      "forms.\n\n"
      "Exit status: 0 when it is proved; 1 when not; 2 on an error.");
  command->callback([path, action] { *action = [path] { return check(*path); }; });
}

}  // namespace

void add_plan_command(CLI::App* app, Action* action) {
  CLI::App* plan = app->add_subcommand(
      "plan", "Show the messages of a collective, and prove that they are right");
  plan->require_subcommand(1);
  add_show(plan, action);
  add_check(plan, action);
}

}  // namespace r2ccl::tools
