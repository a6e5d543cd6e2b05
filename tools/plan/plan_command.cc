// `r2ccl plan`: shows the plan of a collective, and proves a plan that a file describes.
#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>

#include "plan/analysis/checker.h"
#include "plan/text/plan_text.h"
#include "plan/text/plan_words.h"
#include "tools/common/command.h"
#include "tools/common/output_file.h"
#include "tools/plan/plan_explain.h"
#include "tools/plan/plan_json.h"
#include "tools/plan/plan_options.h"
#include "tools/plan/plan_view.h"

namespace r2ccl::tools {
namespace {

struct ShowPlanOptions {
  std::string collective;
  int ranks = 0;
  std::string algorithm = "automatic";
  bool in_place = false;
  bool reproducible = false;
  CallOptions call;
  OutputOptions output;
};

struct CheckPlanOptions {
  std::string path;
  bool show = false;
  OutputOptions output;
};

Status wrong(const std::string& what) {
  return {Code::invalid_argument, what};
}

Result<PlanKey> key_of(const ShowPlanOptions& options) {
  PlanKey key;
  const auto collective = value_of(kCollectiveWords, options.collective);
  if (!collective) {
    return wrong("no collective '" + options.collective + "'; there are " +
                 list_of_words(kCollectiveWords));
  }
  const auto algorithm = algorithm_named(options.algorithm);
  if (!algorithm) {
    return wrong("--algorithm: no algorithm '" + options.algorithm + "'; there are " +
                 list_of_words(kAlgorithmWords));
  }
  if (options.in_place && *collective == Collective::all_to_all) {
    return wrong("--in-place: an AllToAll writes blocks that it has yet to send; leave it out");
  }
  key.collective = *collective;
  key.algorithm = *algorithm;
  key.in_place = options.in_place;
  key.reproducible = options.reproducible;
  key.rank_count = options.ranks;
  R2CCL_RETURN_IF_ERROR(apply(options.call, key));
  return key;
}

Status too_many_steps() {
  return wrong("the plan has more than " + std::to_string(kStepsShownMax) +
               " steps; take fewer ranks or elements");
}

Result<WholePlan> plan_of(const PlanKey& key) {
  WholePlan plan;
  size_t steps = 0;
  for (int32_t rank = 0; rank < key.rank_count; ++rank) {
    plan.keys.push_back(key);
    plan.plans.push_back(make_plan(key, Rank(rank)));
    steps += plan.plans.back().steps.size();
    if (steps > kStepsShownMax) return too_many_steps();
  }
  return plan;
}

// Prints the plan and its proof, and returns the exit status.
int print(const char* command, WholePlan plan, const std::string& file,
          const OutputOptions& options) {
  const auto ranks = static_cast<int>(plan.plans.size());
  if (options.rank >= ranks) {
    return report_error(command, wrong("--rank: " + std::to_string(options.rank) + " is none of " +
                                       std::to_string(ranks) + " ranks"));
  }
  const std::optional<Rank> only =
      options.rank < 0 ? std::nullopt : std::optional(Rank(options.rank));
  const ShownPlan shown = prove_and_time(std::move(plan), file, only);
  const std::string text = options.text   ? print_plan(shown.plan)
                           : options.json ? plan_json(shown)
                                          : describe_plan(shown);
  std::fputs(text.c_str(), stdout);
  if (!shown.proof.ok()) return kExitFailed;
  if (options.svg.empty()) return 0;
  const Status drawn = write_text(options.svg, plan_svg(shown));
  return drawn.ok() ? 0 : report_error(command, drawn);
}

int show(const ShowPlanOptions& options) {
  const Status drawable = check_writable("--svg", options.output.svg);
  if (!drawable.ok()) return report_error("plan show", drawable);
  const Result<PlanKey> key = key_of(options);
  if (!key.ok()) return report_error("plan show", key.status());
  Result<WholePlan> plan = plan_of(key.value());
  if (!plan.ok()) return report_error("plan show", plan.status());
  return print("plan show", std::move(plan).value(), "", options.output);
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

Result<WholePlan> parse_either(std::string form) {
  if (form.starts_with("\xef\xbb\xbf")) form.erase(0, 3);  // a mark of UTF-8
  const size_t first = form.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string::npos && form[first] == '{';
  if (!is_json || form.size() > kPlanTextBytesMax) return parse_plan(form);
  const Result<std::string> text = plan_text_of_json(form);
  R2CCL_RETURN_IF_ERROR(text.status());
  Result<WholePlan> plan = parse_plan(text.value());
  return plan.ok() ? plan : plan.status().with_context("in the text form");
}

int check(const CheckPlanOptions& options) {
  const Status drawable = check_writable("--svg", options.output.svg);
  if (!drawable.ok()) return report_error("plan check", drawable);
  Result<std::string> text = read_text(options.path);
  if (!text.ok()) return report_error("plan check", text.status());
  Result<WholePlan> plan = parse_either(std::move(text).value());
  if (!plan.ok()) return report_error("plan check", plan.status().with_context(options.path));
  if (options.show) {
    size_t steps = 0;
    for (const RankPlan& part : plan.value().plans) steps += part.steps.size();
    if (steps > kStepsShownMax) return report_error("plan check", too_many_steps());
    return print("plan check", std::move(plan).value(), options.path, options.output);
  }
  const Status proof = check_plan(plan.value().keys, plan.value().plans);
  std::printf("%s%s\n", proof.ok() ? "proved" : "not proved: ", proof.message().c_str());
  return proof.ok() ? 0 : kExitFailed;
}

int explain(const ShowPlanOptions& options) {
  const Result<PlanKey> key = key_of(options);
  if (!key.ok()) return report_error("plan explain", key.status());
  const std::string text =
      options.output.json ? explanation_json(key.value()) : explain_plan(key.value());
  std::fputs(text.c_str(), stdout);
  return 0;
}

// CLI11 would take -1 for the largest number.
std::string refuse_minus(const std::string& text) {
  return text.starts_with('-') ? "'" + text + "' is less than 0" : "";
}

void add_call(CLI::App* command, ShowPlanOptions* options) {
  options->call.count = 0;
  command
      ->add_option("COLLECTIVE", options->collective,
                   "all_reduce, broadcast, barrier, reduce, all_gather, reduce_scatter, gather, "
                   "scatter or all_to_all")
      ->required();
  command->add_option("-p,--ranks", options->ranks, "Ranks")
      ->check(CLI::Range(1, kRanksShownMax))
      ->required();
  command
      ->add_option("-c,--count", options->call.count,
                   "Elements of the vector, or of each block where the collective has blocks")
      ->check(refuse_minus)
      ->default_str("0");
  command
      ->add_option("--algorithm", options->algorithm,
                   list_of_words(kAlgorithmWords) +
                       ", or as R2CCL_ALGO has it; a collective that lacks the algorithm takes "
                       "another one")
      ->type_name("NAME")
      ->capture_default_str();
  command->add_flag("--in-place", options->in_place, "The input lies in the output");
  command->add_flag("--reproducible", options->reproducible,
                    "Reduce floating-point elements in rank order");
  add_call_options(command, &options->call);
}

void add_show(CLI::App* plan, Action* action) {
  CLI::App* command = plan->add_subcommand("show", "Show the plan of a collective, and prove it");
  auto options = std::make_shared<ShowPlanOptions>();
  add_call(command, options.get());
  add_output_options(command, &options->output);
  command->footer("Exit status: 0; 1 when the plan is not proved; 2 on an error.");
  command->callback([options, action] { *action = [options] { return show(*options); }; });
}

void add_explain(CLI::App* plan, Action* action) {
  CLI::App* command = plan->add_subcommand(
      "explain", "Tell which algorithm a call takes, and the predicted times of all");
  auto options = std::make_shared<ShowPlanOptions>();
  add_call(command, options.get());
  command->add_flag("--json", options->output.json, "Print JSON");
  command->footer(
      "The costs are those of the fastest host. A job measures its own at the start, and logs\n"
      "them at level INFO.\n\n"
      "Exit status: 0; 2 on an error.");
  command->callback([options, action] { *action = [options] { return explain(*options); }; });
}

void add_check(CLI::App* plan, Action* action) {
  CLI::App* command =
      plan->add_subcommand("check", "Prove a plan of all ranks that a file describes");
  auto options = std::make_shared<CheckPlanOptions>();
  command->add_option("FILE", options->path, "The file; - is standard input")->required();
  CLI::Option* const show = command->add_flag("--show", options->show, "Show it as plan show does");
  for (CLI::Option* option : add_output_options(command, &options->output)) option->needs(show);
  command->footer(
      "`r2ccl plan show --text` or `--json` writes one to begin with; docs/plans.md describes the "
      "forms.\n\n"
      "Exit status: 0 when it is proved; 1 when not; 2 on an error.");
  command->callback([options, action] { *action = [options] { return check(*options); }; });
}

}  // namespace

void add_plan_command(CLI::App* app, Action* action) {
  CLI::App* plan = app->add_subcommand(
      "plan", "Show the messages of a collective, and prove that they are right");
  plan->require_subcommand(1);
  add_show(plan, action);
  add_explain(plan, action);
  add_check(plan, action);
}

}  // namespace r2ccl::tools
