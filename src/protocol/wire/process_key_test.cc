#include "protocol/wire/process_key.h"

#include <gtest/gtest.h>

#include <vector>

namespace r2ccl::crypto {
namespace {

std::vector<std::byte> plain() {
  std::vector<std::byte> bytes(100);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i + 1);
  return bytes;
}

std::vector<std::byte> sealed_by(const ProcessKey& writer, const ProcessKey& reader) {
  std::vector<std::byte> boxed(plain().size() + kBoxBytes);
  EXPECT_TRUE(writer.seal(reader.public_key(), plain(), boxed));
  return boxed;
}

TEST(ProcessKey, OpensWhatIsSealedForIt) {
  const ProcessKey writer;
  const ProcessKey reader;
  std::vector<std::byte> out(plain().size());
  EXPECT_TRUE(reader.open(writer.public_key(), sealed_by(writer, reader), out));
  EXPECT_EQ(out, plain());
  EXPECT_TRUE(writer.open(writer.public_key(), sealed_by(writer, writer), out));
}

TEST(ProcessKey, OpensNothingFromAnotherWriterOrForAnotherReader) {
  const ProcessKey writer;
  const ProcessKey reader;
  const ProcessKey stranger;
  std::vector<std::byte> out(plain().size(), std::byte{9});
  EXPECT_FALSE(reader.open(stranger.public_key(), sealed_by(writer, reader), out));
  EXPECT_EQ(out, std::vector<std::byte>(plain().size()));
  EXPECT_FALSE(stranger.open(writer.public_key(), sealed_by(writer, reader), out));
}

TEST(ProcessKey, RefusesEachChangedByte) {
  const ProcessKey writer;
  const ProcessKey reader;
  const std::vector<std::byte> boxed = sealed_by(writer, reader);
  std::vector<std::byte> out(plain().size());
  for (size_t i = 0; i < boxed.size(); ++i) {
    std::vector<std::byte> changed = boxed;
    changed[i] ^= std::byte{0x20};
    EXPECT_FALSE(reader.open(writer.public_key(), changed, out)) << i;
  }
}

TEST(ProcessKey, RefusesAKeyWithWhichAnybodyCouldRead) {
  const ProcessKey writer;
  std::vector<std::byte> boxed(plain().size() + kBoxBytes);
  EXPECT_FALSE(writer.seal(PublicKey{}, plain(), boxed));
}

TEST(ProcessKey, TwoBoxesOfTheSameBytesDiffer) {
  const ProcessKey key;
  EXPECT_NE(sealed_by(key, key), sealed_by(key, key));
  EXPECT_NE(ProcessKey().public_key(), ProcessKey().public_key());
}

}  // namespace
}  // namespace r2ccl::crypto
