#include "runtime/config/launch.h"

#include <gtest/gtest.h>

#include <map>

namespace r2ccl {
namespace {

using Variables = std::map<std::string, std::string>;

Result<Launch> detect(const Variables& variables, const std::string& comm_id = "") {
  return detect_launch(
      [&](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      comm_id);
}

const Variables kPlain = {{"RANK", "3"},
                          {"WORLD_SIZE", "8"},
                          {"LOCAL_RANK", "1"},
                          {"MASTER_ADDR", "node0"},
                          {"MASTER_PORT", "29500"}};
const Variables kSlurm = {{"SLURM_PROCID", "3"},        {"SLURM_NTASKS", "8"},
                          {"SLURM_LOCALID", "1"},       {"SLURM_JOB_NODELIST", "gpu[04,06-9]"},
                          {"SLURM_JOB_ID", "16000017"}, {"SLURM_STEP_ID", "0"}};

Variables with(Variables base, const Variables& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}
Variables without(Variables base, const std::string& name) {
  base.erase(name);
  return base;
}

void expect_ranks(const Result<Launch>& launch, const std::string& launcher) {
  ASSERT_TRUE(launch.ok()) << launch.status().message();
  EXPECT_EQ(launch.value().launcher, launcher);
  EXPECT_EQ(launch.value().rank, Rank(3));
  EXPECT_EQ(launch.value().rank_count, 8);
  EXPECT_EQ(launch.value().local_rank, 1);
}

TEST(Launch, ReadsThePlainVariables) {
  const auto launch = detect(kPlain);
  expect_ranks(launch, "torchrun");
  EXPECT_EQ(launch.value().rendezvous, (HostPort{"node0", 29500}));
}

TEST(Launch, LeavesMasterPortToTorchrunsAgent) {
  const auto launch = detect(with(kPlain, {{"TORCHELASTIC_RUN_ID", "none"}}));
  expect_ranks(launch, "torchrun");
  EXPECT_EQ(launch.value().rendezvous, (HostPort{"node0", 29501}));
}

TEST(Launch, ReadsOpenMpi) {
  const Variables variables = {{"OMPI_COMM_WORLD_RANK", "3"},
                               {"OMPI_COMM_WORLD_SIZE", "8"},
                               {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}};
  const auto launch = detect(variables, "node0:4711");
  expect_ranks(launch, "Open MPI");
  EXPECT_EQ(launch.value().rendezvous, (HostPort{"node0", 4711}));
  EXPECT_NE(detect(variables).status().message().find("R2CCL_COMM_ID=host:port"),
            std::string::npos);
}

TEST(Launch, FindsTheRankWithoutAPlaceToMeet) {
  const auto find = [](const Variables& variables) {
    return find_launched_rank([&](const char* name) -> const char* {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
  };
  EXPECT_EQ(find({{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "8"}}),
            (LaunchedRank{Rank(3), 8}));
  EXPECT_EQ(find({{"RANK", "0"}, {"WORLD_SIZE", "2"}}), (LaunchedRank{Rank(0), 2}));
  EXPECT_EQ(find({}), std::nullopt);
  EXPECT_EQ(find({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), std::nullopt);
  EXPECT_EQ(find({{"RANK", "0"}}), std::nullopt);
}

TEST(Launch, ReadsMpich) {
  expect_ranks(detect({{"PMI_RANK", "3"},
                       {"PMI_SIZE", "8"},
                       {"MPI_LOCALRANKID", "1"},
                       {"MASTER_ADDR", "node0"},
                       {"MASTER_PORT", "1"}}),
               "MPICH");
}

TEST(Launch, ReadsSlurmAndDerivesWhereToMeet) {
  const auto launch = detect(kSlurm);
  expect_ranks(launch, "Slurm");
  EXPECT_EQ(launch.value().rendezvous, (HostPort{"gpu04", 16384 + 17}));
}

TEST(Launch, GivesTheStepsOfOneSlurmJobPortsOfTheirOwn) {
  const auto first = detect(kSlurm);
  const auto second = detect(with(kSlurm, {{"SLURM_STEP_ID", "1"}}));
  EXPECT_NE(first.value().rendezvous->port, second.value().rendezvous->port);
  EXPECT_NE(first.value().job_name, second.value().job_name);
}

TEST(Launch, PrefersTheNodesOfTheStepAndMasterAddrToThem) {
  EXPECT_EQ(detect(with(kSlurm, {{"SLURM_STEP_NODELIST", "gpu8"}})).value().rendezvous->host,
            "gpu8");
  EXPECT_EQ(
      detect(with(kSlurm, {{"MASTER_ADDR", "node0"}, {"MASTER_PORT", "5"}})).value().rendezvous,
      (HostPort{"node0", 5}));
}

TEST(Launch, MeetsWhereCommIdSaysBeforeAllElse) {
  EXPECT_EQ(detect(kPlain, "[fd00::1]:7").value().rendezvous, (HostPort{"fd00::1", 7}));
}

TEST(Launch, NeedsNoPlaceToMeetForOneRank) {
  const auto launch = detect({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  ASSERT_TRUE(launch.ok()) << launch.status().message();
  EXPECT_FALSE(launch.value().rendezvous.has_value());
  EXPECT_FALSE(launch.value().local_rank.has_value());
}

TEST(Launch, TheInnermostLauncherWins) {
  // torchrun, once on each node, under srun.
  const auto launch = detect(with(kPlain, {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}}));
  expect_ranks(launch, "torchrun");
}

Variables ranks(const std::string& rank, const std::string& count) {
  return {
      {"RANK", rank}, {"WORLD_SIZE", count}, {"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}};
}
Variables open_mpi(const std::string& rank, const std::string& count) {
  return {{"OMPI_COMM_WORLD_RANK", rank}, {"OMPI_COMM_WORLD_SIZE", count}};
}
Variables pmi(const std::string& rank, const std::string& count) {
  return {{"PMI_RANK", rank}, {"PMI_SIZE", count}};
}
Variables slurm(const std::string& rank, const std::string& count, const std::string& step) {
  Variables variables = {{"SLURM_PROCID", rank},
                         {"SLURM_NTASKS", count},
                         {"SLURM_JOB_NODELIST", "gpu4"},
                         {"SLURM_JOB_ID", "17"}};
  if (!step.empty()) variables["SLURM_STEP_ID"] = step;
  return variables;
}

struct Nest {
  const char* what;
  Variables variables;
  const char* launcher;  // null: detect_launch fails
};

const std::vector<Nest>& nests() {
  static const std::vector<Nest> all = {
      // RANK and WORLD_SIZE from a pod's template, a profile, or the shell that submitted.
      {"mpirun of 2 in a pod of one", with(ranks("0", "1"), open_mpi("0", "2")), nullptr},
      {"its other rank", with(ranks("0", "1"), open_mpi("1", "2")), nullptr},
      {"mpirun of 16 in one of two pods", with(ranks("1", "2"), open_mpi("9", "16")), nullptr},
      {"a rank that is not within the outer one", with(ranks("0", "4"), open_mpi("1", "2")),
       nullptr},
      {"hydra in a pod of one", with(ranks("0", "1"), pmi("1", "2")), nullptr},
      {"srun from a shell with RANK", with(ranks("0", "1"), slurm("3", "8", "0")), nullptr},
      // Both launchers give the same values.
      {"mpirun -x RANK", with(ranks("5", "8"), open_mpi("5", "8")), "torchrun"},
      {"RANK=$SLURM_PROCID", with(ranks("5", "8"), slurm("5", "8", "0")), "torchrun"},
      {"RANK=$OMPI_COMM_WORLD_RANK under Slurm",
       with(with(ranks("5", "8"), open_mpi("5", "8")), slurm("1", "3", "0")), "torchrun"},
      // A launcher for each node, which starts one rank for each GPU.
      {"srun torchrun",
       with(with(ranks("5", "6"), slurm("1", "4", "0")), {{"TORCHELASTIC_RUN_ID", "x"}}),
       "torchrun"},
      {"mpirun torchrun",
       with(with(ranks("0", "1"), open_mpi("1", "2")), {{"TORCHELASTIC_RUN_ID", "x"}}), "torchrun"},
      {"srun of a script that starts 4 each", with(ranks("5", "8"), slurm("1", "2", "0")),
       "torchrun"},
      {"mpirun of a script that counts in turn", with(ranks("5", "8"), open_mpi("1", "2")),
       "torchrun"},
      {"mpirun -np 1 of such a script", with(ranks("3", "4"), open_mpi("0", "1")), "torchrun"},
      // A batch script has SLURM_PROCID and SLURM_NTASKS, but Slurm launched no ranks.
      {"ranks by hand in a batch script", with(ranks("1", "2"), slurm("0", "8", "")), "torchrun"},
      {"one with the batch step's number", with(ranks("1", "2"), slurm("0", "8", "4294967291")),
       "torchrun"},
      {"mpirun in a batch script", with(open_mpi("3", "4"), slurm("0", "8", "")), "Open MPI"},
      // mpirun starts its daemons on other nodes by srun, one task on each node.
      {"mpirun's rank on another node", with(open_mpi("6", "8"), slurm("0", "1", "0")), "Open MPI"},
      {"hydra's rank on another node", with(pmi("6", "8"), slurm("0", "1", "0")), "MPICH"},
      {"srun --mpi=pmi2", with(pmi("6", "8"), slurm("6", "8", "0")), "MPICH"},
  };
  return all;
}

TEST(Launch, RefusesLaunchersThatDisagreeAndNothingElse) {
  for (const Nest& nest : nests()) {
    const auto launch = detect(nest.variables, "node0:4711");
    ASSERT_EQ(launch.ok(), nest.launcher != nullptr)
        << nest.what << ": " << launch.status().message();
    if (launch.ok()) {
      EXPECT_EQ(launch.value().launcher, nest.launcher) << nest.what;
    } else {
      EXPECT_EQ(launch.status().code(), Code::invalid_usage);
    }
  }
}

TEST(Launch, NamesTheLaunchersThatDisagreeAndTheVariablesToUnset) {
  EXPECT_EQ(detect(with(ranks("0", "1"), open_mpi("1", "2"))).status().message(),
            "two launchers disagree: RANK=0 and WORLD_SIZE=1, but OMPI_COMM_WORLD_RANK=1 and "
            "OMPI_COMM_WORLD_SIZE=2 (Open MPI). If Open MPI started this process, unset RANK and "
            "WORLD_SIZE (`env -u RANK -u WORLD_SIZE PROGRAM`); if not, unset OMPI_COMM_WORLD_RANK "
            "and OMPI_COMM_WORLD_SIZE");
}

TEST(Launch, AllowsALoneWorldSizeThatAgreesAndRefusesOneThatDoesNot) {
  EXPECT_TRUE(detect(with(kSlurm, {{"WORLD_SIZE", "8"}})).ok());
  EXPECT_EQ(detect(with(kSlurm, {{"WORLD_SIZE", "9"}})).status().message(),
            "WORLD_SIZE=9 contradicts SLURM_NTASKS=8");
}

TEST(Launch, NamesTheVariableThatIsMissing) {
  const std::map<std::string, std::string> words = {
      {"RANK", "WORLD_SIZE is set but RANK is not"},
      {"WORLD_SIZE", "RANK is set but WORLD_SIZE is not"},
      {"MASTER_ADDR", "MASTER_PORT is set but MASTER_ADDR is not"},
      {"MASTER_PORT", "MASTER_ADDR is set but MASTER_PORT is not"}};
  for (const auto& [name, message] : words) {
    const auto launch = detect(without(kPlain, name));
    ASSERT_FALSE(launch.ok()) << name;
    EXPECT_EQ(launch.status().message(), message);
  }
  EXPECT_EQ(detect({{"OMPI_COMM_WORLD_RANK", "0"}}).status().message(),
            "OMPI_COMM_WORLD_RANK is set but OMPI_COMM_WORLD_SIZE is not");
  EXPECT_NE(detect({}).status().message().find("no launcher's variables are set"),
            std::string::npos);
  EXPECT_NE(
      detect(without(kSlurm, "SLURM_JOB_NODELIST")).status().message().find("SLURM_JOB_NODELIST"),
      std::string::npos);
}

TEST(Launch, RefusesGarbageNumbersNamingTheVariable) {
  const std::multimap<std::string, std::string> garbage = {
      {"RANK", "three"},      {"RANK", "-1"},      {"RANK", "8"},         {"RANK", "3 "},
      {"RANK", "0x3"},        {"WORLD_SIZE", "0"}, {"WORLD_SIZE", "1e3"}, {"WORLD_SIZE", "65537"},
      {"LOCAL_RANK", "9"},    {"LOCAL_RANK", "-"}, {"MASTER_PORT", "0"},  {"MASTER_PORT", "65536"},
      {"MASTER_PORT", "http"}};
  for (const auto& [name, value] : garbage) {
    const auto launch = detect(with(kPlain, {{name, value}}));
    ASSERT_FALSE(launch.ok()) << name << "=" << value;
    EXPECT_NE(launch.status().message().find(name + "=" + value), std::string::npos)
        << launch.status().message();
  }
  EXPECT_FALSE(detect(with(kSlurm, {{"SLURM_JOB_ID", "x"}})).ok());
  EXPECT_FALSE(detect(with(kSlurm, {{"SLURM_JOB_NODELIST", "gpu["}})).ok());
  EXPECT_FALSE(detect(kPlain, "nowhere").ok());
  // r2ccl would use the port after it, which does not exist.
  EXPECT_FALSE(detect(with(kPlain, {{"TORCHELASTIC_RUN_ID", "x"}, {"MASTER_PORT", "65535"}})).ok());
}

TEST(Launch, TakesEmptyVariablesAsNotSet) {
  EXPECT_EQ(detect(with(kPlain, {{"WORLD_SIZE", ""}})).status().message(),
            "RANK is set but WORLD_SIZE is not");
}

TEST(Launch, TellsRestartsOfOneRunApart) {
  const Variables run = with(kPlain, {{"TORCHELASTIC_RUN_ID", "r"}});
  const auto first = detect(with(run, {{"TORCHELASTIC_RESTART_COUNT", "0"}}));
  const auto second = detect(with(run, {{"TORCHELASTIC_RESTART_COUNT", "1"}}));
  const auto other_rank = detect(with(run, {{"TORCHELASTIC_RESTART_COUNT", "0"}, {"RANK", "4"}}));
  EXPECT_NE(first.value().job_name, second.value().job_name);
  EXPECT_EQ(first.value().job_name, other_rank.value().job_name);
}

TEST(SlurmNodeList, StartsWithItsFirstHost) {
  const std::map<std::string, std::string> lists = {{"node7", "node7"},
                                                    {"a,b", "a"},
                                                    {"h[1-4,7]", "h1"},
                                                    {"h[007-012]", "h007"},
                                                    {"h[3,5],x[1-2]", "h3"},
                                                    {"rack[1-2]n[04-08]", "rack1n04"},
                                                    {"gpu[4]-ib,login", "gpu4-ib"},
                                                    {"login,gpu[4]", "login"}};
  for (const auto& [list, host] : lists) {
    const auto first = first_slurm_host(list);
    ASSERT_TRUE(first.ok()) << list;
    EXPECT_EQ(first.value(), host) << list;
  }
  for (const char* list : {"", ",", "h[", "h[]", "h[1", "h[,2]", "h[a-b]", "h]1", "h[-3]"}) {
    EXPECT_FALSE(first_slurm_host(list).ok()) << list;
  }
}

std::string name_of(const Variables& variables) {
  return detect(variables).value().job_name;
}

TEST(Launch, NamesTheJobByTheRunAndTheRestartThatItsLauncherCounts) {
  const Variables runs = {{"TORCHELASTIC_RUN_ID", "a"}, {"TORCHELASTIC_RESTART_COUNT", "1"},
                          {"SLURM_JOB_ID", "2"},        {"SLURM_STEP_ID", "3"},
                          {"SLURM_RESTART_COUNT", "4"}, {"OMPI_MCA_ess_base_jobid", "5"},
                          {"PMIX_NAMESPACE", "6"},      {"PMI_JOBID", "7"}};
  const std::string name = name_of(with(kPlain, runs));
  for (const auto& [variable, value] : runs) {
    EXPECT_NE(name, name_of(with(kPlain, with(runs, {{variable, value + "0"}})))) << variable;
  }
}

// Each agent counts only the restarts that it caused itself, so only its own ranks share a count.
TEST(Launch, LeavesTheRestartsOfSeveralAgentsOfTorchrunOut) {
  const Variables one = with(kPlain, {{"TORCHELASTIC_RUN_ID", "a"}, {"LOCAL_WORLD_SIZE", "8"}});
  const Variables several = with(one, {{"LOCAL_WORLD_SIZE", "4"}});
  const Variables restarted = {{"TORCHELASTIC_RESTART_COUNT", "1"}};
  EXPECT_NE(name_of(one), name_of(with(one, restarted)));
  EXPECT_EQ(name_of(several), name_of(with(several, restarted)));
}

}  // namespace
}  // namespace r2ccl
