#include "tools/plan/msccl_order.h"

#include <algorithm>
#include <compare>
#include <map>
#include <utility>

namespace r2ccl::tools {
namespace {

// One block of a GPU sends over a connection and one of another GPU receives, in their order.
struct Connection {
  int32_t from = 0;
  int32_t to = 0;
  int32_t channel = 0;
  friend auto operator<=>(const Connection&, const Connection&) = default;
};

struct Ends {
  std::vector<size_t> senders;
  std::vector<size_t> receivers;
};

std::string name_of(const Connection& connection) {
  return "GPU " + std::to_string(connection.from) + " to GPU " + std::to_string(connection.to) +
         " on channel " + std::to_string(connection.channel);
}

Status wrong_algorithm(const std::string& what) {
  return {Code::invalid_argument, what};
}

}  // namespace

MscclOrder::MscclOrder(const MscclAlgorithm& algorithm) : algorithm_(&algorithm) {
  for (uint32_t gpu = 0; gpu < algorithm.gpus.size(); ++gpu) {
    const std::vector<MscclBlock>& blocks = algorithm.gpus[gpu].blocks;
    first_.emplace_back();
    for (uint32_t block = 0; block < blocks.size(); ++block) {
      first_.back().push_back(nodes_.size());
      for (uint32_t step = 0; step < blocks[block].steps.size(); ++step) {
        nodes_.push_back({gpu, block, step});
      }
    }
  }
  sent_.assign(nodes_.size(), kNoMessage);
  received_.assign(nodes_.size(), kNoMessage);
}

Result<MscclOrder> MscclOrder::of(const MscclAlgorithm& algorithm) {
  MscclOrder order(algorithm);
  R2CCL_RETURN_IF_ERROR(order.match());
  R2CCL_RETURN_IF_ERROR(order.sort());
  return order;
}

const MscclBlock& MscclOrder::block(size_t index) const {
  const MscclNode& node = nodes_[index];
  return algorithm_->gpus[node.gpu].blocks[node.block];
}

const MscclStep& MscclOrder::step(size_t index) const {
  return block(index).steps[nodes_[index].step];
}

std::string MscclOrder::place(size_t index) const {
  return "line " + std::to_string(step(index).line) + ": GPU " + std::to_string(nodes_[index].gpu) +
         ", thread block " + std::to_string(block(index).id) + ", step " +
         std::to_string(nodes_[index].step) + ": ";
}

Status MscclOrder::match() {
  std::map<Connection, Ends> connections;
  for (size_t index = 0; index < nodes_.size(); ++index) {
    const MscclBlock& from = block(index);
    const auto self = static_cast<int32_t>(nodes_[index].gpu);
    if (sends(step(index).type)) {
      connections[{self, from.send_to, from.channel}].senders.push_back(index);
    }
    if (receives(step(index).type)) {
      connections[{from.receive_from, self, from.channel}].receivers.push_back(index);
    }
  }
  const auto shares = [&](const std::vector<size_t>& ends) {
    return !ends.empty() && nodes_[ends.front()].block != nodes_[ends.back()].block;
  };
  for (const auto& [connection, ends] : connections) {
    if (shares(ends.senders) || shares(ends.receivers)) {
      const size_t index = shares(ends.senders) ? ends.senders.back() : ends.receivers.back();
      return wrong_algorithm(place(index) + "another thread block has messages from " +
                             name_of(connection) + " too; give them different channels");
    }
    if (ends.senders.size() != ends.receivers.size()) {
      const bool more = ends.senders.size() > ends.receivers.size();
      const size_t index =
          more ? ends.senders[ends.receivers.size()] : ends.receivers[ends.senders.size()];
      return wrong_algorithm(place(index) + "no step " + (more ? "receives" : "sends") +
                             " this message from " + name_of(connection));
    }
    for (size_t i = 0; i < ends.senders.size(); ++i) {
      const size_t sender = ends.senders[i];
      const size_t receiver = ends.receivers[i];
      if (step(sender).count != step(receiver).count) {
        return wrong_algorithm(place(receiver) + "cnt is " + std::to_string(step(receiver).count) +
                               ", and it is " + std::to_string(step(sender).count) + " on line " +
                               std::to_string(step(sender).line) + ", which sends the message");
      }
      sent_[sender] = received_[receiver] = messages_.size();
      messages_.push_back({sender, receiver});
    }
  }
  return Status::ok_status();
}

Status MscclOrder::sort() {
  std::vector<std::vector<size_t>> followers(nodes_.size());
  std::vector<uint32_t> waits_for(nodes_.size(), 0);
  const auto connect = [&](size_t first, size_t second) {
    followers[first].push_back(second);
    ++waits_for[second];
  };
  for (size_t index = 0; index < nodes_.size(); ++index) {
    const MscclNode& node = nodes_[index];
    if (node.step > 0) connect(index - 1, index);
    if (const auto& wait = step(index).waits_for) {
      connect(index_of({node.gpu, wait->block, wait->step}), index);
    }
  }
  for (const MscclMessage& message : messages_) connect(message.sender, message.receiver);

  rounds_.assign(nodes_.size(), 0);
  for (size_t index = 0; index < nodes_.size(); ++index) {
    if (waits_for[index] == 0) schedule_.push_back(index);
  }
  for (size_t done = 0; done < schedule_.size(); ++done) {
    const size_t index = schedule_[done];
    for (const size_t follower : followers[index]) {
      rounds_[follower] = std::max(rounds_[follower], rounds_[index] + 1);
      if (--waits_for[follower] == 0) schedule_.push_back(follower);
    }
  }
  if (schedule_.size() == nodes_.size()) return Status::ok_status();
  const auto stuck = std::ranges::find_if(waits_for, [](uint32_t count) { return count > 0; });
  return wrong_algorithm(place(static_cast<size_t>(stuck - waits_for.begin())) +
                         "it never starts, because steps wait for each other in a circle");
}

}  // namespace r2ccl::tools
