// The order that an algorithm of MSCCL gives its steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "tools/plan/msccl_xml.h"

namespace r2ccl::tools {

// A step of any GPU and thread block. Indices of nodes run over all of them.
struct MscclNode {
  uint32_t gpu = 0;
  uint32_t block = 0;
  uint32_t step = 0;
};

// A message: the nodes that send and receive it.
struct MscclMessage {
  size_t sender = 0;
  size_t receiver = 0;
};

inline constexpr size_t kNoMessage = SIZE_MAX;

class MscclOrder {
 public:
  // Fails where a message has no receiver or no sender, and where steps wait in a circle. The
  // algorithm must live as long as the order.
  static Result<MscclOrder> of(const MscclAlgorithm& algorithm);

  const MscclNode& node(size_t index) const { return nodes_[index]; }
  const MscclStep& step(size_t index) const;
  const MscclBlock& block(size_t index) const;
  size_t index_of(const MscclNode& node) const { return first_[node.gpu][node.block] + node.step; }
  size_t size() const { return nodes_.size(); }

  const std::vector<MscclMessage>& messages() const { return messages_; }
  // Return kNoMessage where the step has none.
  size_t sent_by(size_t index) const { return sent_[index]; }
  size_t received_by(size_t index) const { return received_[index]; }

  // All nodes; each stands after all that must end before it, on all GPUs.
  const std::vector<size_t>& schedule() const { return schedule_; }
  // The round in which the step runs, if every step takes one.
  uint32_t round(size_t index) const { return rounds_[index]; }

  // "line 12: GPU 0, thread block 3, step 5: "
  std::string place(size_t index) const;

 private:
  explicit MscclOrder(const MscclAlgorithm& algorithm);
  Status match();
  Status sort();

  const MscclAlgorithm* algorithm_;
  std::vector<MscclNode> nodes_;
  std::vector<std::vector<size_t>> first_;  // by GPU and block: the index of its first step
  std::vector<MscclMessage> messages_;
  std::vector<size_t> sent_;
  std::vector<size_t> received_;
  std::vector<size_t> schedule_;
  std::vector<uint32_t> rounds_;
};

}  // namespace r2ccl::tools
