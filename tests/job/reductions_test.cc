// Types and reductions through the C API, and the operations that a caller makes.
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "job.h"

namespace job {
namespace {

constexpr size_t kCount = 1003;

void expect_refused(r2cclResult_t result, const std::string& words) {
  EXPECT_EQ(result, r2cclInvalidArgument);
  const std::string text = r2cclGetLastError(nullptr);
  EXPECT_NE(text.find(words), std::string::npos) << text;
}

// Reduces in place and returns the first element. All elements must have become the same.
template <typename T>
T reduce(Comm& comm, T own, r2cclDataType_t type, r2cclRedOp_t op) {
  std::vector<T> data(kCount, own);
  check(r2cclAllReduce(data.data(), data.data(), kCount, type, op, comm.handle(), nullptr),
        "AllReduce");
  for (const T value : data) {
    if (std::memcmp(&value, data.data(), sizeof(T)) != 0) throw Broken("elements differ");
  }
  return data[0];
}

template <typename T>
void expect_integer_reductions(Comm& comm, r2cclDataType_t type) {
  const auto own = static_cast<T>(comm.rank() + 5);  // 5, 6 and 7
  EXPECT_EQ(reduce<T>(comm, own, type, r2cclSum), 18);
  EXPECT_EQ(reduce<T>(comm, own, type, r2cclProd), static_cast<T>(210));
  EXPECT_EQ(reduce<T>(comm, own, type, r2cclMax), 7);
  EXPECT_EQ(reduce<T>(comm, own, type, r2cclMin), 5);
  EXPECT_EQ(reduce<T>(comm, own, type, r2cclAvg), 6);
  EXPECT_EQ(reduce<T>(comm, own, type, r2cclBand), 4);
  EXPECT_EQ(reduce<T>(comm, own, type, r2cclBor), 7);
  EXPECT_EQ(reduce<T>(comm, own, type, r2cclBxor), 4);
}

TEST(Reductions, OfEveryTypeThroughTheApi) {
  Job job(3);
  job.run({[](Comm& comm) {
    expect_integer_reductions<int8_t>(comm, r2cclInt8);
    expect_integer_reductions<uint8_t>(comm, r2cclUint8);
    expect_integer_reductions<int32_t>(comm, r2cclInt32);
    expect_integer_reductions<uint32_t>(comm, r2cclUint32);
    expect_integer_reductions<int64_t>(comm, r2cclInt64);
    expect_integer_reductions<uint64_t>(comm, r2cclUint64);
    EXPECT_EQ(reduce<float>(comm, 1.5f, r2cclFloat32, r2cclProd), 3.375f);
    EXPECT_EQ(reduce<double>(comm, 1.5, r2cclFloat64, r2cclProd), 3.375);
    EXPECT_EQ(reduce<uint16_t>(comm, 0x3c00, r2cclFloat16, r2cclSum), 0x4200);   // 3 times 1
    EXPECT_EQ(reduce<uint16_t>(comm, 0x3f80, r2cclBfloat16, r2cclSum), 0x4040);  // 3 times 1
    EXPECT_EQ(reduce<uint16_t>(comm, 0x4200, r2cclHalf, r2cclAvg), 0x4200);      // 3
    // The largest float16 and one more are beyond its range.
    EXPECT_EQ(reduce<uint16_t>(comm, 0x7bff, r2cclFloat16, r2cclSum), 0x7c00);
    check(comm.destroy(), "destroy");
  }});
}

TEST(Reductions, ThatATypeDoesNotHaveAreRefusedInWords) {
  Job job(1);
  job.run({[](Comm& comm) {
    float value = 1;
    const auto call = [&](int type, int op) {
      return r2cclAllReduce(&value, &value, 1, static_cast<r2cclDataType_t>(type),
                            static_cast<r2cclRedOp_t>(op), comm.handle(), nullptr);
    };
    expect_refused(call(r2cclFloat32, r2cclBand),
                   "bitwise and of float32 is not supported: use an integer type");
    expect_refused(call(r2cclBfloat16, r2cclBxor), "bitwise xor of bfloat16");
    expect_refused(call(10, r2cclSum), "data type 10 is not supported; int8, uint8,");
    expect_refused(call(-1, r2cclSum), "data type -1 is not supported");
    expect_refused(call(r2cclFloat32, 5), "reduction 5 is not supported; sum, prod,");
    expect_refused(call(r2cclFloat32, 999999), "reduction 999999 is not supported");
    check(comm.destroy(), "destroy");
  }});
}

TEST(PreMulSum, MultipliesEachRanksElementsByItsOwnScalar) {
  Job job(3);
  job.run({[](Comm& comm) {
    const auto rank = static_cast<float>(comm.rank());
    float factor = rank + 1;
    r2cclRedOp_t op = r2cclSum;
    check(r2cclRedOpCreatePreMulSum(&op, &factor, r2cclFloat32, r2cclScalarHostImmediate,
                                    comm.handle()),
          "create");
    factor = 100;  // has been read
    EXPECT_EQ(reduce<float>(comm, 2, r2cclFloat32, op), 2 * (1 + 2 + 3));
    // Out of place the input keeps its values.
    const std::vector<float> in(kCount, rank);
    std::vector<float> out(kCount);
    check(r2cclAllReduce(in.data(), out.data(), kCount, r2cclFloat32, op, comm.handle(), nullptr),
          "AllReduce");
    EXPECT_EQ(out, std::vector<float>(kCount, 0 * 1 + 1 * 2 + 2 * 3));
    EXPECT_EQ(in, std::vector<float>(kCount, rank));
    // A call that has begun does not need the operation.
    std::vector<float> data(kCount, 1);
    r2cclRequest_t request = nullptr;
    check(
        r2cclAllReduce(data.data(), data.data(), kCount, r2cclFloat32, op, comm.handle(), &request),
        "start");
    check(r2cclRedOpDestroy(op, comm.handle()), "destroy the operation");
    check(r2cclRequestWait(&request, kPatienceMs), "wait");
    EXPECT_EQ(data, std::vector<float>(kCount, 6));
    check(comm.destroy(), "destroy");
  }});
}

TEST(PreMulSum, OfResidenceDeviceReadsItsScalarAtEachCall) {
  Job job(2);
  job.run({[](Comm& comm) {
    int8_t factor = 2;
    r2cclRedOp_t op = r2cclSum;
    check(r2cclRedOpCreatePreMulSum(&op, &factor, r2cclInt8, r2cclScalarDevice, comm.handle()),
          "create");
    EXPECT_EQ(reduce<int8_t>(comm, 3, r2cclInt8, op), 12);
    factor = -100;
    EXPECT_EQ(reduce<int8_t>(comm, 3, r2cclInt8, op), static_cast<int8_t>(-600));
    check(comm.destroy(), "destroy");
  }});
}

TEST(PreMulSum, IsRefusedForAnotherTypeOrCommunicatorAndAfterItsEnd) {
  Job job(1);
  const RankBody body = [&job](Comm& comm) {
    float value = 2, factor = 3;
    r2cclRedOp_t op = r2cclSum;
    const auto create = [&](const void* scalar, r2cclDataType_t type, int residence) {
      return r2cclRedOpCreatePreMulSum(
          &op, scalar, type, static_cast<r2cclScalarResidence_t>(residence), comm.handle());
    };
    const auto call = [&](r2cclDataType_t type, r2cclComm_t handle) {
      return r2cclAllReduce(&value, &value, 1, type, op, handle, nullptr);
    };
    expect_refused(create(nullptr, r2cclFloat32, r2cclScalarHostImmediate), "scalar is NULL");
    expect_refused(create(reinterpret_cast<void*>(8), r2cclFloat32, r2cclScalarDevice),
                   "scalar is memory that this process cannot read");
    expect_refused(create(&factor, static_cast<r2cclDataType_t>(11), r2cclScalarDevice),
                   "data type 11");
    expect_refused(create(&factor, r2cclFloat32, 2), "residence is 2");
    check(create(&factor, r2cclFloat32, r2cclScalarHostImmediate), "create");
    expect_refused(call(r2cclInt32, comm.handle()),
                   "was made for float32, the call is for int32: make one for each type");
    const size_t other = comm.handle() == job.comm(0, 0).handle() ? 1 : 0;
    expect_refused(call(r2cclFloat32, job.comm(0, other).handle()),
                   "is no operation of this communicator");
    expect_refused(r2cclRedOpDestroy(op, job.comm(0, other).handle()),
                   "is no operation of this communicator");
    expect_refused(r2cclRedOpDestroy(r2cclSum, comm.handle()), "is built in");
    check(call(r2cclFloat32, comm.handle()), "one rank");
    EXPECT_EQ(value, 6);
    check(r2cclRedOpDestroy(op, comm.handle()), "destroy the operation");
    expect_refused(call(r2cclFloat32, comm.handle()), "it was destroyed, or made for another");
    expect_refused(r2cclRedOpDestroy(op, comm.handle()), "is no operation of this communicator");
  };
  job.run({body, body});
}

TEST(PreMulSum, DoesNotMatchASumOfTheOtherRank) {
  Job job(2);
  job.run({[](Comm& comm) {
    float factor = 1;
    r2cclRedOp_t op = r2cclSum;
    if (comm.rank() == 0) {
      check(r2cclRedOpCreatePreMulSum(&op, &factor, r2cclFloat32, r2cclScalarHostImmediate,
                                      comm.handle()),
            "create");
    }
    std::vector<float> data(kCount, 1);
    EXPECT_EQ(
        r2cclAllReduce(data.data(), data.data(), kCount, r2cclFloat32, op, comm.handle(), nullptr),
        r2cclInvalidUsage);
    const std::string text = r2cclGetLastError(comm.handle());
    EXPECT_NE(text.find("premulsum"), std::string::npos) << text;
    (void)comm.destroy();
  }});
}

}  // namespace
}  // namespace job
