// The simulator's fabric passes the conformance tests like any other transport.
#include "testing/conformance.h"

#include "sim/fabric/fabric.h"

namespace r2ccl::sim {
namespace {

class FabricWorld final : public ConformanceWorld {
 public:
  FabricWorld() : fabric_(1, clock_), a_(fabric_.add_host("a")), b_(fabric_.add_host("b")) {
    for (SimHost* host : {&a_, &b_}) {
      NicOptions nic;
      nic.name = "nic0";
      fabric_.add_nic(*host, nic);
    }
  }
  Transport& a() override { return a_; }
  Transport& b() override { return b_; }
  Endpoint b_address() override { return {b_.address_of("nic0"), 0}; }
  const Clock& clock() override { return clock_; }
  void step(TimeNs duration) override { fabric_.run_for(duration); }
  int64_t resources_in_use() override { return static_cast<int64_t>(fabric_.flows().size()); }

 private:
  VirtualClock clock_;
  Fabric fabric_;
  SimHost& a_;
  SimHost& b_;
};

std::unique_ptr<ConformanceWorld> make_fabric_world() {
  return std::make_unique<FabricWorld>();
}

INSTANTIATE_TEST_SUITE_P(Fabric, TransportConformance, testing::Values(&make_fabric_world));

}  // namespace
}  // namespace r2ccl::sim
