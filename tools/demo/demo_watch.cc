#include "tools/demo/demo_watch.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tools/common/rank_report.h"

namespace r2ccl::tools {

using nlohmann::json;

DemoWatch::DemoWatch(std::vector<std::string> files) {
  for (std::string& file : files) streams_.push_back({std::move(file), 0, "", 0, 0, {}});
}

namespace {

// Returns "h2 nic1, silent": a component in the words of `r2ccl lab`.
std::string caption_of(const json& verdict, const std::string& text) {
  const auto field = [&](const char* name) {
    const auto found = verdict.find(name);
    return found != verdict.end() && found->is_string() ? found->get<std::string>() : "";
  };
  const std::string host = field("host");
  const std::string nic = field("nic");
  if (host.empty() || nic.empty()) return text.substr(0, text.find(','));
  std::string kind = field("kind");
  std::replace(kind.begin(), kind.end(), '_', ' ');
  return host + " " + nic + ", " + kind;
}

}  // namespace

std::vector<DemoVerdict> DemoWatch::poll() {
  std::vector<DemoVerdict> verdicts;
  for (size_t rank = 0; rank < streams_.size(); ++rank) read_stream(rank, &verdicts);
  return verdicts;
}

void DemoWatch::read_stream(size_t rank, std::vector<DemoVerdict>* verdicts) {
  Stream& stream = streams_[rank];
  std::ifstream in(stream.file);
  if (!in) return;
  in.seekg(stream.offset);
  std::stringstream text;
  text << in.rdbuf();
  std::string fresh = text.str();
  stream.offset += static_cast<std::streamoff>(fresh.size());
  stream.partial_line += fresh;
  size_t newline = 0;
  while ((newline = stream.partial_line.find('\n')) != std::string::npos) {
    take_line(rank, stream.partial_line.substr(0, newline), verdicts);
    stream.partial_line.erase(0, newline + 1);
  }
}

void DemoWatch::take_line(size_t rank, const std::string& line,
                          std::vector<DemoVerdict>* verdicts) {
  json event = json::parse(line, nullptr, false);
  if (!event.is_object()) return;
  streams_[rank].checked = event.value("checked", uint64_t{0});
  streams_[rank].wrong = event.value("wrong", uint64_t{0});
  streams_[rank].sent.clear();
  for (const json& nic : event.value("nics", json::object())) {
    streams_[rank].sent.push_back(nic.value("tx", uint64_t{0}));
  }
  if (rank == 0) {
    operations_ = event.value("operations", uint64_t{0});
    last_event_s_ = event.value("t", 0.0);
  }
  // Every rank reports the same verdicts, so their texts identify them.
  for (const json& verdict : event.value("verdicts", json::array())) {
    const json report = {{"verdicts", json::array({verdict})}};
    for (const std::string& words : verdict_lines({report.dump()})) {
      if (!told_.insert(words).second) continue;
      verdicts->push_back({words, caption_of(verdict, words), event.value("t", 0.0)});
    }
  }
}

uint64_t DemoWatch::checked_elements() const {
  uint64_t sum = 0;
  for (const Stream& stream : streams_) sum += stream.checked;
  return sum;
}

SentBytes DemoWatch::sent_bytes() const {
  SentBytes sent;
  for (const Stream& stream : streams_) sent.push_back(stream.sent);
  return sent;
}

uint64_t DemoWatch::wrong_elements() const {
  uint64_t sum = 0;
  for (const Stream& stream : streams_) sum += stream.wrong;
  return sum;
}

}  // namespace r2ccl::tools
