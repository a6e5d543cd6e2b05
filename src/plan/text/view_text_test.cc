#include "plan/text/view_text.h"

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

constexpr NicRate kWhole{1000, 1000};
constexpr NicRate kLost{0, 0};

TEST(ViewText, ReadsLikeThis) {
  const View small = View::of({{kWhole, {500, 500}}, {kWhole, kWhole}}).value();
  EXPECT_EQ(to_text(small), "1000,500/2x1000");
  EXPECT_EQ(parse_view("1000,500/1000,1000", 2).value(), small);

  HostRates six(8, kWhole);
  six[6] = six[7] = kLost;
  const View large = View::of({six, HostRates(8), HostRates(8), HostRates(8)}).value();
  EXPECT_EQ(to_text(large), "6x1000,2x0/3*8x1000");

  const View one_way = View::of({{{1000, 250}}, {{3, 2}, {3, 2}}}).value();
  EXPECT_EQ(to_text(one_way), "1000:250/2x3:2");
}

TEST(ViewText, EveryViewComesBack) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    std::vector<HostRates> hosts;
    uint32_t state = seed;
    const auto draw = [&](uint32_t below) {
      state = state * 1664525 + 1013904223;
      return (state >> 16) % below;
    };
    const uint32_t count = 1 + draw(7);
    for (uint32_t host = 0; host < count; ++host) {
      HostRates rates{kWhole};
      while (draw(3) > 0) rates.push_back({500 * draw(3), 500 * draw(3)});
      hosts.push_back(rates);
    }
    const View view = View::of(hosts).value();
    if (view.empty()) {
      EXPECT_EQ(to_text(view), "");
      continue;
    }
    const Result<View> again = parse_view(to_text(view), count);
    ASSERT_TRUE(again.ok()) << to_text(view) << ": " << again.status().message();
    EXPECT_EQ(again.value(), view) << to_text(view);
  }
}

void expect_no_view(const std::string& text, const std::string& error) {
  const Result<View> view = parse_view(text, 2);
  ASSERT_FALSE(view.ok()) << text;
  EXPECT_EQ(view.status().message(), error) << text;
}

TEST(ViewText, ATextThatIsNoViewIsRefusedWithTheCause) {
  const std::string write = "; write 1/1000 of a NIC, as 500, or SEND:RECEIVE, as 1000:250";
  expect_no_view("", "a rate is missing" + write);
  expect_no_view("1000/", "a rate is missing" + write);
  expect_no_view("1000/-1", "'-1' is no rate" + write);
  expect_no_view("1000/5:", "'5:' is no rate" + write);
  expect_no_view("1000/5:6:7", "'5:6:7' is no rate" + write);
  expect_no_view("1000/x1000", "'' before 'x' is no number from 1 to 64");
  expect_no_view("1000/65x1000", "'65' before 'x' is no number from 1 to 64");
  expect_no_view("1000/64x1000,1", "a host has more than 64 NICs");
  expect_no_view("0*1000", "'0' before '*' is no number from 1 to 2");
  expect_no_view("3*1000", "'3' before '*' is no number from 1 to 2");
  expect_no_view("2*1000/1", "it has more than 2 hosts");
  expect_no_view("1000", "it has 1 of 2 hosts");
  expect_no_view("1000/0",
                 "host 1 of the view can send nothing; a view names only hosts that the others "
                 "reach");
  expect_no_view("1000/2000000",
                 "host 1 of the view has a NIC of 2000000/1000; a NIC has at most 1000000/1000");
}

TEST(ViewText, LossesAreOfTheFirstHosts) {
  const auto view = [](const char* text, size_t hosts, uint32_t nics) {
    return to_text(View::of(parse_losses(text, hosts, nics).value()).value());
  };
  EXPECT_EQ(view("25", 3, 1), "750/2*1000");
  EXPECT_EQ(view("12.5,25,50", 4, 8), "0,7x1000/1000,2x0,5x1000/2x1000,4x0,2x1000/8x1000");
  EXPECT_EQ(view("0,30", 2, 2), "2x1000/1000,400");
  EXPECT_EQ(view("0,80", 2, 2), "2x1000/400,0") << "the part is of the next NIC";
  EXPECT_EQ(view("0,0", 3, 4), "");
}

TEST(ViewText, ALossThatIsNoPercentageIsRefused) {
  const auto error = [](const char* text) { return parse_losses(text, 2, 4).status().message(); };
  for (const std::string word : {"", "100", "-1", "nan", "2x", "1e2"}) {
    EXPECT_EQ(error(word.c_str()), "'" + word + "' is no percentage from 0 to below 100");
  }
  EXPECT_EQ(error("5,"), "'' is no percentage from 0 to below 100");
  EXPECT_EQ(error("99.999"),
            "'99.999' leaves less than 1/1000 of a NIC, and every host needs some");
  EXPECT_EQ(error("1,2,3"), "there are 2 hosts; name at most one loss for each");
}

}  // namespace
}  // namespace r2ccl
