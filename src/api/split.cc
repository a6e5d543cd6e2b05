#include "api/split.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "api/calls.h"
#include "api/child.h"
#include "api/group.h"
#include "api/init.h"
#include "runtime/bootstrap/unique_id.h"

namespace r2ccl::api {
namespace {

using Words = std::vector<int64_t>;

// The call of a rank, as it tells the others.
struct Part {
  int64_t call = 0;
  int64_t color = 0;
  int64_t key = 0;
  int64_t sound = 0;  // 1: its arguments are valid
  int64_t apart = 0;  // 1: its settings want links of its own
  // The settings that the ranks of a communicator must have alike.
  int64_t algorithm = 0;
  int64_t reproducible = 0;
};
constexpr size_t kPartWords = 7;

const char* name_of(SplitCall call) {
  return call == SplitCall::split ? "r2cclCommSplit" : "r2cclCommDup";
}

// Returns an error that names the rank at fault.
Status error_of(size_t rank, Code code, const std::string& text) {
  return Status(code, text).with_ranks({Rank(static_cast<int32_t>(rank))});
}

std::string text_of(size_t rank) {
  return "rank " + std::to_string(rank);
}

// Fills `words`, to which each rank has contributed its own entries and zeros, with those of all.
Status exchange(Communicator& parent, Words& words, View* view) {
  return parent.exchange(words, view, "r2cclCommSplit");
}

Result<std::vector<Part>> exchange_parts(Communicator& parent, const Part& mine, View* view) {
  const auto ranks = static_cast<size_t>(parent.rank_count());
  const auto self = static_cast<size_t>(parent.rank().value());
  Words words(ranks * kPartWords);
  std::ranges::copy(std::array{mine.call, mine.color, mine.key, mine.sound, mine.apart,
                               mine.algorithm, mine.reproducible},
                    &words[self * kPartWords]);
  R2CCL_RETURN_IF_ERROR(exchange(parent, words, view));
  std::vector<Part> parts;
  for (const int64_t* at = words.data(); parts.size() < ranks; at += kPartWords) {
    parts.push_back({at[0], at[1], at[2], at[3], at[4], at[5], at[6]});
  }
  return parts;
}

// An AllReduce of another rank may have the same shape as the exchange. Its values are in every
// entry then.
Status check_calls(const std::vector<Part>& parts, SplitCall mine) {
  const auto is_call = [](const Part& part, SplitCall call) {
    return part.call == static_cast<int64_t>(call);
  };
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    if (is_call(parts[rank], mine)) continue;
    const std::string differ = "the ranks' calls do not match: ";
    const SplitCall other = mine == SplitCall::split ? SplitCall::duplicate : SplitCall::split;
    if (is_call(parts[rank], other)) {
      return {Code::invalid_usage,
              differ + text_of(rank) + " is at " + name_of(other) + ", others at " + name_of(mine)};
    }
    return {Code::invalid_usage,
            differ + "a rank is at an AllReduce of int64, others at " + name_of(mine)};
  }
  return {};
}

Status check_arguments(const std::vector<Part>& parts, SplitCall call) {
  const auto wrong = std::ranges::find_if(parts, [](const Part& part) { return part.sound != 1; });
  if (wrong == parts.end()) return {};
  const auto rank = static_cast<size_t>(wrong - parts.begin());
  return error_of(rank, Code::remote,
                  text_of(rank) + " called " + name_of(call) + " with a wrong argument");
}

// Returns the parent's ranks that have the color, in the order of the child's ranks.
std::vector<size_t> members_of(const std::vector<Part>& parts, int64_t color) {
  std::vector<size_t> members;
  if (color == R2CCL_SPLIT_NOCOLOR) return members;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    if (parts[rank].color == color) members.push_back(rank);
  }
  std::ranges::sort(members, {}, [&](size_t rank) { return std::pair(parts[rank].key, rank); });
  return members;
}

std::string algorithm_text(int64_t value) {
  return to_string(static_cast<AlgorithmChoice>(value));
}

