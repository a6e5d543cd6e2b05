// Makes a communicator of a part of the ranks of another one.
#pragma once

#include <cstdint>
#include <memory>

#include "api/handles.h"
#include "base/status.h"
#include "r2ccl/r2ccl.h"
#include "runtime/communicator.h"

namespace r2ccl::api {

// The call of a rank. All ranks of the parent must make the same one.
enum class SplitCall : int64_t { split = 0x73706c6974, duplicate = 0x636f7079 };

struct SplitWish {
  SplitCall call = SplitCall::split;
  int color = 0;
  int key = 0;
  const r2cclConfig_t* config = nullptr;  // over the parent's settings; may be null
};

// Collective over `parent`. Returns null when this rank has no color. `refused`: an argument of
// this rank is wrong; it takes part nevertheless, so that every rank gets an error.
Result<std::unique_ptr<Communicator>> split(CommObject& parent, const SplitWish& wish,
                                            const Status& refused);

}  // namespace r2ccl::api
