// The tables of facts are the only source of names: of the documents, and of the outputs for a fact
// that is new.
#include <gtest/gtest.h>

#include "runtime/admin/link_health.h"
#include "runtime/admin/summary_fields.h"
#include "schema/nic.h"
#include "schema/path.h"
#include "tests/golden/golden.h"
#include "tools/admin/status_metrics.h"

namespace r2ccl::tools {
namespace {

void expect_table(const std::string& document, const char* title,
                  std::span<const schema::Row> rows) {
  const std::string table = schema::table_of(title, rows);
  const std::string text = text_of_file(document);
  EXPECT_NE(text.find("\n\n" + table + "\n"), std::string::npos)
      << document << " must contain exactly this:\n"
      << table;
}

TEST(ShownFacts, HaveTheirTablesInTheDocuments) {
  expect_table("docs/report.md", "field of a NIC", schema::rows_of(schema::kNicFields));
  expect_table("docs/report.md", "field of a path", schema::rows_of(schema::kPathFields));
  expect_table("docs/report.md", "field of a verdict", schema::rows_of(schema::kVerdictFields));
  expect_table("docs/status.md", "field of a member", schema::rows_of(schema::kMemberFields));
  expect_table("docs/status.md", "field of a NIC", schema::rows_of(schema::kLineFields));
  expect_table("docs/status.md", "field of a path", schema::rows_of(schema::kTroubleFields));
  expect_table("docs/status.md", "field of a relay path", schema::rows_of(schema::kRelayFields));
  std::vector<schema::Row> metrics;
  for (const MetricFamily& family : metric_families()) {
    metrics.push_back({family.name, family.help, {}});
  }
  expect_table("docs/metrics.md", "metric", metrics);
}

TEST(ShownFacts, NeedOneRowForAllOutputs) {
  static constexpr auto kFields = std::tuple_cat(
      schema::kPathFields,
      std::tuple{schema::Field("jitter_ms", &PathInfo::base_delay, to_ms, "How the delay varies.")
                     .metric("r2ccl_path_jitter_seconds", 1e-3)});
  constexpr auto kRows = schema::rows_of(kFields);
  PathInfo path;
  path.base_delay = 1'500'000;
  JsonWriter out;
  schema::write_object(out, path, kFields);
  const auto report = nlohmann::json::parse(out.text());
  EXPECT_EQ(report.at("jitter_ms"), 1.5);
  EXPECT_EQ(report.size(), kRows.size());

  const std::vector<MetricFamily> families = families_of(kRows);
  MetricsText metrics(families);
  add_fields(metrics, kRows, {{"nic", "nic0"}}, report);
  EXPECT_TRUE(
      metrics.text().ends_with("# HELP r2ccl_path_jitter_seconds How the delay varies.\n"
                               "# TYPE r2ccl_path_jitter_seconds gauge\n"
                               "r2ccl_path_jitter_seconds{nic=\"nic0\"} 0.0015\n"))
      << metrics.text();
  EXPECT_TRUE(
      schema::table_of("field", kRows).ends_with("| `jitter_ms` | How the delay varies. |\n"));
}

// A scraper refuses a text with the same family twice.
TEST(ShownFacts, HaveDifferentNames) {
  std::set<std::string> names;
  for (const MetricFamily& family : metric_families()) {
    EXPECT_TRUE(names.insert(family.name).second) << family.name;
  }
}

}  // namespace
}  // namespace r2ccl::tools
