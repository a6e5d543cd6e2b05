// r2cclCommGrow: a communicator with further processes, which meet the ranks of the old one by a
// unique id.
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/calls.h"
#include "api/child.h"
#include "api/group.h"
#include "api/init.h"
#include "runtime/bootstrap/unique_id.h"

namespace r2ccl::api {
namespace {

constexpr const char* kGrow = "r2cclCommGrow";
constexpr int64_t kCall = 0x67726f77;  // tells it from other calls of the same shape

// The call of a rank, as it tells the others.
struct GrowPart {
  int64_t call = 0;
  int64_t rank_count = 0;
  int64_t has_id = 0;
  int64_t sound = 0;  // 1: its arguments are valid
};
constexpr size_t kGrowWords = 4;

struct Exchanged {
  std::vector<GrowPart> parts;
  UniqueIdBytes id{};  // without its secret; zeros where no rank has given one
};

std::string rank_text(size_t rank) {
  return "rank " + std::to_string(rank);
}

Status at_fault(Code code, size_t rank, const std::string& text) {
  return Status(code, text).with_ranks({Rank(static_cast<int32_t>(rank))});
}

Result<Exchanged> exchange_growth(Communicator& parent, const GrowPart& mine, const UniqueId* id) {
  const auto ranks = static_cast<size_t>(parent.rank_count());
  std::vector<int64_t> words(ranks * kGrowWords + kIdWords);
  std::ranges::copy(std::array{mine.call, mine.rank_count, mine.has_id, mine.sound},
                    &words[static_cast<size_t>(parent.rank().value()) * kGrowWords]);
  if (id != nullptr) {
    const UniqueIdBytes bytes = without_secret(*id);
    std::memcpy(&words[ranks * kGrowWords], bytes.data(), bytes.size());
  }
  View ignored;
  R2CCL_RETURN_IF_ERROR(parent.exchange(words, &ignored, kGrow));
  Exchanged all;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const int64_t* at = &words[rank * kGrowWords];
    all.parts.push_back({at[0], at[1], at[2], at[3]});
  }
  std::memcpy(all.id.data(), &words[ranks * kGrowWords], all.id.size());
  return all;
}

Status check_calls_of(const std::vector<GrowPart>& parts) {
  for (const GrowPart& part : parts) {
    if (part.call == kCall) continue;
    return {Code::invalid_usage,
            std::string("the ranks' calls do not match: a rank is at an AllReduce of int64, others "
                        "at ") +
                kGrow};
  }
  return {};
}

Status check_parts(const std::vector<GrowPart>& parts) {
  size_t with_id = 0;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    if (parts[rank].sound != 1) {
      return at_fault(Code::remote, rank,
                      rank_text(rank) + " called " + kGrow + " with a wrong argument");
    }
    if (parts[rank].rank_count != parts.front().rank_count) {
      return at_fault(Code::invalid_usage, rank,
                      "nRanks differs between ranks: rank 0 has " +
                          std::to_string(parts.front().rank_count) + ", " + rank_text(rank) +
                          " has " + std::to_string(parts[rank].rank_count));
    }
    with_id += parts[rank].has_id == 1 ? 1 : 0;
  }
  if (with_id == 1) return {};
  return {Code::invalid_usage, std::to_string(with_id) +
                                   " ranks have given a uniqueId: the one that called "
                                   "r2cclCommGetUniqueId must, and no other"};
}

struct GrowWish {
  int rank_count = 0;
  const r2cclUniqueId* id = nullptr;
  int rank = 0;
  const r2cclConfig_t* config = nullptr;
};

Result<UniqueId> read_id(const r2cclUniqueId& given) {
  UniqueIdBytes bytes;
  std::memcpy(bytes.data(), given.internal, bytes.size());
  auto id = decode_unique_id(bytes);
  crypto::wipe(bytes);
  return id;
}

// The id must come from this communicator: its members derive the secret from their own key.
Result<UniqueId> read_own_id(Communicator& parent, const r2cclUniqueId& given) {
  auto id = read_id(given);
  if (!id.ok()) return id.status().with_context(kGrow);
  if (parent.child_secret(id.value().job.id) == id.value().job.secret) return id;
  return Status(Code::invalid_argument, std::string(kGrow) +
                                            ": uniqueId is not of this communicator: "
                                            "r2cclCommGetUniqueId did not return it");
}

