#include "tools/plan/plan_view.h"

#include <span>

#include "base/json_writer.h"
#include "plan/cost_model.h"
#include "plan/text/plan_words.h"
#include "tools/common/text_table.h"
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

std::string headline(const PlanKey& key) {
  const Algorithm used = choose_algorithm(key);
  std::string text = std::string(word_of(kCollectiveWords, key.collective)) + " of " +
                     counted(key.count, "element") + " " + to_string(key.type) + ", " +
                     to_string(key.op) + ", " +
                     counted(static_cast<uint64_t>(key.rank_count), "rank");
  if (key.reproducible) text += ", reproducible";
  if (!key.hosts.empty()) text += " on " + counted(key.hosts.hosts().size(), "host");
  return text + ", root " + std::to_string(key.root.value()) + ", algorithm " +
         word_of(kAlgorithmWords, used) +
         (used == key.algorithm
              ? ""
              : std::string(" (asked: ") + word_of(kAlgorithmWords, key.algorithm) + ")") +
         "\n";
}

// Returns the predicted time of each algorithm that the call can have, unless it has only one.
std::string predictions_text(const PlanKey& key) {
  const std::span<const Algorithm> algorithms = algorithms_of(key);
  if (algorithms.size() < 2 || key.rank_count < 2 || reduces_in_rank_order(key)) return "";
  std::vector<TextRow> rows = {{"algorithm", "predicted us", ""}};
  for (const Algorithm each : algorithms) {
    rows.push_back({word_of(kAlgorithmWords, each), in_us(predicted_ns(key, each)),
                    each == choose_algorithm(key) ? "used" : ""});
  }
  return "\n" + layout(rows);
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

void write_key(JsonWriter& out, const PlanKey& key) {
  out.field("collective", word_of(kCollectiveWords, key.collective));
  out.field("algorithm", word_of(kAlgorithmWords, key.algorithm));
  out.field("algorithm_used", word_of(kAlgorithmWords, choose_algorithm(key)));
  out.field("type", to_string(key.type)).field("op", to_string(key.op));
  out.field("ranks", key.rank_count).field("root", key.root.value()).field("count", key.count);
  out.field("reproducible", key.reproducible);
  if (key.hosts.empty()) return;
  out.key("hosts").begin_array();
  for (const std::vector<Rank>& host : key.hosts.hosts()) {
    out.begin_array();
    for (const Rank rank : host) out.value(rank.value());
    out.end_array();
  }
  out.end_array();
}

void write_predictions(JsonWriter& out, const PlanKey& key) {
  const std::span<const Algorithm> algorithms = algorithms_of(key);
  if (algorithms.size() < 2 || key.rank_count < 2 || reduces_in_rank_order(key)) return;
  out.key("predicted_ns").begin_object();
  for (const Algorithm each : algorithms) {
    out.field(word_of(kAlgorithmWords, each), predicted_ns(key, each));
  }
  out.end_object();
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

std::string describe_plan(const WholePlan& plan, std::optional<Rank> only, const Status& proof) {
  std::string text = headline(plan.keys[0]) + predictions_text(plan.keys[0]);
  for (size_t rank = 0; rank < plan.plans.size(); ++rank) {
    if (!is_shown(rank, only)) continue;
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
  if (!proof.ok()) return text + "\nnot proved: " + proof.message() + "\n";
  return text + totals_text(plan, only) + "proved\n";
}

std::string plan_json(const WholePlan& plan, std::optional<Rank> only, const Status& proof) {
  JsonWriter out;
  out.begin_object();
  write_key(out, plan.keys[0]);
  write_predictions(out, plan.keys[0]);
  out.key("parts").begin_array();
  for (size_t rank = 0; rank < plan.plans.size(); ++rank) {
    if (is_shown(rank, only)) write_rank(out, plan.keys[rank], plan.plans[rank]);
  }
  out.end_array();
  if (proof.ok()) write_totals(out, totals_of(plan));
  out.field("proved", proof.ok());
  if (!proof.ok()) out.field("violation", proof.message());
  out.end_object();
  return out.text() + "\n";
}

}  // namespace r2ccl::tools
