#include "tools/common/metrics_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace r2ccl::tools {
namespace {

constexpr MetricFamily kFamilies[] = {
    {"jobs", "How many jobs."},
    {"bytes_total", "How many bytes."},
    {"unused", "Never added."},
};

TEST(MetricsText, GroupsTheSamplesOfAFamilyAndLeavesOutEmptyOnes) {
  MetricsText out(kFamilies);
  out.add("bytes_total", {{"nic", "a"}}, 12'345'678'901.0);
  out.add("jobs", {}, 2);
  out.add("bytes_total", {{"nic", "b"}, {"peer", "1"}}, 0.5);
  EXPECT_EQ(out.text(),
            "# HELP jobs How many jobs.\n"
            "# TYPE jobs gauge\n"
            "jobs 2\n"
            "# HELP bytes_total How many bytes.\n"
            "# TYPE bytes_total counter\n"
            "bytes_total{nic=\"a\"} 12345678901\n"
            "bytes_total{nic=\"b\",peer=\"1\"} 0.5\n");
}

TEST(MetricsText, QuotesLabelsSoThatNoValueEndsItsLineOrLabel) {
  MetricsText out(kFamilies);
  out.add("jobs", {{"nic", "a\"} 9\nb\\n\xc3\xa9"}}, 1);
  EXPECT_TRUE(out.text().ends_with("\njobs{nic=\"a\\\"} 9\\nb\\\\n\xc3\xa9\"} 1\n")) << out.text();
}

TEST(MetricsText, GivesEachSeriesOnce) {
  MetricsText out(kFamilies);
  out.add("jobs", {{"nic", "a"}}, 1);
  out.add("jobs", {{"nic", "a"}}, 2);
  out.add("jobs", {{"nic", "b"}}, 3);
  EXPECT_TRUE(out.text().ends_with("\njobs{nic=\"a\"} 1\njobs{nic=\"b\"} 3\n")) << out.text();
}

TEST(MetricsText, LeavesOutValuesThatNoMetricHas) {
  MetricsText out(kFamilies);
  out.add("jobs", {}, std::numeric_limits<double>::quiet_NaN());
  out.add("jobs", {}, std::numeric_limits<double>::infinity());
  out.add("bytes_total", {}, -1);
  EXPECT_EQ(out.text(), "");
  out.add("jobs", {}, -1);
  EXPECT_TRUE(out.text().ends_with("\njobs -1\n"));
}

}  // namespace
}  // namespace r2ccl::tools
