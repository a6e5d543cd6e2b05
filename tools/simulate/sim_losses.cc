#include "tools/simulate/sim_losses.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <vector>

#include "base/mutant.h"
#include "sim/trial/loss_trial.h"
#include "tools/common/output_file.h"
#include "tools/common/text_table.h"
#include "tools/simulate/sim_mutants.h"

namespace r2ccl::tools {

using namespace sim;
namespace {

using nlohmann::json;

constexpr TimeNs kInTime = 2 * kSecond;

struct Options {
  std::string seeds = "1..100";
  std::string mutant = "none";
  std::string json_path;
  bool until_found = false;
};

// The trials of one range of loss.
struct LossRange {
  uint32_t below_ppm;
  const char* name;
  uint64_t trials = 0;
  uint64_t in_time = 0;
  uint64_t named = 0;
  uint64_t pairs = 0;
  uint64_t several = 0;  // more than one verdict about one fault
  std::vector<TimeNs> times{};
};

class Losses {
 public:
  explicit Losses(Options options) : options_(std::move(options)) {}

  int run() {
    const auto mutant = mutant_named(options_.mutant);
    if (!mutant.ok()) return report_error("sim losses", mutant.status());
    static const std::regex kRange(R"((\d{1,18})(?:\.\.(\d{1,18}))?)");
    std::smatch match;
    if (!std::regex_match(options_.seeds, match, kRange)) {
      return report_error("sim losses", {Code::invalid_argument, "--seeds " + options_.seeds +
                                                                     ": write A..B, with A <= B"});
    }
    if (const Status can = check_writable("--json", options_.json_path); !can.ok()) {
      return report_error("sim losses", can);
    }
#ifdef R2CCL_MUTANTS
    active_mutant = mutant.value();
#endif
    const uint64_t first = std::stoull(match[1]);
    const uint64_t last = match[2].matched ? std::stoull(match[2]) : first;
    for (uint64_t seed = first; seed <= last; ++seed) {
      take(random_loss_trial(seed));
      if (options_.until_found && !failed_.empty()) break;
    }
    return conclude();
  }

 private:
  void fail(const LossTrial& trial, const std::string& why) {
    failed_.push_back({{"seed", trial.seed}, {"violation", why}});
    std::printf("%s: %s\n", describe(trial).c_str(), why.c_str());
    std::fflush(stdout);
  }

  void take(const LossTrial& trial) {
    ++seeds_;
    const LossOutcome outcome = sim::run(trial);
    if (!outcome.connected) return fail(trial, "it does not connect");
    for (const std::string& each : outcome.innocent) fail(trial, "an innocent is named: " + each);
    if (!trial.loses()) {
      ++healthy_;
      return;
    }
    LossRange& row = *std::ranges::find_if(
        rows_, [&](const LossRange& each) { return trial.lossy.faults.loss_ppm < each.below_ppm; });
    ++row.trials;
    row.named += outcome.named ? 1 : 0;
    row.in_time += outcome.named && outcome.named_after <= kInTime ? 1 : 0;
    row.pairs += !outcome.named && outcome.pair_named ? 1 : 0;
    row.several += outcome.verdicts.size() > 1 ? 1 : 0;
    if (outcome.named) row.times.push_back(outcome.named_after);
    if (!outcome.named && options_.until_found) fail_if_plain(trial);
    if (outcome.verdicts.size() > 1) tell_several(trial, outcome);
  }

  void tell_several(const LossTrial& trial, const LossOutcome& outcome) {
    std::string text = "one fault, several verdicts";
    for (const std::string& each : outcome.verdicts) text += "; " + each;
    if (options_.until_found) return fail(trial, text);
    std::printf("%s: %s\n", describe(trial).c_str(), text.c_str());
  }

  // A trial without other faults must name a NIC that loses this much both ways.
  void fail_if_plain(const LossTrial& trial) {
    const NicFaults& faults = trial.lossy.faults;
    const bool plain = faults.loss_ppm >= 30'000 && faults.loss_ppm <= 100'000 &&
                       faults.lost == NicFaults::Way::both && trial.others.empty();
    if (plain) fail(trial, "the lossy NIC is not named");
  }

  int conclude() {
    std::vector<TextRow> text = {{"loss", "trials", "in 2 s", "in 6 s", "pair only",
                                  "several verdicts", "median s", "95 % s"}};
    json rows = json::array();
    for (LossRange& row : rows_) {
      if (row.trials == 0) continue;
      std::ranges::sort(row.times);
      const auto at = [&](double share) {
        if (row.times.empty()) return std::string("-");
        const auto index = static_cast<size_t>(share * static_cast<double>(row.times.size() - 1));
        char digits[32];
        std::snprintf(digits, sizeof digits, "%.2f", static_cast<double>(row.times[index]) / 1e9);
        return std::string(digits);
      };
      text.push_back({row.name, std::to_string(row.trials), std::to_string(row.in_time),
                      std::to_string(row.named), std::to_string(row.pairs),
                      std::to_string(row.several), at(0.5), at(0.95)});
      rows.push_back({{"loss", row.name},
                      {"trials", row.trials},
                      {"in_time", row.in_time},
                      {"named", row.named},
                      {"pairs", row.pairs},
                      {"several", row.several}});
    }
    std::printf("%s%llu trials, %llu of them without a loss; failed: %zu\n", layout(text).c_str(),
                static_cast<unsigned long long>(seeds_), static_cast<unsigned long long>(healthy_),
                failed_.size());
    if (!options_.json_path.empty()) {
      const json document = {{"seeds", seeds_}, {"rows", rows}, {"failed", failed_}};
      const Status written = write_text(options_.json_path, document.dump(1) + "\n");
      if (!written.ok()) return report_error("sim losses", written);
    }
    return failed_.empty() ? 0 : kExitFailed;
  }

  const Options options_;
  std::array<LossRange, 6> rows_ = {
      LossRange{3'000, "0.1 to 0.3 %"}, LossRange{10'000, "0.3 to 1 %"},
      LossRange{30'000, "1 to 3 %"},    LossRange{100'000, "3 to 10 %"},
      LossRange{200'000, "10 to 20 %"}, LossRange{UINT32_MAX, "20 to 30 %"}};
  uint64_t seeds_ = 0;
  uint64_t healthy_ = 0;
  json failed_ = json::array();
};

}  // namespace

void add_sim_losses(CLI::App* sim, Action* action) {
  CLI::App* command = sim->add_subcommand(
      "losses", "Random jobs with a NIC that loses packets: is it named, and no other?");
  auto options = std::make_shared<Options>();
  command->add_option("--seeds", options->seeds, "these trials")
      ->type_name("A..B")
      ->capture_default_str();
  command->add_flag("--until-found", options->until_found,
                    "End with the first failure; plain losses without a verdict, and faults with\n"
                    "several, are failures too");
  command->add_option("--mutant", options->mutant, "Break this rule (builds with mutants only)")
      ->type_name("NAME");
  command->add_option("--json", options->json_path, "Write the counts into this file, too")
      ->type_name("FILE");
  command->footer("Runs in one process; give ranges of seeds to several to use more processors.");
  command->callback([options, action] { *action = [options] { return Losses(*options).run(); }; });
}

}  // namespace r2ccl::tools
