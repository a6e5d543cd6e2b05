// For tests: runs a job, which must end within a limit and with every element right.
#pragma once

#include <gtest/gtest.h>

#include "sim/cluster/all_reduce_job.h"
#include "sim/cluster/cluster.h"

namespace r2ccl::sim {

inline void run(Cluster& cluster, AllReduceJob& job, TimeNs limit) {
  ASSERT_TRUE(cluster.world().run_until([&] { return job.finished(); }, cluster.now() + limit));
  EXPECT_EQ(job.error(), "");
  EXPECT_EQ(job.wrong(), 0u);
  EXPECT_GT(job.checked(), 0u);
}

}  // namespace r2ccl::sim
