#include "tools/plan/plan_explain.h"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "base/json_writer.h"
#include "plan/analysis/floor.h"
#include "plan/cost_model.h"
#include "plan/host_rates.h"
#include "plan/text/plan_words.h"
#include "tools/common/text_table.h"

namespace r2ccl::tools {
namespace {

// Returns how many bytes the fastest host moves in a second, by all its ranks or by one.
double host_bytes_per_second(const PlanKey& key) {
  const DomainCosts& network = key.costs.network;
  const double by_all =
      static_cast<double>(network.kib_ps) / static_cast<double>(key.hosts.largest());
  return 1024e12 / std::min(by_all, static_cast<double>(network.leader_kib_ps));
}

double floor_ns(const PlanKey& key) {
  if (key.costs.network.kib_ps == 0 || key.costs.network.leader_kib_ps == 0) return 0;
  const TotalRates rates = total_rates(key);
  const uint64_t most =
      std::max(*std::ranges::max_element(rates.send), *std::ranges::max_element(rates.receive));
  return 1e9 * floor_seconds(key, {.nic_bytes_per_second = host_bytes_per_second(key) * kWholeNic /
                                                           static_cast<double>(most)});
}

// Returns a sentence about a call that leaves no choice, or nothing.
std::string reason_of_one(const PlanKey& key, size_t predictions) {
  if (predictions > 1) return "";
  if (key.rank_count < 2) return "One rank sends no messages.\n";
  if (reduces_in_rank_order(key)) return "Reductions in rank order have one algorithm.\n";
  if (predictions == 0) return "The collective has one algorithm.\n";
  return "All other algorithms have messages between hosts that share no rail.\n";
}

std::string us_text(double ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", ns / 1e3);
  return text;
}

}  // namespace

std::vector<Prediction> predictions_of(const PlanKey& key) {
  const bool has_one = algorithms_of(key).size() < 2 || reduces_in_rank_order(key);
  if (key.rank_count < 2 || has_one) return {};
  const Algorithm chosen = choose_algorithm(key);
  std::vector<Prediction> predictions{{predicted_ns(key, chosen), chosen}};
  for (const Algorithm each : candidates_of(key)) {
    if (each != chosen) predictions.emplace_back(predicted_ns(key, each), each);
  }
  std::ranges::stable_sort(predictions.begin() + 1, predictions.end(), {}, &Prediction::first);
  return predictions;
}

std::string explain_plan(const PlanKey& key) {
  const std::vector<Prediction> predictions = predictions_of(key);
  const double floor = floor_ns(key);
  std::vector<TextRow> rows = {{"algorithm", "predicted us", "of the floor", ""}};
  for (const auto& [time, algorithm] : predictions) {
    char ratio[32] = "";
    if (floor > 0) std::snprintf(ratio, sizeof ratio, "%.2f", static_cast<double>(time) / floor);
    const bool first = algorithm == predictions.front().second;
    rows.push_back({word_of(kAlgorithmWords, algorithm), us_text(static_cast<double>(time)), ratio,
                    first ? "chosen" : ""});
  }
  if (predictions.empty() && key.rank_count > 1) {
    rows.push_back({word_of(kAlgorithmWords, choose_algorithm(key)), "", "", "chosen"});
  }
  // It counts NICs alone, so one host has none.
  if (floor > 0) {
    rows.push_back({"floor", us_text(floor), "1.00", "no plan is faster, by the bytes alone"});
  }
  std::string text = layout(rows);
  text += reason_of_one(key, predictions.size());
  if (key.collective == Collective::all_reduce && host_count(key) == 2 && !key.view.empty()) {
    text +=
        "Between two hosts every byte passes the slower one, so no schedule is faster than its "
        "NICs.\n";
  }
  return text;
}

std::string explanation_json(const PlanKey& key) {
  JsonWriter out;
  out.begin_object();
  out.field("collective", word_of(kCollectiveWords, key.collective));
  out.field("chosen", word_of(kAlgorithmWords, choose_algorithm(key)));
  out.field("floor_us", floor_ns(key) / 1e3);
  out.key("algorithms").begin_array();
  for (const auto& [time, algorithm] : predictions_of(key)) {
    out.begin_object().field("algorithm", word_of(kAlgorithmWords, algorithm));
    out.field("predicted_us", static_cast<double>(time) / 1e3).end_object();
  }
  out.end_array().end_object();
  return out.text() + "\n";
}

}  // namespace r2ccl::tools
