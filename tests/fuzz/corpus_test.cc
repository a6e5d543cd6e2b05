// Runs the fuzzers' entries on their stored inputs. Seeds that no parser accepts any more would
// leave a fuzzer in its first error path. So each corpus must have an accepted one, and each seed
// the bytes of the format of today.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <set>

#include "tests/fuzz/entries.h"
#include "tests/fuzz/seeds.h"

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

std::string content(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<Input> corpus_of(const char* name) {
  std::vector<Input> inputs;
  const auto folder = std::filesystem::path(R2CCL_FUZZ_CORPUS) / name;
  if (!std::filesystem::is_directory(folder)) return inputs;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    inputs.push_back({file.path().filename(), content(file.path())});
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

TEST(FuzzCorpora, HoldTheSeedsOfTodaysFormats) {
  for (const Seed& seed : all_seeds()) {
    const auto file = std::filesystem::path(R2CCL_FUZZ_CORPUS) / seed.fuzzer / seed.name;
    const std::string stored = content(file);
    EXPECT_TRUE(std::filesystem::exists(file)) << file;
    EXPECT_TRUE(seed.random ? stored.size() == seed.bytes.size() : stored == seed.bytes)
        << file << " is of an older format: cmake --build build --target write_seeds && "
        << "build/write_seeds tests/fuzz/corpus";
  }
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