// As the ranks of a rendezvous compare them.
Status check_settings(const std::vector<Part>& parts, const std::vector<size_t>& members) {
  const size_t first = members.front();
  const auto differs = [&](const char* what, size_t rank, const std::string& a,
                           const std::string& b) {
    return error_of(rank, Code::invalid_usage,
                    std::string(what) + " differs between ranks: " + text_of(first) + " has " + a +
                        ", " + text_of(rank) + " has " + b);
  };
  for (const size_t rank : members) {
    const Part& a = parts[first];
    const Part& b = parts[rank];
    if (a.algorithm != b.algorithm) {
      return differs("R2CCL_ALGO", rank, algorithm_text(a.algorithm), algorithm_text(b.algorithm));
    }
    if (a.reproducible != b.reproducible) {
      return differs("R2CCL_REPRODUCIBLE", rank, std::to_string(a.reproducible),
                     std::to_string(b.reproducible));
    }
  }
  return {};
}

// Opens the rendezvous of a child in its rank 0. The id that goes to the others has no secret: all
// of them derive it from the parent's key, so that it is on no wire.
Result<UniqueId> open_meeting(Communicator& parent, const Config& config, size_t ranks) {
  UniqueId id;
  id.job = make_job_identity();
  id.job.secret = parent.child_secret(id.job.id);
  if (ranks == 1) return id;
  auto endpoints = open_rendezvous(config, id.job);
  if (!endpoints.ok()) return endpoints.status();
  id.rendezvous = std::move(endpoints).value();
  return id;
}

// Exchanges the ids of all children, and returns that of `leader`'s.
Result<UniqueId> exchange_ids(Communicator& parent, const UniqueId* mine, size_t leader) {
  const auto self = static_cast<size_t>(parent.rank().value());
  Words words(static_cast<size_t>(parent.rank_count()) * kIdWords);
  if (mine != nullptr) {
    const UniqueIdBytes bytes = without_secret(*mine);
    std::memcpy(&words[self * kIdWords], bytes.data(), bytes.size());
  }
  View ignored;
  R2CCL_RETURN_IF_ERROR(exchange(parent, words, &ignored));
  const auto bytes = std::as_bytes(std::span(words)).subspan(leader * kUniqueIdBytes);
  auto id = decode_unique_id(bytes.first<kUniqueIdBytes>());
  if (!id.ok()) {
    return Status(Code::remote, text_of(leader) +
                                    " could not open the rendezvous of the new "
                                    "communicator; its own error says why");
  }
  id.value().job.secret = parent.child_secret(id.value().job.id);
  return id;
}

// Returns the id of this rank's child. All ranks of the parent take part, also those without one.
Result<UniqueId> agree_on_id(Communicator& parent, const Config& config,
                             const std::vector<size_t>& members) {
  const auto self = static_cast<size_t>(parent.rank().value());
  if (members.empty() || members.front() != self) {
    return exchange_ids(parent, nullptr, members.empty() ? self : members.front());
  }
  const auto made = open_meeting(parent, config, members.size());
  auto told = exchange_ids(parent, made.ok() ? &made.value() : nullptr, self);
  return made.ok() ? std::move(told) : made.status();
}

std::vector<Rank> ranks_of(const std::vector<size_t>& members) {
  std::vector<Rank> ranks;
  for (const size_t rank : members) ranks.emplace_back(static_cast<int32_t>(rank));
  return ranks;
}

// Makes the child over the parent's links.
Result<std::unique_ptr<Communicator>> share(Communicator& parent, CommunicatorOptions options,
                                            ContextId context, const std::vector<size_t>& members,
                                            const std::vector<Part>& parts) {
  if (members.empty()) return std::unique_ptr<Communicator>();
  R2CCL_RETURN_IF_ERROR(check_settings(parts, members));
  return make_child(parent, std::move(options), context, ranks_of(members));
}

