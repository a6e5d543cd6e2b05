// Writes the seeds again after a format has changed: write_seeds tests/fuzz/corpus
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "tests/fuzz/seeds.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_seeds FOLDER\n");
    return 2;
  }
  for (const r2ccl::Seed& seed : r2ccl::all_seeds()) {
    const auto folder = std::filesystem::path(argv[1]) / seed.fuzzer;
    std::error_code error;  // the file tells
    std::filesystem::create_directories(folder, error);
    std::ofstream out(folder / seed.name, std::ios::binary);
    if (!(out << seed.bytes).flush()) {
      std::fprintf(stderr, "write_seeds: cannot write %s\n", (folder / seed.name).c_str());
      return 1;
    }
  }
  return 0;
}
