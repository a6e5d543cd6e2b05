#include "tools/plan/msccl_xml.h"

#include <gtest/gtest.h>

#include <string>

namespace r2ccl::tools {
namespace {

// A broadcast of two GPUs, from 0 to 1: line 4 is the step of GPU 0.
const char* const kXml =
    R"(<algo name="small" proto="Simple" nchannels="1" nchunksperloop="2" ngpus="2" coll="broadcast" inplace="1">
<gpu id="0" i_chunks="2" o_chunks="2" s_chunks="3">
<tb id="7" send="1" recv="-1" chan="0">
<step s="0" type="s" srcbuf="i" srcoff="1" dstbuf="o" dstoff="0" cnt="1" depid="8" deps="0" hasdep="0"/>
</tb>
<tb id="8" send="-1" recv="-1" chan="0">
<step s="0" type="cpy" srcbuf="i" srcoff="0" dstbuf="s" dstoff="2" cnt="1" depid="-1" deps="-1" hasdep="1"/>
</tb>
</gpu>
<gpu id="1" i_chunks="2" o_chunks="2" s_chunks="0">
<tb id="0" send="-1" recv="0" chan="0">
<step s="0" type="r" srcbuf="i" srcoff="0" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
</tb>
</gpu>
</algo>
)";

TEST(MscclXml, HasTheFactsOfTheAlgorithm) {
  const MscclAlgorithm read = parse_msccl(kXml).value();
  EXPECT_EQ(read.name, "small");
  EXPECT_EQ(read.collective, Collective::broadcast);
  EXPECT_TRUE(read.in_place);
  EXPECT_EQ(read.chunks, 2u);
  ASSERT_EQ(read.gpus.size(), 2u);
  EXPECT_EQ(read.gpus[0].scratch_chunks, 3u);
  const MscclBlock& block = read.gpus[0].blocks[0];
  EXPECT_EQ(block.id, 7u);
  EXPECT_EQ(block.send_to, 1);
  EXPECT_EQ(block.receive_from, -1);
  const MscclStep& send = block.steps[0];
  EXPECT_EQ(send.type, MscclType::send);
  EXPECT_EQ(send.source, (MscclChunks{MscclBuffer::input, 1}));
  EXPECT_EQ(send.count, 1u);
  EXPECT_EQ(send.line, 4u);
  ASSERT_TRUE(send.waits_for.has_value());
  EXPECT_EQ(send.waits_for->block, 1u) << "the place, not the id";
  const MscclStep& copy = read.gpus[0].blocks[1].steps[0];
  EXPECT_EQ(copy.target, (MscclChunks{MscclBuffer::scratch, 2}));
  EXPECT_TRUE(copy.is_waited_for);
  EXPECT_FALSE(copy.waits_for.has_value());
}

// Expects the error where the first `from` of the algorithm is `to`.
void expect_refused(const std::string& from, const std::string& to, const std::string& error) {
  std::string xml = kXml;
  const size_t at = xml.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  const Result<MscclAlgorithm> read = parse_msccl(xml.replace(at, from.size(), to));
  ASSERT_FALSE(read.ok()) << from << " as " << to;
  EXPECT_EQ(read.status().code(), Code::invalid_argument);
  EXPECT_EQ(read.status().message(), error);
}

TEST(MscclXml, AnythingButTheFormIsRefusedWithItsLine) {
  EXPECT_EQ(parse_msccl("").status().message(), "line 1: the XML is broken: no element found");
  expect_refused("<algo", "<!DOCTYPE algo>\n<algo",
                 "line 1: a document type is not allowed; remove <!DOCTYPE ...>");
  expect_refused("</tb>", "", "line 6: the element 'tb' stands where <step> must");
  expect_refused("<gpu", "<cpu", "line 2: the element 'cpu' stands where <gpu> must");
  expect_refused("hasdep=\"0\"/>", "hasdep=\"0\"><step/></step>",
                 "line 4: <step> has no elements, and one stands in it");
  expect_refused("</algo>", "", "line 16: the XML is broken: no element found");
  expect_refused("</gpu>", "</tb>", "line 9: the XML is broken: mismatched tag");
}

TEST(MscclXml, AWrongAlgorithmIsRefusedWithTheCause) {
  expect_refused("name=\"small\"", "", "line 1: <algo>: the attribute name is missing");
  expect_refused("\"broadcast\"", "\"custom\"",
                 "line 1: <algo>: coll='custom' is none of allreduce, allgather, reducescatter, "
                 "reduce_scatter, alltoall, broadcast, reduce, gather, scatter");
  expect_refused("ngpus=\"2\"", "ngpus=\"1025\"",
                 "line 1: <algo>: ngpus='1025' is no number from 1 to 1024");
  expect_refused("ngpus=\"2\"", "ngpus=\"3\"",
                 "line 16: there are 3 GPUs (attribute ngpus), and no <gpu> with id 2");
  expect_refused("nchunksperloop=\"2\"", "nchunksperloop=\"0\"",
                 "line 1: <algo>: nchunksperloop='0' is no number from 1 to 65536");
  expect_refused("nchunksperloop=\"2\" ngpus=\"2\" coll=\"broadcast\"",
                 "nchunksperloop=\"3\" ngpus=\"2\" coll=\"allgather\"",
                 "line 1: <algo>: nchunksperloop is no multiple of ngpus, and each GPU has a block "
                 "of chunks");
  expect_refused("gpu id=\"1\"", "gpu id=\"0\"", "line 10: <gpu>: GPU 0 stands twice");
  expect_refused("s_chunks=\"3\"", "s_chunks=\"x\"",
                 "line 2: <gpu>: s_chunks='x' is no number from 0 to 65536");
  expect_refused("tb id=\"7\"", "tb id=\"8\"", "line 6: <tb>: the GPU has two with id 8");
  expect_refused("send=\"1\"", "send=\"0\"",
                 "line 3: <tb>: GPU 0 has itself as peer; use cpy or re");
}

TEST(MscclXml, AWrongStepIsRefusedWithTheCause) {
  expect_refused("s=\"0\" type", "s=\"1\" type",
                 "line 4: <step>: step 0 must stand here (attribute s)");
  expect_refused("type=\"s\"", "type=\"rss\"",
                 "line 4: <step>: type='rss' is none of s, r, rcs, rrs, rrc, rrcs, cpy, re, nop");
  expect_refused("cnt=\"1\"", "cnt=\"0\"", "line 4: <step>: cnt='0' is no number from 1 to 65536");
  expect_refused("srcbuf=\"i\"", "srcbuf=\"w\"", "line 4: <step>: srcbuf='w' is none of i, o, s");
  expect_refused("srcoff=\"1\"", "srcoff=\"-1\"",
                 "line 4: <step>: srcoff='-1' is no number from 0 to 65535");
  expect_refused("send=\"1\"", "send=\"-1\"",
                 "line 4: <step>: it sends, and its <tb> has no peer (attribute send)");
  expect_refused("recv=\"0\"", "recv=\"-1\"",
                 "line 12: <step>: it receives, and its <tb> has no peer (attribute recv)");
  expect_refused("depid=\"8\"", "depid=\"9\"",
                 "line 4: <step>: depid=9 is no thread block of this GPU");
  expect_refused("deps=\"0\"", "deps=\"1\"", "line 4: <step>: deps=1 is no step of thread block 8");
  expect_refused("deps=\"0\"", "deps=\"-1\"",
                 "line 4: <step>: depid names a thread block, and deps no step of it");
  expect_refused("hasdep=\"1\"", "hasdep=\"0\"",
                 "line 4: <step>: it waits for step 0 of thread block 8, which does not tell its "
                 "end; set hasdep=\"1\" there");
}

TEST(MscclXml, MoreThanTheBoundsIsRefused) {
  std::string blocks;
  for (uint32_t i = 0; i <= kMscclBlocksMax; ++i) {
    blocks += "<tb id=\"" + std::to_string(i + 9) + "\" send=\"-1\" recv=\"-1\" chan=\"0\"/>";
  }
  expect_refused("<tb id=\"7\"", blocks + "<tb id=\"7\"",
                 "line 3: <tb>: the GPU has more than 1024 thread blocks");
  std::string steps;
  for (uint32_t i = 0; i <= kMscclMovesMax / kMscclChunksMax; ++i) {
    steps += "<step s=\"" + std::to_string(i) +
             "\" type=\"s\" srcbuf=\"i\" srcoff=\"0\" cnt=\"65536\" depid=\"-1\" deps=\"-1\" "
             "hasdep=\"0\"/>";
  }
  expect_refused("<step s=\"0\"", steps + "<step s=\"0\"",
                 "line 4: <step>: the steps move more than 1048576 chunks");
}

}  // namespace
}  // namespace r2ccl::tools
