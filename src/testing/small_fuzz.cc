// The entries of the codecs that have one function each way.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/printable.h"
#include "protocol/admin/drain.h"
#include "runtime/admin/rank_summary.h"
#include "runtime/bootstrap/process_handle.h"
#include "runtime/bootstrap/rank_info.h"
#include "runtime/collective/collective_mismatch_detector.h"
#include "runtime/link/notice.h"
#include "runtime/point_to_point/tagged_frame.h"
#include "runtime/query/rank_query.h"
#include "testing/fuzz.h"
#include "testing/fuzz_text.h"

namespace r2ccl {
namespace {

template <typename T>
void check_refusal(const Result<T>& result) {
  R2CCL_CHECK(result.ok() == result.status().message().empty());
}

}  // namespace

bool fuzz_call_report(std::span<const std::byte> input) {
  const auto report = decode_call_report(input);
  check_refusal(report);
  if (report.ok()) {
    const auto again = decode_call_report(encode(report.value()));
    R2CCL_CHECK(again.ok() && again.value() == report.value());
  }
  constexpr auto kAnswer = CallReport::Reason::answer;
  const auto answer = decode_calls(kAnswer, input);
  check_refusal(answer);
  if (answer.ok()) {
    const auto again = decode_calls(kAnswer, encode_calls(answer.value()));
    R2CCL_CHECK(again.ok() && again.value() == answer.value());
  }
  return report.ok() || answer.ok();
}

bool fuzz_notice(std::span<const std::byte> input) {
  const NoticeView notice = view_notice(input);
  if (notice.kind == NoticeKind{}) {
    R2CCL_CHECK(notice.body.empty());
    return false;
  }
  const Notice again = make_notice(notice.kind, notice.subject, notice.body, notice.context);
  const NoticeView read = view_notice(again.bytes);
  R2CCL_CHECK(read.kind == notice.kind && read.context == notice.context);
  R2CCL_CHECK(read.context == ContextId() || read.subject == notice.subject);
  R2CCL_CHECK(std::ranges::equal(read.body, notice.body));
  return true;
}

bool fuzz_drain(std::span<const std::byte> input) {
  const auto question = decode_drain_question(input);
  check_refusal(question);
  if (question.ok()) {
    const auto again = decode_drain_question(encode(question.value()));
    R2CCL_CHECK(again.ok() && again.value() == question.value());
  }
  const auto tally = decode_drain_tally(input);
  check_refusal(tally);
  if (tally.ok()) {
    const auto again = decode_drain_tally(encode(tally.value()));
    R2CCL_CHECK(again.ok() && again.value() == tally.value());
  }
  return question.ok() || tally.ok();
}

bool fuzz_query(std::span<const std::byte> input) {
  const auto message = decode_query_message(input);
  check_refusal(message);
  if (!message.ok()) return false;
  const std::vector<std::byte> bytes = encode(message.value());
  R2CCL_CHECK(std::ranges::equal(bytes, input));
  RankQuery::Callbacks callbacks;
  callbacks.ask = [](Rank, QueryTopic, uint64_t, const RankQuery::Bytes&) {
    return Reachability::no_answer;
  };
  RankQuery query(Rank(0), 3, callbacks);
  uint64_t heard = 0;
  RankQuery::Handler handler;
  handler.question = [](Rank, uint32_t, std::span<const std::byte>) {
    return Status(Code::remote, "a question");
  };
  handler.answer = [&heard](Rank, uint32_t, std::span<const std::byte>) {
    ++heard;
    return std::string();
  };
  query.serve(QueryTopic::probe, handler);
  query.ask(QueryTopic::probe, 1, {Rank(1)}, {});
  for (const Rank from : {Rank(2), Rank(1), Rank(1)}) query.on_answer(from, input);
  query.on_question(Rank(2), input);
  const bool is_probe = message.value().topic == QueryTopic::probe;
  R2CCL_CHECK(heard == (is_probe && message.value().number == 1 ? 1u : 0u));
  R2CCL_CHECK(is_probe || query.refused() == 0);
  return true;
}

bool fuzz_printable(std::span<const std::byte> input) {
  if (input.empty()) return false;
  const size_t bound = 3 + std::to_integer<size_t>(input[0]);
  const std::string text = printable_text(input.subspan(1), bound);
  R2CCL_CHECK(text.size() <= bound && is_printable(text));
  R2CCL_CHECK(printable_text(text, bound) == text);
  return text == fuzz_text(input.subspan(1));
}

bool fuzz_rank_info(std::span<const std::byte> input) {
  const auto info = decode_rank_info(input);
  check_refusal(info);
  if (!info.ok()) return false;
  const auto bytes = encode(info.value());
  R2CCL_CHECK(bytes.ok());
  const auto again = decode_rank_info(bytes.value());
  R2CCL_CHECK(again.ok() && again.value() == info.value());
  return true;
}

bool fuzz_rank_summary(std::span<const std::byte> input) {
  auto summary = decode_rank_summary(input);
  check_refusal(summary);
  if (!summary.ok()) return false;
  const auto again = decode_rank_summary(encode(summary.value()));
  // The encoder puts the paths that are down first.
  auto& troubles = summary.value().troubles;
  std::stable_partition(troubles.begin(), troubles.end(), [](const RankSummary::Trouble& trouble) {
    return trouble.phase == PathPhase::down;
  });
  R2CCL_CHECK(again.ok() && again.value() == summary.value());
  const RankInfo info;
  const std::array rank_table{&info, &info};
  R2CCL_CHECK(
      !member_json(rank_table, Rank(1), "host", Reachability::answered, &summary.value()).empty());
  return true;
}

// The link delivers frames of any length; the payload of a whole message is the rest of the frame.
bool fuzz_tagged_frame(std::span<const std::byte> input) {
  if (input.size() < kTaggedHeaderBytes) return false;
  const auto frame = decode_tagged_frame(input);
  check_refusal(frame);
  if (!frame.ok()) return false;
  const TaggedFrame& first = frame.value();
  R2CCL_CHECK(first.payload.empty() || first.payload.data() == input.data() + kTaggedHeaderBytes);
  R2CCL_CHECK(first.payload.size() <= input.size() - kTaggedHeaderBytes);
  const std::vector<std::byte> bytes = encode(first);
  const auto again = decode_tagged_frame(bytes);
  R2CCL_CHECK(again.ok() && encode(again.value()) == bytes);
  return true;
}

bool fuzz_process_handle(std::span<const std::byte> input) {
  const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
  const auto key = key_of_handle(text);
  const std::string_view list[] = {text, text};
  const auto found = find_own_handle(list);
  R2CCL_CHECK(!found.ok() && found.status().code() == Code::invalid_argument);
  R2CCL_CHECK(is_printable(found.status().message()));
  R2CCL_CHECK(!key || text.size() <= kProcessHandleMax);
  return key.has_value();
}

}  // namespace r2ccl