// Makes the child with links of its own. All ranks of the parent take part in the agreement on ids.
Result<std::unique_ptr<Communicator>> meet(CommObject& object, CommunicatorOptions options,
                                           const std::vector<size_t>& members) {
  auto id = agree_on_id(*object.communicator, options.config, members);
  if (members.empty()) return std::unique_ptr<Communicator>();
  if (!id.ok()) return id.status();
  options.job = std::move(id.value().job);
  options.rendezvous = std::move(id.value().rendezvous);
  options.in_vain = failure_of(object);
  return init_child(std::move(options));
}

r2cclResult_t split_call(const SplitWish& wish, r2cclComm_t handle, r2cclComm_t* child) {
  const char* function = name_of(wish.call);
  if (child != nullptr) *child = nullptr;
  return with_comm(function, handle, [&](CommObject* parent) -> r2cclResult_t {
    const std::string where = std::string(function) + ": ";
    if (const auto outside = check_outside_group(function); !outside.ok()) {
      return result_of(outside);
    }
    if (const Status open = check_open(function, parent); !open.ok()) return result_of(open);
    Status refused;
    if (child == nullptr) refused = {Code::invalid_argument, where + "newcomm is NULL"};
    if (wish.color < R2CCL_SPLIT_NOCOLOR) {
      refused = {Code::invalid_argument, where + "color is " + std::to_string(wish.color) +
                                             ", it must be 0 or more, or R2CCL_SPLIT_NOCOLOR"};
    }
    auto made = split(*parent, wish, refused);
    if (!made.ok()) return result_of(made.status());
    if (made.value() != nullptr) *child = adopt(std::move(made).value());
    return r2cclSuccess;
  });
}

}  // namespace

Result<std::unique_ptr<Communicator>> split(CommObject& object, const SplitWish& wish,
                                            const Status& refused) {
  Communicator& parent = *object.communicator;
  const auto config = child_config(parent.options().config, wish.config);
  Part mine{static_cast<int64_t>(wish.call), wish.color, wish.key};
  mine.sound = refused.ok() && config.ok() ? 1 : 0;
  if (config.ok()) {
    mine.apart = wants_own_links(parent.options().config, config.value()) ? 1 : 0;
    mine.algorithm = static_cast<int64_t>(config.value().algo);
    mine.reproducible = config.value().reproducible ? 1 : 0;
  }
  View view;
  const auto parts = exchange_parts(parent, mine, &view);
  if (!parts.ok()) return parts.status();
  if (const Status same = check_calls(parts.value(), wish.call); !same.ok()) {
    parent.fail(same);
    return same;
  }
  R2CCL_RETURN_IF_ERROR(refused);
  if (!config.ok()) return config.status().with_context(name_of(wish.call));
  R2CCL_RETURN_IF_ERROR(check_arguments(parts.value(), wish.call));
  const std::vector<size_t> members = members_of(parts.value(), wish.color);
  const ContextId context = parent.children().of_split(wish.color);
  CommunicatorOptions options;
  options.config = config.value();
  if (!members.empty()) {
    set_place(options, parent, ranks_of(members), view);
  }
  const bool apart = std::ranges::any_of(parts.value(), [](const Part& p) { return p.apart == 1; });
  auto made = apart ? meet(object, std::move(options), members)
                    : share(parent, std::move(options), context, members, parts.value());
  if (!made.ok()) return made.status().with_context(name_of(wish.call));
  return made;
}

}  // namespace r2ccl::api

extern "C" {

r2cclResult_t r2cclCommSplit(r2cclComm_t comm, int color, int key, r2cclComm_t* newcomm,
                             const r2cclConfig_t* config) {
  using r2ccl::api::SplitCall;
  return r2ccl::api::split_call({SplitCall::split, color, key, config}, comm, newcomm);
}

r2cclResult_t r2cclCommDup(r2cclComm_t comm, r2cclComm_t* newcomm, const r2cclConfig_t* config) {
  using r2ccl::api::SplitCall;
  return r2ccl::api::split_call({SplitCall::duplicate, 0, 0, config}, comm, newcomm);
}

}  // extern "C"