Status check_wish(const Communicator& parent, const GrowWish& wish) {
  const auto wrong_count = [&](const std::string& text) {
    return Status(Code::invalid_argument, std::string(kGrow) + ": " + text);
  };
  if (wish.rank_count <= parent.rank_count()) {
    return wrong_count("nRanks is " + std::to_string(wish.rank_count) +
                       ", it must be more than comm's " + std::to_string(parent.rank_count()));
  }
  if (wish.rank != -1) return wrong_count("rank must be -1: a rank of comm keeps its own");
  return {};
}

Result<std::unique_ptr<Communicator>> grow(CommObject& object, const GrowWish& wish,
                                           Status refused) {
  Communicator& parent = *object.communicator;
  if (refused.ok()) refused = check_wish(parent, wish);
  Result<UniqueId> own = UniqueId();
  if (refused.ok() && wish.id != nullptr) {
    own = read_own_id(parent, *wish.id);
    if (!own.ok()) refused = own.status();
  }
  const GrowPart mine{kCall, wish.rank_count, wish.id != nullptr ? 1 : 0, refused.ok() ? 1 : 0};
  const auto all =
      exchange_growth(parent, mine, mine.has_id == 1 && own.ok() ? &own.value() : nullptr);
  if (!all.ok()) return all.status();
  if (const Status same = check_calls_of(all.value().parts); !same.ok()) {
    parent.fail(same);
    return same;
  }
  R2CCL_RETURN_IF_ERROR(refused);
  if (const Status alike = check_parts(all.value().parts); !alike.ok()) {
    return alike.with_context(kGrow);
  }
  auto id = decode_unique_id(all.value().id);
  if (!id.ok()) return id.status().with_context(kGrow);
  id.value().job.secret = parent.child_secret(id.value().job.id);
  return init_from_id(wish.rank_count, std::move(id).value(), parent.rank().value(), wish.config,
                      failure_of(object));
}

r2cclResult_t hand_grown(Result<std::unique_ptr<Communicator>> made, r2cclComm_t* newcomm) {
  if (!made.ok()) return result_of(made.status());
  *newcomm = adopt(std::move(made).value());
  return r2cclSuccess;
}

// The call of a new process.
r2cclResult_t join_grown(const GrowWish& wish, r2cclComm_t* newcomm) {
  const auto refuse = [](const char* text) {
    return error(Code::invalid_argument, std::string(kGrow) + ": " + text);
  };
  if (newcomm == nullptr) return refuse("newcomm is NULL");
  if (wish.id == nullptr) return refuse("comm and uniqueId are NULL: a new process needs the id");
  auto id = read_id(*wish.id);
  if (!id.ok()) return result_of(id.status().with_context(kGrow));
  return hand_grown(init_from_id(wish.rank_count, std::move(id).value(), wish.rank, wish.config),
                    newcomm);
}

}  // namespace
}  // namespace r2ccl::api

extern "C" {

r2cclResult_t r2cclCommGetUniqueId(r2cclComm_t comm, r2cclUniqueId* uniqueId) {
  using namespace r2ccl::api;
  constexpr const char* kFunction = "r2cclCommGetUniqueId";
  return with_comm(kFunction, comm, [&](CommObject* object) -> r2cclResult_t {
    if (uniqueId == nullptr) {
      return error(r2ccl::Code::invalid_argument, std::string(kFunction) + ": uniqueId is NULL");
    }
    if (const auto open = check_open(kFunction, object); !open.ok()) return result_of(open);
    r2ccl::JobIdentity job = r2ccl::make_job_identity();
    job.secret = object->communicator->child_secret(job.id);
    auto made = make_unique_id(std::move(job));
    if (!made.ok()) return result_of(made.status().with_context(kFunction));
    *uniqueId = made.value();
    return r2cclSuccess;
  });
}

r2cclResult_t r2cclCommGrow(r2cclComm_t comm, int nRanks, const r2cclUniqueId* uniqueId, int rank,
                            r2cclComm_t* newcomm, const r2cclConfig_t* config) {
  using namespace r2ccl::api;
  if (newcomm != nullptr) *newcomm = nullptr;
  const GrowWish wish{nRanks, uniqueId, rank, config};
  if (const auto outside = check_outside_group(kGrow); !outside.ok()) {
    return result_of(outside);
  }
  if (comm == nullptr) return guarded(kGrow, [&] { return join_grown(wish, newcomm); });
  return with_comm(kGrow, comm, [&](CommObject* object) -> r2cclResult_t {
    if (const auto open = check_open(kGrow, object); !open.ok()) return result_of(open);
    r2ccl::Status refused;
    if (newcomm == nullptr) {
      refused = {r2ccl::Code::invalid_argument, std::string(kGrow) + ": newcomm is NULL"};
    }
    return hand_grown(grow(*object, wish, refused), newcomm);
  });
}

}  // extern "C"
