// The stored inputs that the corpora begin with: encodings of today's formats.
#pragma once

#include <string>
#include <vector>

namespace r2ccl {

struct Seed {
  std::string fuzzer;  // the folder of the corpus
  std::string name;    // of the file in it
  std::string bytes;
  bool random = false;  // a part of the bytes is drawn anew each time
};

std::vector<Seed> all_seeds();

}  // namespace r2ccl
