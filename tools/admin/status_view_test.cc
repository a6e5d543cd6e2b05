#include "tools/admin/status_view.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace r2ccl::tools {
namespace {

using nlohmann::json;

json nic(const std::string& name, int up, int down, uint64_t sent) {
  return {{"name", name},       {"up", true},          {"tx_bytes", sent}, {"rx_bytes", 2000},
          {"delay_ms", 0.21},   {"loss_percent", 0.5}, {"paths_up", up},   {"paths_suspect", 0},
          {"paths_proving", 0}, {"paths_down", down}};
}

json member(int rank, int uptime_ms, uint64_t sent) {
  return {{"rank", rank},
          {"host", "h" + std::to_string(rank)},
          {"pid", 100 + rank},
          {"presence", "answered"},
          {"uptime_ms", uptime_ms},
          {"operations", 7},
          {"error", ""},
          {"nics", {nic("nic0", 1, 0, sent)}},
          {"troubles", json::array()},
          {"troubles_left_out", 0}};
}

json job(int ranks) {
  json members = json::array();
  for (int rank = 0; rank < ranks; ++rank) members.push_back(member(rank, 5000, 1'000'000));
  return {{"comm", "0123456789abcdef"},
          {"ranks", ranks},
          {"hosts", {"h0", "h1"}},
          {"version", "0.1.0"},
          {"uptime_ms", 61'500},
          {"authenticated", true},
          {"error", ""},
          {"members", members},
          {"verdict_count", 0},
          {"verdicts", json::array()}};
}

json view(const std::string& words, bool whole) {
  json rates = json::array();
  if (!whole) rates.push_back({{"host", "h1"}, {"nics", json::array()}});
  return {{"from_collective", 7}, {"words", words}, {"rates", rates}};
}

json trouble(int peer, bool opens, const std::string& cause, const std::string& peer_cause) {
  return {{"peer", peer},
          {"nic", "nic0"},
          {"peer_nic", "nic1"},
          {"state", "down"},
          {"since_ms", 12'300},
          {"cause", cause},
          {"peer_cause", peer_cause},
          {"opens", opens},
          {"next_attempt_ms", 200},
          {"penalty", 1.84},
          {"returns", 3}};
}

json relay(int peer, bool opens) {
  return {{"peer", peer},   {"via", opens ? 5 : -1}, {"via_host", "h2"}, {"state", "up"},
          {"opens", opens}, {"tx_bytes", 4'000'000}, {"rx_bytes", 2'000}};
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(StatusView, OfAHealthyJobIsShort) {
  EXPECT_EQ(job_text(job(2), false),
            "job 0123456789abcdef: 2 ranks on 2 hosts, up 1 min 2 s, r2ccl 0.1.0\n"
            "\n"
            "rank  host  pid  operations  NIC   state  tx MB/s  rx MB/s  delay ms  loss %  paths "
            "up\n"
            "0     h0    100  7           nic0  up     -        -        0.21      0.50    1 of 1\n"
            "1     h1    101  7           nic0  up     -        -        0.21      0.50    1 of 1\n"
            "\n"
            "all paths are up\n"
            "\n"
            "no faults so far\n");
}

TEST(StatusView, ShowsTheNameOfTheCommunicator) {
  json named = job(2);
  EXPECT_TRUE(job_text(named, false).starts_with("job 0123456789abcdef: 2 ranks"));
  named["name"] = "dp";
  EXPECT_TRUE(job_text(named, false).starts_with("job 0123456789abcdef \"dp\": 2 ranks"));
}

TEST(StatusView, NamesTheRankThatCallsWaitFor) {
  json it = job(4);
  for (const int rank : {0, 1, 3}) {
    it["members"][rank]["in"] = "AllReduce 11 (5 float32, sum)";
    it["members"][rank]["in_ms"] = 6000 + 100 * rank;
    it["members"][rank]["waits_for"] = "rank 2 (host h2, pid 102), which is at 10";
  }
  it["members"][1]["in_ms"] = 250;
  it["members"][3]["in_ms"] = 240;
  it["members"][2]["in"] = "";
  it["members"][2]["in_ms"] = 0;
  EXPECT_TRUE(has(job_text(it, false),
                  "\ncalls that wait:\n"
                  "rank  in                             for    waits for\n"
                  "0, 1  AllReduce 11 (5 float32, sum)  6.0 s  rank 2 (host h2, pid 102), which "
                  "is at 10\n\nall paths are up"))
      << job_text(it, false);
}

// The operator drained the NIC: that is no fault, even without a carrier.
TEST(StatusView, TellsOfADrainedNicAsDrainedAndNotAsFailed) {
  json it = job(2);
  json drained = nic("nic1", 0, 0, 1);
  drained["drained"] = true;
  drained["paths_drained"] = 2;
  it["members"][0]["nics"].push_back(drained);
  json far = nic("nic1", 1, 0, 1);
  far["paths_drained"] = 1;
  it["members"][1]["nics"].push_back(far);
  std::string text = job_text(it, false);
  EXPECT_TRUE(has(text, "nic1  drained  -        -        0.21      0.50    0 of 2, 2 drained\n"))
      << text;
  EXPECT_TRUE(has(text, "nic1  up       -        -        0.21      0.50    1 of 2, 1 drained\n"))
      << text;
  EXPECT_TRUE(has(text, "\nall other paths are up\n\nno faults so far\n")) << text;
  it["members"][0]["nics"][1]["up"] = false;
  it["members"][1]["nics"][1]["paths_up"] = 0;
  text = job_text(it, false);
  EXPECT_TRUE(has(text, "nic1  drained, no link  ")) << text;
  EXPECT_TRUE(has(text, "nic1  at rest           ")) << text;
  EXPECT_TRUE(has(text, "no faults so far")) << text;
  it["members"][0]["nics"][1]["paths_up"] = 1;
  EXPECT_TRUE(has(job_text(it, false), "nic1  drained, in use  "));
}

TEST(StatusView, TakesRatesFromTheBytesBetweenTwoAnswers) {
  json before = job(2);
  json after = job(2);
  after["members"][0] = member(0, 7000, 51'000'000);
  after["members"][1] = member(1, 5000, 1'000'000);  // the same answer once more
  add_rates(before, &after);
  EXPECT_DOUBLE_EQ(after["members"][0]["nics"][0]["tx_MBps"].get<double>(), 25);
  EXPECT_DOUBLE_EQ(after["members"][0]["nics"][0]["rx_MBps"].get<double>(), 0);
  EXPECT_FALSE(after["members"][1]["nics"][0].contains("tx_MBps"));
  EXPECT_TRUE(has(job_text(after, false), "nic0  up     25.0     0.0"));
}

TEST(StatusView, TellsOfAPathOnceThoughBothEndsDo) {
  json it = job(2);
  it["members"][0]["troubles"] = {trouble(1, true, "peer_notice", "carrier_lost")};
  json other = trouble(0, false, "carrier_lost", "none");
  std::swap(other["nic"], other["peer_nic"]);
  it["members"][1]["troubles"] = {other};
  EXPECT_TRUE(has(job_text(it, false),
                  "paths that are not up:\n"
                  "rank  NIC   to rank  NIC   state  for     why                            next "
                  "attempt  penalty  returns\n"
                  "0     nic0  1        nic1  down   12.3 s  carrier_lost (seen by rank 1)  in 200 "
                  "ms     1.8      3\n"
                  "\n"))
      << job_text(it, false);
}

TEST(StatusView, TellsOfAPathThatOnlyTheOtherEndTellsOf) {
  json it = job(2);
  it["members"][0] = {{"rank", 0}, {"host", "h0"}, {"pid", 100}, {"presence", "no answer"}};
  it["members"][1]["troubles"] = {trouble(0, false, "silent", "none")};
  it["members"][1]["troubles_left_out"] = 4;
  const std::string text = job_text(it, false);
  EXPECT_TRUE(has(text, "0     h0    100  NO ANSWER: stopped, very busy"));
  EXPECT_TRUE(has(text, "silent (seen by rank 1)  by rank 0"));
  EXPECT_TRUE(has(text, "and 4 more\n"));
}

TEST(StatusView, SaysThatASuspectPathIsLateAlsoAfterAnEarlierFailure) {
  json it = job(2);
  it["members"][0]["troubles"] = {trouble(1, true, "none", "none"),
                                  trouble(1, true, "carrier_lost", "none")};
  for (json& each : it["members"][0]["troubles"]) each["state"] = "suspect";
  const std::string text = job_text(it, false);
  EXPECT_TRUE(has(text, "suspect  12.3 s  late (seen by rank 0)")) << text;
  EXPECT_FALSE(has(text, "never up yet")) << text;
  EXPECT_FALSE(has(text, "carrier_lost")) << text;
}

TEST(StatusView, ShowsOncePathsThatGoThroughAThirdHost) {
  json it = job(3);
  EXPECT_FALSE(has(job_text(it, false), "third host"));
  it["members"][0]["relays"] = {relay(1, true)};
  it["members"][1]["relays"] = {relay(0, false), relay(2, true)};
  it["members"][2]["relays"] = {relay(1, false)};
  it["members"][1]["relays"][1]["state"] = "standby";
  EXPECT_TRUE(has(job_text(it, false),
                  "\n\npaths through a third host:\n"
                  "rank  to rank  through           state    tx MB/s  rx MB/s\n"
                  "0     1        rank 5 (host h2)  up       -        -\n"
                  "1     2        rank 5 (host h2)  standby  -        -\n"
                  "\nall paths are up\n"))
      << job_text(it, false);
}

TEST(StatusView, ShowsTheHostThatRelaysWhereTheEndThatKnowsTheRankIsSilent) {
  json it = job(2);
  it["members"][0]["presence"] = "no answer";
  it["members"][1]["relays"] = {relay(0, false), relay(3, false)};
  it["members"][1]["relays"][1]["via_host"] = "";
  it["members"][1]["relays_left_out"] = 4;
  EXPECT_TRUE(has(job_text(it, false),
                  "1     0        host h2  up     -        -\n"
                  "1     3        ?        up     -        -\n"
                  "and 4 more\n\n"))
      << job_text(it, false);
}

TEST(StatusView, TakesTheRatesOfRelayPathsToo) {
  json before = job(2);
  before["members"][0]["relays"] = {relay(7, true), relay(1, true)};
  json after = before;
  after["members"][0]["uptime_ms"] = 7000;
  after["members"][0]["relays"] = {relay(1, true), relay(8, true)};
  after["members"][0]["relays"][0]["tx_bytes"] = 30'000'000;
  add_rates(before, &after);
  EXPECT_FALSE(after["members"][0]["relays"][1].contains("tx_MBps")) << "it is new";
  EXPECT_TRUE(has(job_text(after, false), "rank 5 (host h2)  up     13.0     0.0\n"))
      << job_text(after, false);
}

TEST(StatusView, DoesNotSayThatAllIsWellWhenAHostIsIsolated) {
  json it = job(2);
  it["members"][0]["troubles"] = {trouble(1, true, "none", "none")};
  it["members"][1]["presence"] = "no answer";
  EXPECT_FALSE(has(job_text(it, false), "no faults so far"));
  EXPECT_TRUE(has(job_text(it, false), "no NIC was found at fault so far; a loss of all NICs"));
  it = job(2);
  it["members"][1]["presence"] = "left";
  EXPECT_TRUE(has(job_text(it, false), "no faults so far"));
}

TEST(StatusView, NamesTheStateOfANic) {
  json it = job(1);
  json& nics = it["members"][0]["nics"];
  nics = {nic("a", 1, 1, 0), nic("b", 0, 2, 0), nic("c", 0, 0, 0), nic("d", 0, 2, 0)};
  nics[3]["up"] = false;
  const std::string text = job_text(it, false);
  EXPECT_TRUE(has(text, "a    impaired"));
  EXPECT_TRUE(has(text, "b    CUT OFF"));
  EXPECT_TRUE(has(text, "c    idle"));
  EXPECT_TRUE(has(text, "d    DOWN"));
}

TEST(StatusView, OfALargeJobShowsWhereSomethingIsWrong) {
  json it = job(200);
  it["members"][150]["troubles"] = {trouble(1, true, "silent", "none")};
  it["members"][160]["presence"] = "dead";
  const std::string text = job_text(it, false);
  EXPECT_TRUE(has(text, "150   h150"));
  EXPECT_TRUE(has(text, "DEAD: its process is gone"));
  EXPECT_FALSE(has(text, "151   h151"));
  EXPECT_TRUE(has(text, "and 166 more ranks with nothing wrong: --paths shows them too\n"));
  EXPECT_TRUE(has(job_text(it, true), "151   h151"));
}

TEST(StatusView, TellsTheFaultsWithTheirTime) {
  json it = job(2);
  it["verdict_count"] = 12;
  it["verdicts"] = {{{"scope", "nic"},
                     {"host", "h1"},
                     {"nic", "nic0"},
                     {"peer_host", ""},
                     {"kind", "carrier_lost"},
                     {"detected_ms", 0.5},
                     {"stall_ms", 3},
                     {"replayed_bytes", 4096},
                     {"at", "2026-01-02T03:04:05.678Z"}}};
  EXPECT_TRUE(has(job_text(it, false),
                  "last 1 of 12 faults:\n2026-01-02T03:04:05.678Z  host h1 nic nic0: carrier_lost, "
                  "detected in 0.5 ms, stall 3 ms, 4096 bytes replayed\n"))
      << job_text(it, false);
}

TEST(StatusView, ShowsNothingThatATerminalWouldObey) {
  json it = job(1);
  it["error"] = "\x1b[2J\xc2\x9b\x7f\n";
  it["members"][0]["host"] = "\x1b]0;x\x07";
  it["comm"] = "\r";
  it["verdicts"] = {{{"host", "\x1b[31m"}, {"at", "\x1b"}}};
  const std::string text = job_text(it, false);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_EQ(text.find("\xc2\x9b"), std::string::npos);
  EXPECT_TRUE(has(text, "FAILED: ?[2J"));
}

TEST(StatusView, JsonHoldsNothingThatATerminalWouldObey) {
  json it = job(1);
  const std::string text = "\x1b[2J\xc2\x9b\x7f\n\xe2\x80\xae";
  it["error"] = text;
  it[text] = 1;
  it["members"][0]["host"] = "not UTF-8: \xff";
  const std::string line = json_line({{"jobs", {it}}});
  for (const char letter : line) ASSERT_TRUE(letter >= ' ' && letter <= '~') << line;
  const json read = json::parse(line);
  EXPECT_EQ(read["jobs"][0]["error"], text) << "a reader of JSON gets what was said";
  EXPECT_EQ(read["jobs"][0][text], 1);
}

// Replaces every value in turn by one of another type.
void replace_each(const json& whole, json* part, const json& with,
                  const std::function<void(const json&)>& look) {
  if (part->is_object() || part->is_array()) {
    for (auto& child : *part) replace_each(whole, &child, with, look);
  }
  json before = *part;
  *part = with;
  look(whole);
  *part = std::move(before);
}

TEST(StatusView, TakesValuesOfAnyTypeInAnyPlace) {
  for (const json& with : {json(), json(true), json("text"), json(-1.5e300), json::array({1}),
                           json::object({{"a", 1}})}) {
    json it = job(2);
    it["members"][0]["troubles"] = {trouble(1, true, "silent", "none")};
    it["members"][0]["relays"] = {relay(1, true)};
    it["members"][1]["relays"] = {relay(0, false)};
    it["verdicts"] = {{{"host", "h"}, {"at", "t"}}};
    const json before = it;
    replace_each(it, &it, with, [&](const json& whole) {
      json changed = whole;
      add_rates(before, &changed);
      EXPECT_FALSE(job_text(changed, false).empty());
      EXPECT_FALSE(paths_text(changed).empty());
    });
  }
}

TEST(StatusView, NamesTheViewThatPlansFollowUnlessAllHostsAreEqual) {
  json told = job(2);
  told["view"] = view("h1 has 3 of 4 NICs", false);
  EXPECT_TRUE(has(job_text(told, false), "plans follow: h1 has 3 of 4 NICs\n"));
  told["view"] = view("all hosts have equal NICs", true);
  EXPECT_FALSE(has(job_text(told, false), "plans follow"));
}

}  // namespace
}  // namespace r2ccl::tools
