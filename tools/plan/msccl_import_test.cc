#include "tools/plan/msccl_import.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "plan/analysis/checker.h"

namespace r2ccl::tools {
namespace {

// Writes algorithms: each GPU has thread blocks, and each of these steps such as "rrc i 0 o 1 2",
// which are a type, source, target and count. " <0.1" is a wait for step 1 of thread block 0.
struct Block {
  int send;
  int receive;
  std::vector<std::string> steps;
  int channel = 0;
};
using Gpus = std::vector<std::vector<Block>>;

std::string step_xml(size_t number, const std::string& words) {
  std::istringstream in(words);
  std::string type, from, to, wait;
  int from_first = 0, to_first = 0, count = 0, block = -1, step = -1;
  in >> type >> from >> from_first >> to >> to_first >> count;
  if (in >> wait) std::sscanf(wait.c_str(), "<%d.%d", &block, &step);
  const auto attribute = [](const char* name, const auto& value) {
    std::ostringstream out;
    out << " " << name << "=\"" << value << "\"";
    return out.str();
  };
  return "<step" + attribute("s", number) + attribute("type", type) + attribute("srcbuf", from) +
         attribute("srcoff", from_first) + attribute("dstbuf", to) + attribute("dstoff", to_first) +
         attribute("cnt", count) + attribute("depid", block) + attribute("deps", step) +
         attribute("hasdep", 1) + "/>\n";
}

MscclAlgorithm algorithm_of(const std::string& collective, int chunks, const Gpus& gpus,
                            bool in_place = false, int scratch = 8) {
  std::string xml = "<algo name=\"test\" coll=\"" + collective + "\" nchunksperloop=\"" +
                    std::to_string(chunks) + "\" ngpus=\"" + std::to_string(gpus.size()) +
                    "\" inplace=\"" + (in_place ? "1" : "0") + "\">\n";
  for (size_t gpu = 0; gpu < gpus.size(); ++gpu) {
    xml += "<gpu id=\"" + std::to_string(gpu) + "\" s_chunks=\"" + std::to_string(scratch) + "\">";
    for (size_t id = 0; id < gpus[gpu].size(); ++id) {
      const Block& block = gpus[gpu][id];
      xml += "<tb id=\"" + std::to_string(id) + "\" send=\"" + std::to_string(block.send) +
             "\" recv=\"" + std::to_string(block.receive) + "\" chan=\"" +
             std::to_string(block.channel) + "\">\n";
      for (size_t i = 0; i < block.steps.size(); ++i) xml += step_xml(i, block.steps[i]);
      xml += "</tb>";
    }
    xml += "</gpu>\n";
  }
  return parse_msccl(xml + "</algo>").value();
}

Result<WholePlan> import_test(const MscclAlgorithm& algorithm, uint64_t times = 3) {
  PlanKey key;
  key.count = times * least_count(algorithm);
  return import_msccl(algorithm, key);
}

// Returns the checker's answer; empty where the plan is proved.
std::string proof_of(const MscclAlgorithm& algorithm) {
  const Result<WholePlan> plan = import_test(algorithm);
  if (!plan.ok()) return plan.status().message();
  const Status proof = check_plan(plan.value().keys, plan.value().plans);
  EXPECT_EQ(parse_plan(print_plan(plan.value())).value(), plan.value());
  return proof.message();
}

// AllReduce of two GPUs: each adds one half of the vector and returns it.
Gpus two_gpus() {
  return {{{1, 1, {"s i 1 o 1 1", "rrc i 0 o 0 1", "s o 0 o 0 1", "r o 1 o 1 1"}}},
          {{0, 0, {"s i 0 o 0 1", "rrc i 1 o 1 1", "s o 1 o 1 1", "r o 0 o 0 1"}}}};
}

TEST(MscclImport, AStepComesAfterThoseThatUseItsChunks) {
  const MscclAlgorithm algorithm = algorithm_of("allreduce", 2, two_gpus());
  EXPECT_EQ(proof_of(algorithm), "");
  EXPECT_EQ(print_plan(import_test(algorithm, 5).value()),
            "r2ccl-plan 1 collective all_reduce algorithm automatic type float32 op sum ranks 2 "
            "root 0 count 10\n"
            "rank 0 steps 4 scratch 40\n"
            "0 send peer 1 source input:5+5\n"
            "1 receive_reduce peer 1 source input:0+5 target output:0+5 operands own_first "
            "last_reduction\n"
            "2 send peer 1 source output:0+5 after 1\n"
            "3 receive peer 1 target output:5+5\n"
            "rank 1 steps 4 scratch 40\n"
            "0 send peer 0 source input:0+5\n"
            "1 receive_reduce peer 0 source input:5+5 target output:5+5 operands received_first "
            "last_reduction\n"
            "2 send peer 0 source output:5+5 after 1\n"
            "3 receive peer 0 target output:0+5\n");
}

TEST(MscclImport, InPlaceTheInputIsTheOutput) {
  EXPECT_EQ(proof_of(algorithm_of("allreduce", 2, two_gpus(), true)), "");
  const Gpus gather = {{{1, 1, {"s i 0 o 0 1", "r o 1 o 1 1"}}},
                       {{0, 0, {"s i 0 o 1 1", "r o 0 o 0 1"}}}};
  EXPECT_EQ(proof_of(algorithm_of("allgather", 2, gather, true)), "");
  EXPECT_NE(proof_of(algorithm_of("allgather", 2, gather, false)), "");
  const Gpus scatter = {{{1, 1, {"s i 1 s 0 1", "rrc i 0 o 0 1"}}},
                        {{0, 0, {"s i 0 s 0 1", "rrc i 1 o 0 1"}}}};
  EXPECT_EQ(proof_of(algorithm_of("reducescatter", 2, scatter, true)), "");
  EXPECT_EQ(proof_of(algorithm_of("reduce_scatter", 2, scatter, false)), "");
}

TEST(MscclImport, OtherCollectivesAreProved) {
  const Gpus exchange = {{{1, 1, {"s i 1 o 0 1", "r i 0 o 1 1"}}, {-1, -1, {"cpy i 0 o 0 1"}}},
                         {{0, 0, {"s i 0 o 1 1", "r i 1 o 0 1"}}, {-1, -1, {"cpy i 1 o 1 1"}}}};
  EXPECT_EQ(proof_of(algorithm_of("alltoall", 2, exchange)), "");
  const Gpus spread = {{{1, -1, {"s i 0 o 0 2", "cpy i 0 o 0 2"}}},
                       {{2, 0, {"rcs i 0 o 0 2"}}},
                       {{-1, 1, {"r i 0 o 0 2"}}}};
  EXPECT_EQ(proof_of(algorithm_of("broadcast", 2, spread)), "");
  const Gpus sum = {
      {{-1, 1, {"rrc i 0 o 0 1"}}}, {{0, 2, {"rrs i 0 o 0 1"}}}, {{1, -1, {"s i 0 o 0 1"}}}};
  EXPECT_EQ(proof_of(algorithm_of("reduce", 1, sum)), "");
}

// Chunks that come together and are added one by one: the message is cut, also at the sender.
TEST(MscclImport, AnAdditionJoinsTheReceiveOfItsChunk) {
  const Block first{1, 1, {"s i 0 s 0 2", "r i 0 s 0 2", "re s 1 i 1 1", "re s 0 i 0 1"}};
  Gpus gpus = {{first}, {first}};
  gpus[1][0].send = gpus[1][0].receive = 0;
  const MscclAlgorithm algorithm = algorithm_of("allreduce", 2, gpus, true);
  EXPECT_EQ(proof_of(algorithm), "");
  const WholePlan plan = import_test(algorithm, 1).value();
  ASSERT_EQ(plan.plans[0].steps.size(), 4u);
  for (const Step& step : plan.plans[0].steps) {
    EXPECT_EQ(step.kind == StepKind::send ? step.source.count : step.target.count, 1u);
    EXPECT_EQ(step.kind == StepKind::receive_reduce, step.last_reduction);
  }
  // An addition to what arrives is the same.
  const std::vector<std::string> other = {"s i 0 s 0 2", "r i 0 o 0 2", "re i 0 o 0 2"};
  gpus[0][0].steps = gpus[1][0].steps = other;
  EXPECT_EQ(proof_of(algorithm_of("allreduce", 2, gpus)), "");
}

TEST(MscclImport, AnAdditionOfOtherChunksIsRefused) {
  Gpus gpus = two_gpus();
  gpus[0].push_back({-1, -1, {"re i 0 o 0 1 <0.1"}});
  EXPECT_EQ(proof_of(algorithm_of("allreduce", 2, gpus)),
            "line 8: GPU 0, thread block 1, step 0: `re` adds a chunk that did not come by `r`, or "
            "that has other users; plans add only what arrives: use rrc at the receiver");
  const Gpus reused = {{{1, 1, {"s i 0 s 0 1", "r i 0 s 0 1", "re s 0 i 0 1", "s s 0 i 0 1"}}},
                       {{0, 0, {"s i 0 s 0 1", "r i 0 s 0 1", "re s 0 i 0 1", "r s 0 s 1 1"}}}};
  EXPECT_EQ(proof_of(algorithm_of("allreduce", 1, reused, true)),
            "line 6: GPU 0, thread block 0, step 3: it uses a chunk that line 5 has added to "
            "another one; let `re` be the only user of a chunk that it adds");
  const Block copies{-1, -1, {"cpy i 0 s 1 1", "cpy i 0 s 1 1", "cpy i 0 s 1 1", "re s 0 i 0 1"}};
  const Gpus race = {{{1, 1, {"s i 0 s 0 1", "r i 0 s 0 1"}}, copies},
                     {{0, 0, {"s i 0 s 0 1", "r i 0 s 0 1"}}, copies}};
  EXPECT_EQ(proof_of(algorithm_of("allreduce", 1, race, true)),
            "line 9: GPU 0, thread block 1, step 3: it adds a chunk that line 4 receives, and does "
            "not wait for it");
}

// Without the wait, the send may read the sum too early.
TEST(MscclImport, ARaceIsNotProved) {
  Gpus gpus = {
      {{1, 1, {"s i 1 o 1 1", "rrc i 0 o 0 1"}}, {1, 1, {"s o 0 o 0 1 <0.1", "r o 1 o 1 1"}, 1}},
      {{0, 0, {"s i 0 o 0 1", "rrc i 1 o 1 1"}}, {0, 0, {"s o 1 o 1 1 <0.1", "r o 0 o 0 1"}, 1}}};
  EXPECT_EQ(proof_of(algorithm_of("allreduce", 2, gpus)), "");
  gpus[0][1].steps[0] = "s o 0 o 0 1";
  EXPECT_NE(proof_of(algorithm_of("allreduce", 2, gpus)).find(" what this step reads: "),
            std::string::npos);
}

TEST(MscclImport, WrongValuesAreNotProved) {
  Gpus gpus = two_gpus();
  gpus[0][0].steps[3] = "r o 1 o 0 1";
  EXPECT_NE(proof_of(algorithm_of("allreduce", 2, gpus)), "");
  gpus = two_gpus();
  gpus[0][0].steps[1] = "rrc i 1 o 0 1";
  EXPECT_NE(proof_of(algorithm_of("allreduce", 2, gpus)), "");
}

TEST(MscclImport, AMessageWithoutItsOtherEndIsRefused) {
  Gpus gpus = two_gpus();
  gpus[0][0].steps.pop_back();
  EXPECT_EQ(proof_of(algorithm_of("allreduce", 2, gpus)),
            "line 10: GPU 1, thread block 0, step 2: no step receives this message from GPU 1 to "
            "GPU 0 on channel 0");
  gpus = two_gpus();
  gpus[1][0].steps[0] = "s i 0 o 0 2";
  EXPECT_EQ(
      proof_of(algorithm_of("allreduce", 2, gpus)),
      "line 4: GPU 0, thread block 0, step 1: cnt is 1, and it is 2 on line 9, which sends the "
      "message");
  gpus = two_gpus();
  gpus[0].push_back({1, -1, {"s i 0 o 0 1"}});
  EXPECT_EQ(proof_of(algorithm_of("allreduce", 2, gpus)),
            "line 8: GPU 0, thread block 1, step 0: another thread block has messages from GPU 0 "
            "to GPU 1 on channel 0 too; give them different channels");
}

TEST(MscclImport, StepsThatWaitInACircleAreRefused) {
  const Gpus gpus = {{{1, 1, {"r i 0 o 0 1", "s i 0 o 0 1"}}},
                     {{0, 0, {"r i 0 o 0 1", "s i 0 o 0 1"}}}};
  EXPECT_EQ(proof_of(algorithm_of("allreduce", 1, gpus)),
            "line 3: GPU 0, thread block 0, step 0: it never starts, because steps wait for each "
            "other in a circle");
}

TEST(MscclImport, AChunkBeyondItsBufferIsRefused) {
  Gpus gpus = two_gpus();
  gpus[0][0].steps[0] = "s s 8 o 1 1";
  EXPECT_EQ(proof_of(algorithm_of("allreduce", 2, gpus)),
            "line 3: GPU 0, thread block 0, step 0: it uses chunk 8 of the scratch memory, which "
            "has 8 chunks");
}

TEST(MscclImport, ACountThatMakesNoEqualChunksIsRefused) {
  PlanKey key;
  key.count = 7;
  EXPECT_EQ(import_msccl(algorithm_of("allreduce", 2, two_gpus()), key).status().message(),
            "the algorithm cuts 7 elements into equal chunks; take a multiple of 2");
}

}  // namespace
}  // namespace r2ccl::tools
