// A list of ranks on the wire: its runs of consecutive ranks, of which a host or a rack is one.
#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "protocol/shrink/shrink_messages.h"
#include "protocol/view/view_messages.h"
#include "protocol/wire/byte_io.h"

namespace r2ccl {
namespace {

constexpr size_t kRanksNamedMax = 32;
// The bytes of a view; two lists of ranks take no more than as many again each.
constexpr size_t kViewBytesMax = 2000;
// The bytes of a message. A notice also has its head.
constexpr size_t kBytesMax = limits::kNoticeBytesMax - 64;

struct Run {
  uint16_t first = 0;
  uint16_t length = 0;
};

std::vector<Run> runs_of(const std::vector<Rank>& ranks) {
  std::vector<Run> runs;
  for (const Rank rank : ranks) {
    const auto value = static_cast<uint16_t>(rank.value());
    if (runs.empty() || value != runs.back().first + runs.back().length) runs.push_back({value, 0});
    ++runs.back().length;
  }
  return runs;
}

Status refused(const char* what) {
  return {Code::remote, std::string("a message about a smaller communicator ") + what};
}

void put_ranks(ByteWriter& out, const std::vector<Rank>& ranks) {
  const std::vector<Run> runs = runs_of(ranks);
  R2CCL_CHECK(runs.size() <= kShrinkRunsMax);
  out.put(static_cast<uint16_t>(runs.size()));
  for (const Run& run : runs) {
    out.put(run.first);
    out.put(run.length);
  }
}

// Reads the parts of a message, and remembers the first error.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, int32_t ranks, size_t hosts)
      : in(bytes), ranks_(ranks), hosts_(hosts) {}

  std::vector<Rank> ranks() {
    std::vector<Rank> list;
    const size_t runs = in.get<uint16_t>();
    if (runs > kShrinkRunsMax) refuse("with too many runs of ranks");
    int32_t least = 0;
    for (size_t i = 0; i < runs && wrong_.ok() && !in.bad(); ++i) {
      const int32_t first = in.get<uint16_t>();
      const int32_t length = in.get<uint16_t>();
      if (in.bad()) break;
      if (first < least || length == 0 || first + length > ranks_) {
        refuse("with ranks that are unknown, or not in order");
        break;
      }
      for (int32_t rank = first; rank < first + length; ++rank) list.emplace_back(rank);
      least = first + length + 1;  // an adjacent run would be the same one
    }
    return list;
  }
  bool flag() {
    const auto value = in.get<uint8_t>();
    if (value > 1) refuse("with a flag that is neither 0 nor 1");
    return value == 1;
  }
  ShrinkSubject subject() {
    ShrinkSubject subject;
    subject.excluded = ranks();
    subject.ordinal = in.get<uint32_t>();
    return subject;
  }
  ShrinkWish wish() {
    ShrinkWish wish;
    wish.serial = in.get<uint32_t>();
    if (wish.serial == 0) return wish;
    wish.withdrawn = flag();
    wish.subject = subject();
    return wish;
  }
  View view() {
    if (in.bad() || !wrong_.ok()) return {};
    Result<View> read = get_view(in, hosts_);
    if (!read.ok()) wrong_ = read.status();
    return read.ok() ? std::move(read).value() : View();
  }
  Rank rank() {
    const Rank rank(in.get<uint16_t>());
    if (rank.value() >= ranks_) refuse("of an unknown rank");
    return rank;
  }
  void refuse(const char* what) {
    if (wrong_.ok()) wrong_ = refused(what);
  }
  // Returns the first error of all reads.
  Status end() const {
    if (!wrong_.ok()) return wrong_;
    if (in.bad()) return refused("is truncated");
    return in.remaining() > 0 ? refused("has surplus bytes") : Status();
  }

  ByteReader in;

