// Answers `r2ccl status` and `r2ccl drain`: asks the other ranks, answers them, and has the status
// socket if there is one. docs/status.md describes the texts.
//
// Runs in the thread of the RankRuntime that owns it. `rank_report.h` writes the parts of the texts
// that the report has too.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/admin/rank_summary.h"
#include "runtime/admin/status_server.h"
#include "runtime/query/rank_query.h"
#include "runtime/rank_runtime.h"

namespace r2ccl {

class RankStatus final : public StatusSource, private HandlerOwner {
 public:
  // Requires a rank that has started, with all its other parts.
  explicit RankStatus(RankRuntime& rank);
  RankStatus(const RankStatus&) = delete;
  RankStatus& operator=(const RankStatus&) = delete;

  // Answers the operators at this socket.
  Status serve(StatusSocket socket) { return server_.open(std::move(socket)); }

  void progress(TimeNs now) { server_.progress(now); }
  TimeNs next_timeout() const { return server_.next_timeout(); }

  // StatusSource
  std::string status_report() override;
  std::optional<std::string> job_status() override;
  std::optional<std::string> drain_status(uint64_t client, std::string_view line) override;

 private:
  // HandlerOwner, of the status socket's handlers: an exception there does not fail the rank.
  Rank self() const override { return rank_.options().self; }
  void on_exception(const std::exception&) noexcept override { server_.drop_clients(); }

  RankSummary summarize();
  void add_waits(RankSummary& summary);
  void add_links(RankSummary& summary);
  std::string member_text(Rank rank, Reachability reachability, const RankSummary* summary);
  RankQuery::Handler handler();
  void answer(Rank peer, uint32_t number);
  Result<std::string> on_answer(Rank peer, std::span<const std::byte> body);

  RankRuntime& rank_;
  RankQuery& query_;
  Reactor reactor_;
  StatusServer server_;
};

}  // namespace r2ccl
