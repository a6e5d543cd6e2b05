#include "tools/plan/plan_options.h"

#include <algorithm>
#include <sstream>

#include "plan/cost_model.h"
#include "plan/text/view_text.h"
#include "tools/common/parse.h"

namespace r2ccl::tools {
namespace {

constexpr uint64_t kBytesShownMax = uint64_t{64} << 30;

Status wrong_option(const std::string& what) {
  return {Code::invalid_argument, what};
}

// Returns the hosts that "4,4" describes: the ranks of each host, in a row.
Result<HostGroups> hosts_of(const std::string& text, int ranks) {
  std::vector<uint32_t> host_of;
  const auto left = [&] { return static_cast<size_t>(ranks) - host_of.size(); };
  std::istringstream sizes(text.empty() || text.back() != ',' ? text : text + ",");
  uint32_t host = 0;
  for (std::string word; std::getline(sizes, word, ','); ++host) {
    const std::optional<int> size = parse_int(word);
    if (!size || *size < 1) return wrong_option("--hosts: '" + word + "' is no number of ranks");
    if (static_cast<size_t>(*size) > left()) {
      return wrong_option("--hosts: host " + std::to_string(host) + " has " + word +
                          " ranks, and " + std::to_string(left()) + " of " + std::to_string(ranks) +
                          " are left");
    }
    host_of.insert(host_of.end(), static_cast<size_t>(*size), host);
  }
  if (!text.empty() && left() > 0) {
    return wrong_option("--hosts: the hosts have " + std::to_string(host_of.size()) + " of " +
                        std::to_string(ranks) + " ranks");
  }
  return HostGroups(host_of);
}

std::string list_of_types() {
  std::string list;
  for (const DataType each : kDataTypes)
    list += (list.empty() ? "" : ", ") + std::string(to_string(each));
  return list;
}

Result<DomainCosts> costs_of(const std::string& option, const std::string& text) {
  if (const auto costs = parse_domain_costs(text)) return *costs;
  return wrong_option(option + ": '" + text + "' is not seven numbers of ns, as " +
                      to_string(PlanCosts().network));
}

// Returns the default costs between hosts of so many ranks, which share the NIC of their host.
DomainCosts network_costs_of(uint64_t ranks) {
  DomainCosts costs = PlanCosts().network;
  costs.kib_ps *= ranks;
  costs.fan_kib_ps *= ranks;
  return costs;
}

Result<View> view_of(const CallOptions& options, const PlanKey& key) {
  const size_t hosts =
      key.hosts.empty() ? static_cast<size_t>(key.rank_count) : key.hosts.hosts().size();
  if (!options.view.empty()) {
    const Result<View> view = parse_view(options.view, hosts);
    return view.ok() ? view : view.status().with_context("--view");
  }
  if (options.losses.empty()) return View();
  const Result<std::vector<HostRates>> rates = parse_losses(options.losses, hosts, 1);
  const Result<View> view = rates.ok() ? View::of(rates.value()) : rates.status();
  return view.ok() ? view : view.status().with_context("--loss");
}

}  // namespace

Status apply(const CallOptions& options, PlanKey& key) {
  const auto type = std::ranges::find_if(
      kDataTypes, [&](DataType each) { return options.type == to_string(each); });
  if (type == kDataTypes.end()) {
    return wrong_option("--type: no type '" + options.type + "'; there are " + list_of_types());
  }
  if (options.root >= key.rank_count) {
    return wrong_option("--root: " + std::to_string(options.root) + " is none of " +
                        std::to_string(key.rank_count) + " ranks");
  }
  const uint64_t most = kBytesShownMax / size_of(*type) / static_cast<uint64_t>(key.rank_count);
  if (options.count > most) {
    return wrong_option("--count: " + std::to_string(*options.count) + " is more than " +
                        std::to_string(most) +
                        ", which is the most for this type and number of ranks");
  }
  const Result<DomainCosts> memory = costs_of("--memory-costs", options.memory_costs);
  R2CCL_RETURN_IF_ERROR(memory.status());
  const Result<HostGroups> hosts = hosts_of(options.hosts, key.rank_count);
  R2CCL_RETURN_IF_ERROR(hosts.status());
  const uint64_t each = hosts.value().empty() ? 1 : hosts.value().largest();
  const Result<DomainCosts> network = options.network_costs.empty()
                                          ? network_costs_of(each)
                                          : costs_of("--network-costs", options.network_costs);
  R2CCL_RETURN_IF_ERROR(network.status());
  key.type = *type;
  key.root = Rank(options.root);
  key.count = options.count.value_or(key.count);
  key.hosts = hosts.value();
  const Result<View> view = view_of(options, key);
  R2CCL_RETURN_IF_ERROR(view.status());
  key.view = view.value();
  // The costs of a job are bounded.
  key.costs = {memory.value(), network.value()};
  const bool of_a_job = !options.network_costs.empty() || memory.value() != PlanCosts().memory;
  if (of_a_job) key.costs = bounded(key.costs);
  return Status::ok_status();
}

void add_call_options(CLI::App* command, CallOptions* options) {
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
  CLI::Option* const view =
      command
          ->add_option(
              "--view", options->view,
              "What the NICs of each host can carry, in 1/1000 of a whole NIC: "
              "1000,500/3*2x1000 is a host whose second NIC is at one half, and three with "
              "two whole NICs; 1000:250 sends at the full rate and receives at a quarter")
          ->type_name("RATE,.../RATE,...");
  command
      ->add_option("--loss", options->losses,
                   "The same in short: percent of the bandwidth that the first hosts have lost")
      ->type_name("PERCENT,...")
      ->excludes(view);
  const char* const costs =
      ", in ns: of a hop, a message more, 1024 bytes to one and to several ranks, where all ranks "
      "act; of a hop, a message more and 1024 bytes, where one rank of each host does. A job logs "
      "its own at level INFO";
  command
      ->add_option("--memory-costs", options->memory_costs,
                   std::string("Costs between ranks of a host") + costs)
      ->type_name("N,N,N,N,N,N,N")
      ->capture_default_str();
  command
      ->add_option(
          "--network-costs", options->network_costs,
          "The same between hosts: where all ranks act, 1024 bytes are those of each rank "
          "(default " +
              to_string(PlanCosts().network) +
              ", a host with one NIC of 1 Gbit/s; n ranks of a host share it, so the third "
              "and fourth are n times as much)")
      ->type_name("N,N,N,N,N,N,N");
}

std::vector<CLI::Option*> add_output_options(CLI::App* command, OutputOptions* options) {
  CLI::Option* const rank =
      command->add_option("--rank", options->rank, "Show the steps of this rank alone")
          ->check(CLI::Range(0, kRanksShownMax - 1));
  CLI::Option* const as_json = command->add_flag(
      "--json", options->json, "Print JSON; `r2ccl plan check` reads that of all ranks");
  CLI::Option* const as_text =
      command
          ->add_flag("--text", options->text,
                     "Print the text of all ranks, which `r2ccl plan check` reads")
          ->excludes(as_json)
          ->excludes(rank);
  CLI::Option* const svg =
      command->add_option("--svg", options->svg, "Draw the transfers into this file")
          ->type_name("FILE");
  return {rank, as_json, as_text, svg};
}

}  // namespace r2ccl::tools