 private:
  const int32_t ranks_;
  const size_t hosts_;
  Status wrong_;
};

void put(ByteWriter& out, const ShrinkSubject& subject) {
  put_ranks(out, subject.excluded);
  out.put(subject.ordinal);
}

void put(ByteWriter& out, const ShrinkWish& wish) {
  out.put(wish.serial);
  if (wish.serial == 0) return;
  out.put(static_cast<uint8_t>(wish.withdrawn ? 1 : 0));
  put(out, wish.subject);
}

void put(ByteWriter& out, const ShrinkQuestion& question) {
  out.put(question.round);
  out.put(static_cast<uint8_t>(question.takes_over ? 1 : 0));
  put(out, question.subject);
}

void put(ByteWriter& out, const ShrinkAnswer& answer) {
  out.put(answer.round);
  put(out, answer.wish);
  out.put(static_cast<uint8_t>(answer.made ? 1 : 0));
  if (answer.made) put_view(out, answer.view);
}

void put(ByteWriter& out, const ShrinkDecision& decision) {
  out.put(decision.serial);
  put(out, decision.subject);
  out.put(static_cast<uint16_t>(decision.by.value()));
  out.put(static_cast<uint8_t>(decision.outcome));
  if (decision.outcome == ShrinkOutcome::made) return put_view(out, decision.view);
  const size_t named = std::min(decision.ranks.size(), kRanksNamedMax);
  put_ranks(out, {decision.ranks.begin(), decision.ranks.begin() + static_cast<ptrdiff_t>(named)});
  if (decision.outcome == ShrinkOutcome::lists_differ) put_ranks(out, decision.other);
}

ShrinkMessage get_question(Reader& reader) {
  ShrinkQuestion question;
  question.round = reader.in.get<uint32_t>();
  question.takes_over = reader.flag();
  question.subject = reader.subject();
  return question;
}

ShrinkMessage get_answer(Reader& reader) {
  ShrinkAnswer answer;
  answer.round = reader.in.get<uint32_t>();
  answer.wish = reader.wish();
  answer.made = reader.flag();
  if (answer.made) answer.view = reader.view();
  return answer;
}

ShrinkMessage get_decision(Reader& reader) {
  ShrinkDecision decision;
  decision.serial = reader.in.get<uint32_t>();
  decision.subject = reader.subject();
  decision.by = reader.rank();
  const auto outcome = reader.in.get<uint8_t>();
  if (outcome > static_cast<uint8_t>(ShrinkOutcome::aborted))
    reader.refuse("of an unknown outcome");
  decision.outcome = static_cast<ShrinkOutcome>(outcome);
  if (decision.outcome == ShrinkOutcome::made) {
    decision.view = reader.view();
    return decision;
  }
  decision.ranks = reader.ranks();
  if (decision.outcome == ShrinkOutcome::lists_differ) decision.other = reader.ranks();
  return decision;
}

ShrinkMessage get_message(Reader& reader) {
  const auto kind = reader.in.get<uint8_t>();
  switch (kind) {
    case 0:
      return reader.wish();
    case 1:
      return get_question(reader);
    case 2:
      return get_answer(reader);
    case 3:
      return get_decision(reader);
    default:
      reader.refuse("of an unknown kind");
      return ShrinkWish();
  }
}

}  // namespace

bool fits_shrink(const std::vector<Rank>& excluded) {
  return runs_of(excluded).size() <= kShrinkRunsMax;
}

uint64_t slot_of(const ShrinkMessage& message) {
  const auto* answer = std::get_if<ShrinkAnswer>(&message);
  if (answer != nullptr && answer->round == 0) return std::variant_size_v<ShrinkMessage>;
  const auto* decision = std::get_if<ShrinkDecision>(&message);
  if (decision != nullptr && decision->serial == 0) return std::variant_size_v<ShrinkMessage> + 1;
  return message.index();
}

View fitting(const View& view) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  put_view(out, view);
  return bytes.size() <= kViewBytesMax ? view : View();
}

std::vector<std::byte> encode(const ShrinkMessage& message) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  out.put(static_cast<uint8_t>(message.index()));
  std::visit([&out](const auto& each) { put(out, each); }, message);
  R2CCL_CHECK(bytes.size() <= kBytesMax);
  return bytes;
}

Result<ShrinkMessage> decode_shrink_message(std::span<const std::byte> bytes, int32_t ranks,
                                            size_t hosts) {
  Reader reader(bytes, ranks, hosts);
  Result<ShrinkMessage> message = get_message(reader);
  if (const Status wrong = reader.end(); !wrong.ok()) return wrong;
  return message;
}

}  // namespace r2ccl
