// Runs the fuzzers' entries on their stored inputs. Seeds that no parser accepts any more would
// leave a fuzzer in its first error path, so each corpus must have an accepted one.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <set>

#include "tests/fuzz/entries.h"

namespace r2ccl {

// ctest shows this.
static void PrintTo(const FuzzEntry& entry, std::ostream* out) {
  *out << entry.name;
}

namespace {

constexpr size_t kFilesMax = 20;
constexpr size_t kFileBytesMax = 4096;

struct Input {
  std::string name;
  std::string bytes;
};

std::vector<Input> corpus_of(const char* name) {
  std::vector<Input> inputs;
  const auto folder = std::filesystem::path(R2CCL_FUZZ_CORPUS) / name;
  if (!std::filesystem::is_directory(folder)) return inputs;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(file.path(), std::ios::binary);
    inputs.push_back({file.path().filename(), {std::istreambuf_iterator<char>(in), {}}});
  }
  return inputs;
}

class FuzzCorpus : public testing::TestWithParam<FuzzEntry> {};

TEST_P(FuzzCorpus, PassesItsEntryWithSeedsThatAreAccepted) {
  const std::vector<Input> inputs = corpus_of(GetParam().name);
  EXPECT_LE(inputs.size(), kFilesMax);
  int accepted = 0;
  for (const Input& input : inputs) {
    SCOPED_TRACE(input.name);
    EXPECT_LE(input.bytes.size(), kFileBytesMax);
    accepted += GetParam().run(std::as_bytes(std::span(input.bytes)));
  }
  EXPECT_GT(accepted, 0) << "of " << inputs.size() << " inputs";
}

TEST(FuzzCorpora, HaveAFuzzerEach) {
  std::set<std::string> names;
  for (const FuzzEntry& entry : kFuzzEntries) names.insert(entry.name);
  for (const auto& folder : std::filesystem::directory_iterator(R2CCL_FUZZ_CORPUS)) {
    EXPECT_TRUE(names.contains(folder.path().filename())) << folder.path();
  }
}

INSTANTIATE_TEST_SUITE_P(Each, FuzzCorpus, testing::ValuesIn(kFuzzEntries),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace r2ccl
