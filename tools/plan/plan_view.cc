#include "tools/plan/plan_view.h"

#include <cmath>
#include <utility>
#include <vector>

#include "base/json_writer.h"
#include "plan/analysis/checker.h"
#include "plan/text/plan_words.h"
#include "plan/text/view_text.h"
#include "tools/common/text_table.h"
#include "tools/plan/plan_explain.h"
#include "tools/plan/plan_totals.h"

namespace r2ccl::tools {
namespace {

std::string text_of(const Region& region) {
  return std::string(word_of(kBufferWords, region.buffer)) + "[" + std::to_string(region.offset) +
         ", " + std::to_string(region.offset + region.count) + ")";
}

bool has_source(const Step& step) {
  return step.kind != StepKind::receive;
}
bool has_target(const Step& step) {
  return step.kind != StepKind::send;
}
bool is_reduction(const Step& step) {
  return step.kind == StepKind::receive_reduce || step.kind == StepKind::reduce;
}
// Returns the regions that the step reads.
std::string operands_of(const Step& step) {
  if (!has_source(step)) return "";
  return text_of(step.source) +
         (step.kind == StepKind::reduce ? " and " + text_of(step.addend) : "");
}
bool is_shown(size_t rank, std::optional<Rank> only) {
  return !only || only->value() == static_cast<int32_t>(rank);
}

TextRow row_of(size_t index, const Step& step) {
  std::string after;
  for (const uint32_t before : step.after) {
    after += (after.empty() ? "" : ", ") + std::to_string(before);
  }
  std::string reduction;
  if (is_reduction(step)) {
    reduction =
        std::string(word_of(kOperandsWords, step.operands)) + (step.last_reduction ? ", last" : "");
  }
  return {std::to_string(index),
          word_of(kStepKindWords, step.kind),
          has_peer(step.kind) ? std::to_string(step.peer.value()) : "",
          operands_of(step),
          has_target(step) ? text_of(step.target) : "",
          reduction,
          after};
}

std::string in_us(uint64_t ns) {
  const std::string tenths = std::to_string((ns + 50) / 100 % 10);
  return std::to_string((ns + 50) / 1000) + "." + tenths;
}

std::string counted(uint64_t number, const char* thing) {
  return std::to_string(number) + " " + thing + (number == 1 ? "" : "s");
}

std::string in_us(double ns) {
  return in_us(static_cast<uint64_t>(std::llround(ns)));
}

std::string algorithm_text(const ShownPlan& shown) {
  if (!shown.file.empty()) return "of the file '" + shown.file + "'";
  const PlanKey& key = shown.plan.keys[0];
  const Algorithm used = choose_algorithm(key);
  return std::string(word_of(kAlgorithmWords, used)) +
         (used == key.algorithm
              ? ""
              : std::string(" (asked: ") + word_of(kAlgorithmWords, key.algorithm) + ")");
}

std::string headline(const ShownPlan& shown) {
  const PlanKey& key = shown.plan.keys[0];
  std::string text = std::string(word_of(kCollectiveWords, key.collective)) + " of " +
                     counted(key.count, "element") + " " + to_string(key.type) + ", " +
                     to_string(key.op) + ", " +
                     counted(static_cast<uint64_t>(key.rank_count), "rank");
  if (key.reproducible) text += ", reproducible";
  if (!key.hosts.empty()) text += " on " + counted(key.hosts.hosts().size(), "host");
  if (!key.view.empty()) text += ", view " + to_text(key.view);
  return text + ", root " + std::to_string(key.root.value()) + ", algorithm " +
         algorithm_text(shown);
}

// Returns the predicted time of each algorithm that the call may take, unless it has only one.
std::string predictions_text(const ShownPlan& shown) {
  const PlanKey& key = shown.plan.keys[0];
  if (!shown.file.empty()) return "";
  const std::vector<Prediction> predictions = predictions_of(key);
  if (predictions.empty()) return "";
  std::vector<TextRow> rows = {{"algorithm", "predicted us", ""}};
  for (const auto& [time, algorithm] : predictions) {
    rows.push_back({word_of(kAlgorithmWords, algorithm), in_us(time),
                    algorithm == predictions.front().second ? "used" : ""});
  }
  return "\n" + layout(rows);
}

std::string transfers_text(const ShownPlan& shown) {
  if (shown.transfers.empty()) return "";
  std::vector<TextRow> rows = {{"from", "to", "source", "target", "", "start us", "end us"}};
  for (const Transfer& each : shown.transfers) {
    if (!is_shown(each.from, shown.only) && !is_shown(each.to, shown.only)) continue;
    rows.push_back({std::to_string(each.from), std::to_string(each.to), text_of(each.source),
                    text_of(each.target), each.reduces ? "reduces" : "", in_us(each.sent.start_ns),
                    in_us(each.received.end_ns)});
  }
  return "\ntransfers on an ideal fabric, " + in_us(shown.times.end_ns) + " us:\n" + layout(rows);
}

std::string totals_text(const WholePlan& plan, std::optional<Rank> only) {
  const PlanTotals totals = totals_of(plan);
  std::vector<TextRow> rows = {{"rank", "messages sent", "bytes sent"}};
  for (size_t rank = 0; rank < totals.ranks.size(); ++rank) {
    if (!is_shown(rank, only)) continue;
    rows.push_back({std::to_string(rank), std::to_string(totals.ranks[rank].messages_sent),
                    std::to_string(totals.ranks[rank].bytes_sent)});
  }
  return "\n" + layout(rows) + "\n" + counted(totals.messages, "message") + ", " +
         counted(totals.hops, "hop") + " in the longest chain\n";
}

void write_region(JsonWriter& out, const char* name, const Region& region) {
  out.key(name).begin_object();
  out.field("buffer", word_of(kBufferWords, region.buffer));
  out.field("offset", region.offset).field("count", region.count).end_object();
}

void write_step(JsonWriter& out, const Step& step) {
  out.begin_object().field("kind", word_of(kStepKindWords, step.kind));
  if (has_peer(step.kind)) out.field("peer", step.peer.value());
  if (has_source(step)) write_region(out, "source", step.source);
  if (has_target(step)) write_region(out, "target", step.target);
  if (step.kind == StepKind::reduce) write_region(out, "addend", step.addend);
  if (is_reduction(step)) {
    out.field("operands", word_of(kOperandsWords, step.operands));
    out.field("last_reduction", step.last_reduction);
  }
  out.key("after").begin_array();
  for (const uint32_t before : step.after) out.value(uint64_t{before});
  out.end_array().end_object();
}

void write_list(JsonWriter& out, const char* name, const std::vector<uint64_t>& numbers) {
  if (numbers.empty()) return;
  out.key(name).begin_array();
  for (const uint64_t number : numbers) out.value(number);
  out.end_array();
}

void write_rank(JsonWriter& out, const PlanKey& key, const RankPlan& plan) {
  out.begin_object().field("rank", plan.rank.value());
  out.field("scratch", plan.scratch).field("wide", plan.wide).field("in_place", key.in_place);
  write_list(out, "counts", key.blocks.counts);
  write_list(out, "starts", key.blocks.starts);
  write_list(out, "received_counts", key.received.counts);
  write_list(out, "received_starts", key.received.starts);
  out.key("steps").begin_array();
  for (const Step& step : plan.steps) write_step(out, step);
  out.end_array().end_object();
}

void write_hosts(JsonWriter& out, const PlanKey& key) {
  if (key.hosts.empty()) return;
  out.key("hosts").begin_array();
  for (const std::vector<Rank>& host : key.hosts.hosts()) {
    out.begin_array();
    for (const Rank rank : host) out.value(rank.value());
    out.end_array();
  }
  out.end_array();
}

void write_view(JsonWriter& out, const View& view) {
  if (view.empty()) return;
  out.key("view").begin_array();
  for (const HostRates& host : view.hosts()) {
    out.begin_array();
    for (const NicRate& nic : host) {
      out.begin_object().field("send", uint64_t{nic.send});
      out.field("receive", uint64_t{nic.receive}).end_object();
    }
    out.end_array();
  }
  out.end_array();
}

// As in the text form, the default has no field.
void write_costs(JsonWriter& out, const char* name, const DomainCosts& costs,
                 const DomainCosts& usual) {
  if (costs == usual) return;
  out.key(name).json("[" + to_string(costs) + "]");
}

void write_predictions(JsonWriter& out, const PlanKey& key) {
  const std::vector<Prediction> predictions = predictions_of(key);
  if (predictions.empty()) return;
  out.key("predicted_ns").begin_object();
  for (const auto& [time, algorithm] : predictions) {
    out.field(word_of(kAlgorithmWords, algorithm), time);
  }
  out.end_object();
}

void write_key(JsonWriter& out, const PlanKey& key, const std::string& file) {
  out.field("collective", word_of(kCollectiveWords, key.collective));
  out.field("algorithm", word_of(kAlgorithmWords, key.algorithm));
  if (file.empty()) {
    out.field("algorithm_used", word_of(kAlgorithmWords, choose_algorithm(key)));
  } else {
    out.field("file", file);
  }
  out.field("type", to_string(key.type)).field("op", to_string(key.op));
  out.field("ranks", key.rank_count).field("root", key.root.value()).field("count", key.count);
  if (key.reproducible) out.field("reproducible", true);
  write_hosts(out, key);
  write_view(out, key.view);
  write_costs(out, "memory_costs", key.costs.memory, PlanCosts().memory);
  write_costs(out, "network_costs", key.costs.network, PlanCosts().network);
  if (file.empty()) write_predictions(out, key);
}

void write_transfers(JsonWriter& out, const ShownPlan& shown) {
  out.key("transfers").begin_array();
  for (const Transfer& each : shown.transfers) {
    if (!is_shown(each.from, shown.only) && !is_shown(each.to, shown.only)) continue;
    out.begin_object().field("from", uint64_t{each.from}).field("to", uint64_t{each.to});
    write_region(out, "source", each.source);
    write_region(out, "target", each.target);
    out.field("reduces", each.reduces);
    out.field("start_ns", static_cast<uint64_t>(std::llround(each.sent.start_ns)));
    out.field("end_ns", static_cast<uint64_t>(std::llround(each.received.end_ns))).end_object();
  }
  out.end_array();
  out.field("end_ns", static_cast<uint64_t>(std::llround(shown.times.end_ns)));
}

void write_totals(JsonWriter& out, const PlanTotals& totals) {
  out.key("totals").begin_object();
  out.field("messages", totals.messages).field("hops", totals.hops);
  out.key("ranks").begin_array();
  for (const RankTotals& rank : totals.ranks) {
    out.begin_object().field("messages_sent", rank.messages_sent);
    out.field("bytes_sent", rank.bytes_sent).end_object();
  }
  out.end_array().end_object();
}

}  // namespace

ShownPlan prove_and_time(WholePlan plan, const std::string& file, std::optional<Rank> only) {
  ShownPlan shown;
  shown.plan = std::move(plan);
  shown.file = file;
  shown.only = only;
  shown.proof = check_plan(shown.plan.keys, shown.plan.plans);
  if (!shown.proof.ok()) return shown;
  shown.times = plan_times(shown.plan.keys[0], shown.plan.plans);
  shown.transfers = transfers_of(shown.plan, shown.times);
  return shown;
}

std::string describe_plan(const ShownPlan& shown) {
  const WholePlan& plan = shown.plan;
  std::string text = headline(shown) + "\n" + predictions_text(shown);
  for (size_t rank = 0; rank < plan.plans.size(); ++rank) {
    if (!is_shown(rank, shown.only)) continue;
    const RankPlan& part = plan.plans[rank];
    text += "\nrank " + std::to_string(rank) + ": " + counted(part.steps.size(), "step") +
            (plan.keys[rank].in_place ? ", in place" : "") +
            (part.scratch > 0 ? ", scratch of " + counted(part.scratch, "element") : "") +
            (part.wide > 0 ? ", " + counted(part.wide, "wide element") : "") + "\n";
    if (part.steps.empty()) continue;
    std::vector<TextRow> rows = {
        {"step", "kind", "peer", "source", "target", "reduction", "after"}};
    for (size_t i = 0; i < part.steps.size(); ++i) rows.push_back(row_of(i, part.steps[i]));
    text += layout(rows);
  }
  if (!shown.proof.ok()) return text + "\nnot proved: " + shown.proof.message() + "\n";
  return text + transfers_text(shown) + totals_text(plan, shown.only) + "proved\n";
}

std::string plan_json(const ShownPlan& shown) {
  const WholePlan& plan = shown.plan;
  JsonWriter out;
  out.begin_object();
  write_key(out, plan.keys[0], shown.file);
  out.key("parts").begin_array();
  for (size_t rank = 0; rank < plan.plans.size(); ++rank) {
    if (is_shown(rank, shown.only)) write_rank(out, plan.keys[rank], plan.plans[rank]);
  }
  out.end_array();
  if (shown.proof.ok()) {
    write_transfers(out, shown);
    write_totals(out, totals_of(plan));
  }
  out.field("proved", shown.proof.ok());
  if (!shown.proof.ok()) out.field("violation", shown.proof.message());
  out.end_object();
  return out.text() + "\n";
}

std::string plan_svg(const ShownPlan& shown) {
  return transfers_svg(shown.plan, shown.transfers, headline(shown));
}

}  // namespace r2ccl::tools
