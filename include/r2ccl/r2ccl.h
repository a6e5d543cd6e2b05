/* r2ccl: a collective-communication library that a broken network cannot stop.
 *
 * The shape is NCCL's. Where NCCL takes a stream, r2ccl takes a request pointer: NULL makes the
 * call block until the operation is complete on this rank; otherwise the call returns at once and
 * the request can be tested, waited on and aborted.
 *
 * Errors: a network fault is not an error. A call fails only for a wrong argument, a call that does
 * not match the other ranks', a rank that died or left, or when no path worked within the stated
 * bound; r2cclGetLastError then names the cause. Without memory a call returns r2cclSystemError; no
 * call throws or ends the process. r2cclCommAbort, r2cclCommDestroy and waiting need none.
 *
 * After an error that ended the communicator print what r2cclGetErrorInfo says, wait for each
 * request or test it, call r2cclCommDestroy, and end the process with a status that says that it
 * failed. Or go on with the ranks that live: r2cclCommShrink. The requests are complete by then,
 * with the error. To wait for a request or to test it also frees it, before or after
 * r2cclCommDestroy; without that it keeps some hundred bytes until the process ends. To give up
 * because of an error of the program's own, call r2cclCommAbort first.
 *
 * Order: the collectives of a communicator run one after another, in the order of their calls. The
 * order must be the same on all ranks. Barriers, Splits, Dups and Grows are among them. For two
 * collectives at the same time make a second communicator (r2cclCommDup). A Send or Recv waits for
 * no collective, and no collective waits for it.
 *
 * Buffers: until a request is complete, do not change its sendbuff, and neither read nor change its
 * recvbuff. Pass them to no other call either, with one exception: a later collective of the same
 * communicator may use them, and reads what the earlier one wrote. So ReduceScatter and then
 * AllGather of its result need no wait between. Unlike in a stream, this does not hold for Send and
 * Recv, nor for two communicators: wait for the request first.
 *
 * Handles: a communicator ends with r2cclCommDestroy, a request with the call that returns its
 * result. The use of a handle, or of a copy, after that is r2cclInvalidArgument.
 *
 * Threads: calls on different communicators may run on different threads. Calls on one communicator
 * must be ordered by the caller, as in NCCL, except r2cclCommAbort, r2cclCommRevoke,
 * r2cclCommGetAsyncError, r2cclGetLastError, r2cclGetErrorInfo, r2cclCommReport, r2cclCommGetPaths,
 * r2cclCommGetVerdicts, r2cclCommGetFd, r2cclCommRegister, r2cclCommDeregister and the request
 * functions, which any thread may call any time. Groups, names of calls and the last error belong
 * to the calling thread. A request belongs to one thread at a time. */
/* scripts/api_reference.py makes the man pages and docs/api.md from this file. A comment describes
 * the declarations that follow it without an empty line between. A comment before an empty line is
 * about the calls of the block that follows, which ends at the next empty line. A comment of one
 * line such as "=== Errors ===" is the title of the calls up to the next one. */
#ifndef R2CCL_R2CCL_H_
#define R2CCL_R2CCL_H_

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define R2CCL_API __attribute__((visibility("default")))
#else
#define R2CCL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header. r2cclGetVersion has that of the loaded library. */
#define R2CCL_MAJOR 0
#define R2CCL_MINOR 1
#define R2CCL_PATCH 0
#define R2CCL_VERSION_CODE (R2CCL_MAJOR * 10000 + R2CCL_MINOR * 100 + R2CCL_PATCH)

#define R2CCL_UNIQUE_ID_BYTES 128
#define R2CCL_HANDLE_BYTES 160
#define R2CCL_SEALED_ID_BYTES 200

/* Handles of a communicator and of a request. */
typedef struct r2cclComm* r2cclComm_t;
typedef struct r2cclRequest* r2cclRequest_t;

/* Identifies a job. Opaque: rendezvous addresses and the job's secret. Hand it to the other ranks
 * over a channel that you trust: every process that holds it can join the job. */
typedef struct {
  char internal[R2CCL_UNIQUE_ID_BYTES];
} r2cclUniqueId;

/* A unique id, sealed by one process for another, which alone can open it. Opaque. */
typedef struct {
  char internal[R2CCL_SEALED_ID_BYTES];
} r2cclSealedId;

/* Result codes. The codes that NCCL also has have NCCL's values. Codes of r2ccl's own start at
 * 1000, so that no code that NCCL adds can collide with one. Later versions may add codes: treat a
 * code that you do not know as an error; r2cclGetErrorString takes any.
 *
 * Some errors end the communicator: all operations that are not complete on a rank fail there with
 * this error, also earlier ones that are complete on other ranks, and so does every later call. The
 * caller can destroy it, or first make a communicator without some ranks (r2cclCommShrink,
 * r2cclCommCreateGroup); r2cclCommDestroy then waits for no one and returns r2cclSuccess.
 * Other communicators of the process go on. When in doubt ask r2cclCommGetAsyncError: r2cclSuccess
 * means that the communicator goes on, unless it was finalized.
 *
 * - r2cclInvalidArgument: it goes on. A wrong argument is found before anything starts, this rank
 *   alone gets the error, and the call may be made again. But memory that the process cannot access
 *   ends it.
 * - r2cclInvalidUsage: it goes on after a call that is wrong at this time: after finalize, in a
 *   group, or without one. Calls of the ranks that do not match end it.
 * - r2cclSystemError: it goes on after a call that got no memory, which has started nothing; the
 *   other ranks wait for that call. A lack of memory for operations under way ends it.
 * - r2cclRemoteError: it ends, except where r2cclCommSplit or r2cclCommDup fails because another
 *   rank gave it a wrong argument.
 * - r2cclTimeout: it goes on. After a wait the operation goes on, too; after init there is no
 *   communicator; after finalize it can only be destroyed.
 * - r2cclAborted: it ends. r2cclInternalError: ask. */
typedef enum {
  r2cclSuccess = 0,
  r2cclSystemError = 2,     /* no memory, thread or descriptor, or the kernel refused a call */
  r2cclInternalError = 3,   /* a bug of r2ccl */
  r2cclInvalidArgument = 4, /* an argument or a buffer is wrong */
  r2cclInvalidUsage = 5,    /* the ranks' calls do not match, or the call is wrong at this time */
  r2cclRemoteError = 6,     /* another rank died, left, aborted, or had a wrong buffer */
  r2cclInProgress = 7,      /* never returned; NCCL has it */
  r2cclTimeout = 8,         /* the bound of a wait, of init or of finalize has passed */
  r2cclAborted = 1000       /* this rank aborted the communicator, or one of its requests */
} r2cclResult_t;

/* Types of elements, with NCCL's numbers. float16 is IEEE 754 binary16, bfloat16 the upper half of
 * a float32. */
typedef enum {
  r2cclInt8 = 0,
  r2cclChar = 0,
  r2cclUint8 = 1,
  r2cclInt32 = 2,
  r2cclInt = 2,
  r2cclUint32 = 3,
  r2cclInt64 = 4,
  r2cclUint64 = 5,
  r2cclFloat16 = 6,
  r2cclHalf = 6,
  r2cclFloat32 = 7,
  r2cclFloat = 7,
  r2cclFloat64 = 8,
  r2cclDouble = 8,
  r2cclBfloat16 = 9
} r2cclDataType_t;

/* Reductions, with NCCL's numbers; those of r2ccl's own start at 1000. r2cclRedOpCreatePreMulSum
 * returns further ones. Sum, prod, max, min and avg are defined for every type, the bitwise
 * operations for integers.
 *
 * - Integers: sums and products wrap. Avg divides the complete, wrapped sum, and truncates towards
 *   zero.
 * - Floating-point numbers: each addition and multiplication of two values rounds to nearest even,
 *   in the order of the algorithm, which is the same on every rank; in reproducible mode it is the
 *   order of the ranks, for every call. Avg divides the complete sum and rounds once more. Sums and
 *   products that are no number are one quiet NaN. Max and min propagate NaN and order -0 below +0.
 *   The floating-point modes of the calling thread change nothing.
 * - float16 and bfloat16: additions, multiplications and divisions are computed in float32. A rank
 *   that adds several values before it sends their sum, or returns it, adds them in float32, and
 *   rounds the sum once to nearest even to the 16-bit type; values beyond its range become
 *   infinite. Avg divides before that rounding. Messages are of the 16-bit type, so a sum is
 *   rounded at each hop. With u = 2^-11 for float16 and 2^-8 for bfloat16, and without overflow, a
 *   sum over p ranks has an error of at most (p - 1) u times the sum of the magnitudes. Where one
 *   rank makes all additions of an element, it is at most (p - 1) 2^-24 times the sum of the
 *   magnitudes, plus one rounding of the result: u times its magnitude. docs/numerics.md tells how
 *   often each algorithm rounds. Sums in float32 take twice the memory of the elements, for as many
 *   at a time as fit into 8 MiB for each communicator. */
typedef enum {
  r2cclSum = 0,
  r2cclProd = 1,
  r2cclMax = 2,
  r2cclMin = 3,
  r2cclAvg = 4,
  r2cclBand = 1000, /* bitwise and */
  r2cclBor = 1001,  /* bitwise or */
  r2cclBxor = 1002, /* bitwise exclusive or */
  r2cclMaxRedOp = 0x7fffffff
} r2cclRedOp_t;

/* Tells when r2cclRedOpCreatePreMulSum's scalar is read. The numbers are NCCL's. */
typedef enum {
  r2cclScalarDevice = 0,       /* by each call that uses the operation, before that call returns */
  r2cclScalarHostImmediate = 1 /* at once: the memory may end with the return */
} r2cclScalarResidence_t;

/* Settings of one communicator. Initialise with R2CCL_CONFIG_INITIALIZER, which leaves every field
 * unset: an unset field is taken from the environment (docs/configuration.md, r2ccl(7)) or the
 * default. An unset int is R2CCL_CONFIG_UNDEF_INT, an unset text NULL. The init call copies the
 * texts and keeps no pointer to them.
 *
 * Later versions append fields, for which bytes that are all 0 mean "not set". So an older library
 * can take a newer caller's struct; it refuses one that sets a field that it does not know. */
typedef struct {
  size_t size;            /* sizeof(r2cclConfig_t) */
  uint32_t magic;         /* R2CCL_CONFIG_MAGIC */
  int blocking;           /* reserved; must be 1 */
  const char* ifname;     /* as R2CCL_SOCKET_IFNAME */
  const char* oob_ifname; /* as R2CCL_OOB_IFNAME */
  int init_timeout_ms;    /* all ranks must have arrived by then; 1 or more */
  int cutoff_ms;          /* how long a cut-off host, and finalize, is waited for; 1 or more */
  const char* name;       /* shown in errors, logs, status and report: the first 63 bytes */
  int reproducible;       /* as R2CCL_REPRODUCIBLE, on all ranks alike: 1 on, -1 off, 0 unset */
  int trusted_id;         /* 1: only ranks of this job know the unique id; 0 unset */
  const char* algorithm;  /* as R2CCL_ALGO, on all ranks alike: "auto", "ring", ... */
} r2cclConfig_t;

#define R2CCL_CONFIG_MAGIC 0x72326363u
#define R2CCL_CONFIG_UNDEF_INT INT_MIN
#define R2CCL_CONFIG_INITIALIZER                                                      \
  {                                                                                   \
    sizeof(r2cclConfig_t), R2CCL_CONFIG_MAGIC, 1, NULL, NULL, R2CCL_CONFIG_UNDEF_INT, \
        R2CCL_CONFIG_UNDEF_INT, NULL, 0, 0, NULL                                      \
  }

/* === Start and end === */

/* Sets *version to the R2CCL_VERSION_CODE of the loaded library. */
R2CCL_API r2cclResult_t r2cclGetVersion(int* version);

/* Makes a fresh id with a fresh 256-bit secret, and opens the rendezvous listener that the other
 * ranks will reach in the calling process. So call it in one rank only, and keep that process alive
 * until every rank has returned from init. An id serves one communicator, and ends when no rank has
 * come within the init bound (R2CCL_INIT_TIMEOUT_S). R2CCL_COMM_ID=host:port sets another place for
 * the listener.
 *
 * A process that reads the id can take a rank's place, unless R2CCL_SECRET or R2CCL_SECRET_FILE is
 * set: it then needs that secret, too. With R2CCL_REQUIRE_AUTH=1 and without a secret, set
 * trusted_id in the config of init, to say that the id came by a channel that no stranger reads. */
R2CCL_API r2cclResult_t r2cclGetUniqueId(r2cclUniqueId* id);
/* Makes an id that may be public, for a channel that strangers may read, such as a key-value store:
 * it contains a number and addresses, and no secret. The secret of the processes (R2CCL_SECRET,
 * R2CCL_SECRET_FILE) then protects the start. Without one the start is open to strangers, which
 * rank 0 says, until all ranks have met; with R2CCL_REQUIRE_AUTH=1 this is r2cclInvalidUsage. In
 * all else as r2cclGetUniqueId. config may be NULL; its ifname, oob_ifname and init_timeout_ms
 * apply to the listener. */
R2CCL_API r2cclResult_t r2cclGetPublicId(r2cclUniqueId* id, const r2cclConfig_t* config);

/* Writes the handle of this process, with a 0 at its end, into the R2CCL_HANDLE_BYTES bytes at
 * handle. A handle is a text without a secret, the same for the whole life of the process. A forked
 * child has another one. In their alphabetic order the processes of a host are beside each other.
 *
 * This and the next three make a communicator of processes that know each other's handles, over a
 * channel that strangers read and write, such as a key-value store. Each process publishes its
 * handle. All agree on a list of them, whose order gives the ranks. Rank 0 makes a sealed id for
 * each, and publishes those; each opens its own and calls r2cclCommInitRankConfig with it. Any
 * thread.
 *
 * A process that holds none of the handles' keys cannot take part, even where the processes have no
 * secret. A stranger that writes the channel before all have read the handles can name others. */
R2CCL_API r2cclResult_t r2cclGetProcessHandle(char* handle);
/* Sets *place to the place of this process in the list. r2cclInvalidArgument: a text is no handle,
 * two are of one process, or this process's own is not there; the text of the error says which. */
R2CCL_API r2cclResult_t r2cclFindProcessHandle(const char* const* handles, int count, int* place);
/* Makes a unique id, whose rendezvous is in this process as that of r2cclGetUniqueId, and writes it
 * to sealed[0] to sealed[count - 1], each for the handle in its place. This process must be the
 * first of the list. `purpose` is any text that tells this meeting from all others of these
 * processes, such as a group's name and a number. config may be NULL; its ifname, oob_ifname and
 * init_timeout_ms apply to the listener. */
R2CCL_API r2cclResult_t r2cclGetSealedIds(const char* const* handles, int count,
                                          const char* purpose, const r2cclConfig_t* config,
                                          r2cclSealedId* sealed);
/* Opens the id that the first process of the list has sealed for this one, for this list and
 * purpose. r2cclRemoteError: it has not; a stranger has written this, or has taken it from another
 * place. */
R2CCL_API r2cclResult_t r2cclOpenSealedId(const r2cclSealedId* sealed, const char* const* handles,
                                          int count, const char* purpose, r2cclUniqueId* id);

/* Makes a communicator of the nranks ranks that call with the same id, each with its own rank, 0 to
 * nranks - 1. Collective: blocks until every rank has arrived or the init bound passes (default
 * 120 s); the error then names the missing ranks. An error leaves *comm NULL. Several ranks of one
 * process need a thread each.
 *
 * If all ranks have a communicator together already, also as some of its ranks, the new one uses
 * their connections, and opens none. This holds for processes with one rank each, with the same
 * ifname, oob_ifname and cutoff_ms, and with a secret if the new one has one.
 *
 * One rank may return while others are still inside. If it then aborts or dies, their init may fail
 * for that; a r2cclBarrier after init excludes it. */
R2CCL_API r2cclResult_t r2cclCommInitRank(r2cclComm_t* comm, int nranks, r2cclUniqueId id,
                                          int rank);
R2CCL_API r2cclResult_t r2cclCommInitRankConfig(r2cclComm_t* comm, int nranks, r2cclUniqueId id,
                                                int rank, const r2cclConfig_t* config);
/* Makes a communicator of all ranks of the job, as r2cclCommInitRank, with rank, size and
 * rendezvous from the launcher's environment: torchrun, Open MPI, MPICH, Slurm. config may be NULL.
 *
 * Without a launcher set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT for each process, as in `for
 * r in 0 1; do RANK=$r WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 ./app & done; wait`.
 * mpirun gives no rendezvous: add -x R2CCL_COMM_ID=host:port, a free port of rank 0's host.
 * r2ccl(7) lists the variables. */
R2CCL_API r2cclResult_t r2cclCommInitEnv(r2cclComm_t* comm, const r2cclConfig_t* config);

/* The color of a rank that gets no communicator. */
#define R2CCL_SPLIT_NOCOLOR (-1)

/* Makes a communicator for each color, of the ranks of comm that give this color (0 or more), in
 * the order of their keys, and of their ranks in comm where keys are equal. Collective over comm. A
 * rank with R2CCL_SPLIT_NOCOLOR takes part too, and gets NULL. Every communicator that this makes
 * is one like any other: it lives on when comm ends, can be split, and must be destroyed. It uses
 * comm's connections and makes none, unless config gives another ifname, oob_ifname or cutoff_ms on
 * some rank: then all that this call makes have connections of their own.
 *
 * config may be NULL: the new communicator then has comm's settings, but no name. Fields that are
 * set in it replace those.
 *
 * The call is one of the ordered calls on comm, like a collective: it waits for the collectives
 * that this rank has started before. Outstanding operations of comm go on, and need not be
 * complete. It returns when all ranks have called; with connections of its own, when all ranks of
 * the color are connected, within the init bound of config.
 *
 * An error leaves *newcomm NULL. A wrong argument of one rank is an error on all: it is
 * r2cclInvalidArgument there and r2cclRemoteError, which names the rank, elsewhere; comm stays in
 * use. A rank that dies, aborts comm or makes another call ends comm, and with it this call, on all
 * ranks. Two ranks have at most about a hundred communicators at a time; one more is
 * r2cclInvalidUsage. Inside a group the call is r2cclInvalidUsage. As with r2cclCommInitRank, a
 * rank that returns early may fail this call of slower ranks, if it then aborts the new
 * communicator, dies, or ends it by a wrong call; a r2cclBarrier on comm afterwards excludes it. */
R2CCL_API r2cclResult_t r2cclCommSplit(r2cclComm_t comm, int color, int key, r2cclComm_t* newcomm,
                                       const r2cclConfig_t* config);
/* Makes a communicator of the same ranks in the same order, as r2cclCommSplit with one color. Its
 * operations and comm's neither match nor wait for each other. A rank that ends the new
 * communicator at once may fail this call of slower ranks, as with r2cclCommSplit. */
R2CCL_API r2cclResult_t r2cclCommDup(r2cclComm_t comm, r2cclComm_t* newcomm,
                                     const r2cclConfig_t* config);
/* Makes a communicator of some ranks of comm: rank i is ranks[i] of comm. Only these ranks call it,
 * and they meet nobody: the call returns at once, sends nothing and needs no other rank, as
 * MPI_Comm_create_group with a tag. All of them must give the same ranks in the same order and the
 * same name (at most 255 bytes), in any order among their other calls. Calls with the same ranks
 * and the same name make communicators one after another. A rank that does not make it shows at the
 * first operation, which waits for that rank and whose timeout names it. comm may have failed, if
 * its members of these ranks live. config as for r2cclCommSplit; all ranks must give the same
 * algorithm and reproducible, and its ifname, oob_ifname and cutoff_ms cannot differ from comm's
 * (r2cclInvalidArgument). */
R2CCL_API r2cclResult_t r2cclCommCreateGroup(r2cclComm_t comm, const int* ranks, size_t count,
                                             const char* name, r2cclComm_t* newcomm,
                                             const r2cclConfig_t* config);

/* Values of shrinkFlags, with NCCL's numbers. */
#define R2CCL_SHRINK_DEFAULT 0
#define R2CCL_SHRINK_ABORT 1

/* Makes a communicator of all ranks of comm but those of excludeRanksList, in comm's order. The
 * ranks that stay call it, with the same list in any order; nobody needs an excluded one, which may
 * have died. It is the way on after r2cclRemoteError: the ranks of r2cclGetErrorInfo are those to
 * exclude. comm may have failed, and no other call needs it afterwards: destroy it. The new
 * communicator uses comm's connections, begins with what comm knows of costs and of the hosts'
 * bandwidth, and is one like any other.
 *
 * R2CCL_SHRINK_ABORT first ends comm on all ranks, as r2cclCommRevoke. With R2CCL_SHRINK_DEFAULT a
 * comm that has not failed goes on, but from then on nobody waits for the excluded ranks when it
 * ends, and these end theirs without waiting for the others.
 *
 * It returns when all ranks that stay have called. Either the communicator is made on all of them
 * that live, or on none, which may call again:
 * - r2cclRemoteError names ranks that stay and have died, left or aborted. Where others have made
 *   a communicator without this rank it names none;
 * - r2cclInvalidUsage: another rank has called with another list. The text has both, and
 *   r2cclGetErrorInfo the ranks that only the other one has;
 * - r2cclTimeout names ranks that have not called within the bound of comm's init
 *   (R2CCL_INIT_TIMEOUT_S), or the one that decides, which has not answered some seconds later.
 * So ranks that have seen different deaths meet when each adds the ranks of its errors to its list
 * and calls again. A rank that dies just after the agreement may belong to the new communicator,
 * whose first call then names it. config as for r2cclCommCreateGroup. After r2cclCommFinalize, or
 * inside a group, the call is r2cclInvalidUsage. */
R2CCL_API r2cclResult_t r2cclCommShrink(r2cclComm_t comm, const int* excludeRanksList,
                                        int excludeRanksCount, r2cclComm_t* newcomm,
                                        const r2cclConfig_t* config, int shrinkFlags);
/* Ends all operations of comm on all ranks, as MPI_Comm_revoke: with r2cclAborted here, with
 * r2cclRemoteError elsewhere; the error names no rank at fault. For a rank that has seen an error
 * that others may not have met yet. revokeFlags must be 0. Afterwards r2cclCommShrink,
 * r2cclCommCreateGroup, r2cclCommAbort and r2cclCommDestroy are legal. Any thread may call it any
 * time. */
R2CCL_API r2cclResult_t r2cclCommRevoke(r2cclComm_t comm, int revokeFlags);

/* Makes a unique id by which new processes join comm's ranks in r2cclCommGrow. It holds a secret
 * that comm's ranks can derive, and its rendezvous is in this process, as that of r2cclGetUniqueId.
 */
R2CCL_API r2cclResult_t r2cclCommGetUniqueId(r2cclComm_t comm, r2cclUniqueId* uniqueId);
/* Makes a communicator of nRanks ranks: all of comm, which keep their numbers, and new processes,
 * such as those in place of dead ones that r2cclCommShrink has removed. One rank of comm makes the
 * id, gives it to the new processes, and passes it; the others of comm pass NULL. All of these pass
 * rank -1. A new process passes comm NULL, the id, and its rank: one from comm's size on.
 *
 * The call is one of the ordered calls on comm, like a collective, and then meets all ranks, as
 * r2cclCommInitRankConfig, whose config, bounds, errors and connections it has.
 * comm goes on, and can be destroyed. An error leaves *newcomm NULL: a wrong argument of one rank
 * of comm is an error on all of comm, as with r2cclCommSplit. */
R2CCL_API r2cclResult_t r2cclCommGrow(r2cclComm_t comm, int nRanks, const r2cclUniqueId* uniqueId,
                                      int rank, r2cclComm_t* newcomm, const r2cclConfig_t* config);

/* Sets *count to the number of ranks. */
R2CCL_API r2cclResult_t r2cclCommCount(r2cclComm_t comm, int* count);
/* Sets *rank to the number of this rank. */
R2CCL_API r2cclResult_t r2cclCommUserRank(r2cclComm_t comm, int* rank);

/* Ends the communicator in order: waits until all operations are complete everywhere, so that no
 * rank sees this one vanish. Collective. It waits for ranks that do not finalize no longer than for
 * a cut-off host (R2CCL_CUTOFF_S, cutoff_ms), and then returns r2cclTimeout, whose text names them.
 * Returns r2cclInvalidUsage when the ranks have not all made the same collective calls, or when a
 * Send or Recv has no counterpart. The rank that finalizes too early gets it, too, while a rank
 * that waits for it in a call gets r2cclRemoteError from that call. Afterwards the communicator can
 * be asked and destroyed; an operation on it is r2cclInvalidUsage, and a second finalize does
 * nothing. */
R2CCL_API r2cclResult_t r2cclCommFinalize(r2cclComm_t comm);
/* Frees the communicator. Finalizes it first if the caller has not done so and no error is pending,
 * and then returns the result of r2cclCommFinalize. With an error that this rank knows already it
 * returns r2cclSuccess, also when another rank's finalize was the cause: only a call of
 * r2cclCommFinalize before returns that error on every rank. The communicator is freed with every
 * result, unless comm is no communicator; r2cclGetLastError(NULL) tells why the call failed. Like
 * finalize it waits for this rank's own operations, so first abort each one that the other ranks
 * will never match. */
R2CCL_API r2cclResult_t r2cclCommDestroy(r2cclComm_t comm);
/* Ends all operations with r2cclAborted at once, then waits at most half a second until the other
 * ranks know. After the return the library touches no buffer any more. The other ranks get
 * r2cclRemoteError, which names this rank. Requests remain, with this result, until they are waited
 * for or tested. The caller must still destroy the communicator. */
R2CCL_API r2cclResult_t r2cclCommAbort(r2cclComm_t comm);
/* As r2cclCommAbort, and tells the other ranks the program's reason. For "raised ValueError: no
 * file" their error says: rank 1 (host h2, pid 4711) aborted: raised ValueError: no file. The
 * library copies the reason, shows at most 500 bytes, and a question mark for each byte that cannot
 * be printed. NULL and "" are no reason. */
R2CCL_API r2cclResult_t r2cclCommAbortWith(r2cclComm_t comm, const char* reason);

/* === Errors === */

/* Sets *error to r2cclSuccess or to the error that ended this communicator. */
R2CCL_API r2cclResult_t r2cclCommGetAsyncError(r2cclComm_t comm, r2cclResult_t* error);
/* Returns the name of a result code, in words. */
R2CCL_API const char* r2cclGetErrorString(r2cclResult_t result);
/* Returns the text of the error that ended comm, or of the last error of this thread when comm is
 * NULL: a wrong argument, which ends nothing, is only there. It is valid until the thread's next
 * r2ccl call, and empty when there was no error. A call that succeeds clears no error. */
R2CCL_API const char* r2cclGetLastError(r2cclComm_t comm);

#define R2CCL_ERROR_RANKS_MAX 32
#define R2CCL_ERROR_TEXT_BYTES 2048

/* An error as values. Later versions append fields. */
typedef struct {
  size_t size;                       /* in: sizeof(r2cclErrorInfo_t) */
  r2cclResult_t code;                /* r2cclSuccess: there was no error */
  int rank_count;                    /* of the ranks at fault; may be more than ranks[] holds */
  int ranks[R2CCL_ERROR_RANKS_MAX];  /* numbered as in the communicator; unused ones are -1 */
  char text[R2CCL_ERROR_TEXT_BYTES]; /* as r2cclGetLastError; a longer one ends with "..." */
} r2cclErrorInfo_t;

/* Fills info with the error that ended comm, or with the last error of this thread when comm is
 * NULL. The caller first sets info->size. Does not change what r2cclGetLastError returns.
 *
 * The ranks at fault are:
 * - a rank that died, left, aborted or is cut off, also this one itself;
 * - two ranks whose calls differ, in any order: the library cannot tell which is wrong;
 * - the ranks that did not arrive at init or finalize;
 * - the rank that is late, after r2cclTimeout of a wait, if it is known; docs/waiting.md has the
 *   text. r2cclRequestWaitAll and r2cclRequestWaitAny give that of one request;
 * - the rank whose buffer or memory was at fault, also this one itself;
 * - the rank whose wrong argument made r2cclCommSplit or r2cclCommDup fail on the others.
 *
 * An error that concerns no rank has none. A wrong argument of this rank's own names no rank. */
R2CCL_API r2cclResult_t r2cclGetErrorInfo(r2cclComm_t comm, r2cclErrorInfo_t* info);

/* === Health === */

/* Writes a JSON text that describes the communicator: NICs and bytes, paths and states, verdicts.
 * Writes at most *bytes including the final NUL, and sets *bytes to the size needed: where that is
 * more than there was, the text is cut short. buffer may be NULL to ask for the size.
 * docs/report.md has the fields. */
R2CCL_API r2cclResult_t r2cclCommReport(r2cclComm_t comm, char* buffer, size_t* bytes);

/* Sizes of the texts in the structs below, including the final NUL. */
#define R2CCL_NIC_NAME_BYTES 32
#define R2CCL_HOST_NAME_BYTES 256
#define R2CCL_ENDPOINT_BYTES 64

/* The state of a path. Later versions may add values. */
typedef enum {
  r2cclPathDown = 0,
  r2cclPathValidating = 1, /* connected; full-size frames must pass both ways first */
  r2cclPathUp = 2,
  r2cclPathSuspect = 3, /* overdue: carries nothing new but probes */
  r2cclPathDrained = 4, /* at rest, because a NIC at one of its ends is out of service */
  r2cclPathStandby = 5  /* the path over lo, or through a third rank, while another path is up */
} r2cclPathState_t;

/* A path to another rank, as this rank sees it. Counters start at 0 with the communicator and only
 * grow. Later versions append fields; a field that the loaded library does not know is 0.
 *
 * A path has a rate once it has been full: for 10 ms or more, most of its bytes waited for others
 * ahead of them, or a loss of speed showed. A path that carries little, or that is faster than the
 * ranks, may never have one. Until then show the growth of tx_bytes and rx_bytes. */
typedef struct {
  size_t size;                           /* in: sizeof(r2cclPathInfo_t) */
  int peer;                              /* the other rank */
  r2cclPathState_t state;                /* the present one */
  char nic[R2CCL_NIC_NAME_BYTES];        /* this end's NIC; "shm" (shared memory) or "lo" within a
                                            host; "oob": control only, over the management network;
                                            "relay": through a third rank */
  char peer_nic[R2CCL_NIC_NAME_BYTES];   /* the other end's, or as nic */
  char peer_host[R2CCL_HOST_NAME_BYTES]; /* the other rank's host */
  char remote[R2CCL_ENDPOINT_BYTES];     /* the other end's address and port; of a relay path those
                                            of the rank that relays */
  uint64_t state_ns;                     /* time since the state began */
  uint64_t incarnation;                  /* grows with each connection; 0: never connected */
  uint64_t rate;                         /* measured delivery rate, bytes/s; 0: not measured yet */
  uint64_t round_trip_ns;                /* of the control stream, smoothed; 0: unknown */
  int64_t one_way_excess_ns;             /* the path's one-way delay less the shortest one among
                                            the paths to this peer that are up; -1: unknown */
  uint64_t tx_bytes;                     /* sent over data connections, frame headers included */
  uint64_t rx_bytes;                     /* received, likewise */
  uint64_t retransmitted_bytes;          /* payload sent again because the path went down */
  uint64_t packets_sent;                 /* by the kernel's count */
  uint64_t packets_lost;                 /* those of them that the kernel sent again in need */
  uint64_t suspicions;                   /* how often it was suspect */
  uint64_t downs;                        /* how often it went down after it had been up */
  uint64_t returns;                      /* how often it was up again */
  uint32_t loss_ppm;                     /* packets lost of a million, in the last 4 s */
  int drained;                           /* 1: a NIC at one of its ends is out of service */
} r2cclPathInfo_t;

/* Fills paths with the paths of this rank, by peer. The caller sets *count to the room in paths,
 * and the call sets it to the number of all paths, also when that is more; then it fills only the
 * first ones. paths may be NULL to ask for it. A rank of the same host has two paths: shared
 * memory, and lo on standby. To a rank of another host there is one more once a third rank has
 * relayed, the last one to this rank, and it stays in the list; otherwise the number never changes.
 * The caller sets paths[0].size; the call sets that of every element. Any thread may call this any
 * time, also after the communicator has failed; it takes microseconds, and does not wait for the
 * network. */
R2CCL_API r2cclResult_t r2cclCommGetPaths(r2cclComm_t comm, r2cclPathInfo_t* paths, size_t* count);

/* Names the component that a verdict is about. Later versions may add values. */
typedef enum {
  r2cclScopeNic = 0,    /* host and nic: the NIC, its cable or its port */
  r2cclScopePair = 1,   /* one of host and peer_host, at nic and peer_nic, or what is between */
  r2cclScopeRail = 2,   /* the switch that connects this NIC of all hosts */
  r2cclScopeHost = 3,   /* no NIC of host is reached */
  r2cclScopeProcess = 4 /* the process of a rank has died */
} r2cclVerdictScope_t;

/* The evidence of a verdict. A process that has died has r2cclConnectionLost: its kernel refuses
 * connections. Later versions may add values. */
typedef enum {
  r2cclInterfaceDown = 1,  /* the NIC was taken down */
  r2cclCarrierLost = 2,    /* the NIC lost its carrier */
  r2cclConnectionLost = 3, /* a connection broke */
  r2cclSilent = 4,         /* nothing comes through any more */
  r2cclStalled = 5,        /* the kernel answers, and the connection makes no progress */
  r2cclLossy = 10,         /* packets get lost; nothing is down for it */
  r2cclTampered = 11,   /* bytes are changed on the way, again and again; nothing is down for it */
  r2cclAddressLost = 12 /* the host lost the address of its NIC */
} r2cclVerdictKind_t;

/* A fault that the job has agreed on: the same on every rank. docs/blame.md has the evidence for
 * each scope and kind. A name that does not apply is empty. Later versions append fields; a field
 * that the loaded library does not know is 0. */
typedef struct {
  size_t size;                           /* in: sizeof(r2cclVerdict_t) */
  size_t number;                         /* its place in the list, from 0 */
  int rank;                              /* the rank whose evidence decided */
  r2cclVerdictScope_t scope;             /* the kind of component */
  r2cclVerdictKind_t kind;               /* the evidence */
  int process;                           /* r2cclScopeProcess: the rank that died; else -1 */
  char host[R2CCL_HOST_NAME_BYTES];      /* the faulty component; empty for a rail */
  char nic[R2CCL_NIC_NAME_BYTES];        /* the NIC there; empty: all of the host */
  char peer_host[R2CCL_HOST_NAME_BYTES]; /* r2cclScopePair: the other end */
  char peer_nic[R2CCL_NIC_NAME_BYTES];   /* the NIC there */
  int64_t at_ns;                         /* time since 1970, by the clock of `rank` */
  int64_t detected_ns;                   /* from the oldest frame that was never acknowledged to the
                                            decision of `rank`; -1: no frame was in flight there */
  uint64_t stall_ns;                     /* the delay of the most delayed chunk */
  uint64_t retransmitted_bytes;          /* payload sent again on other paths because of it */
  uint32_t loss_ppm;                     /* r2cclLossy: packets lost of a million when named */
} r2cclVerdict_t;

/* Fills verdicts with the verdicts so far, oldest first. There are at most 10,000. As for
 * r2cclCommGetPaths the caller sets *count and verdicts[0].size, and any thread may call this any
 * time. A verdict `lossy` replaces an earlier, less precise one of the same fault and takes its
 * number. */
R2CCL_API r2cclResult_t r2cclCommGetVerdicts(r2cclComm_t comm, r2cclVerdict_t* verdicts,
                                             size_t* count);

/* Takes a verdict that is new, or has replaced the one with its number. *verdict is valid during
 * the call. */
typedef void (*r2cclVerdictCallback_t)(r2cclComm_t comm, const r2cclVerdict_t* verdict, void* user);

/* From now on calls callback(comm, verdict, user) once for each verdict, in their order. The
 * verdicts so far are not among them: r2cclCommGetVerdicts, called afterwards, has those. A path
 * that returns makes no verdict; r2cclCommGetPaths shows it.
 *
 * The calls come from a thread of the library that exists only while a callback is set, blocks all
 * signals and does nothing else. One call follows the end of the other, and a slow callback delays
 * no operation. It may make the calls that any thread may make at any time, so also r2cclCommAbort.
 * It must not throw.
 *
 * A later call replaces the callback, and NULL removes it. No call of the earlier one is under way,
 * and none follows, once r2cclCommSetVerdictCallback or r2cclCommDestroy returns: both wait for the
 * call that is under way, and verdicts that still wait for the callback are left out. So hold no
 * lock then that the callback takes. From inside the callback of comm both are r2cclInvalidUsage.
 * r2cclSystemError: there is no memory, or no thread. */
R2CCL_API r2cclResult_t r2cclCommSetVerdictCallback(r2cclComm_t comm,
                                                    r2cclVerdictCallback_t callback, void* user);

/* Names the calling thread's next operation, in every text about it: errors, waits, `r2ccl status`
 * and the report say AllReduce 7 "layer3.grad" (100 float32, sum). The name ends with the next call
 * that takes a request pointer, also if that fails, and with the next Split or Dup; NULL takes it
 * back. The library copies it, shows at most 63 bytes, and a question mark for each byte that
 * cannot be printed. Ranks need not agree on names. */
R2CCL_API r2cclResult_t r2cclSetCallName(const char* name);

/* === Collectives === */

/* Buffers must be aligned to their element's size; one of 0 elements may be NULL. Calls of the
 * ranks that differ (in the call, count, type, op, root or order) are r2cclInvalidUsage on every
 * rank within 2 s, in this call or, on a rank whose part is complete by then, in a later one. That
 * ends the communicator; r2cclGetErrorInfo has two of them.
 *
 * Buffers may be any memory that the process can read (sendbuff) or write (recvbuff). A call checks
 * them when it starts, and the kernel may refuse them later. r2cclInvalidArgument then names call,
 * buffer and offset, the other ranks get r2cclRemoteError, which names this rank, and the caller
 * can only destroy the communicator. The check finds unmapped memory, and wrong rights at the
 * buffer's end. Memory that is unmapped during the call, or protected in the middle, may still end
 * the process with SIGSEGV, because the library itself reads small messages and reduces. */

/* Sets recvbuff[i] to op over all ranks of sendbuff[i], i < count, with identical bits on every
 * rank. In place when sendbuff == recvbuff; the call refuses other overlaps. */
R2CCL_API r2cclResult_t r2cclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                                       r2cclDataType_t datatype, r2cclRedOp_t op, r2cclComm_t comm,
                                       r2cclRequest_t* request);
/* Copies sendbuff of the root to recvbuff of every rank. Only the root reads sendbuff, which may be
 * NULL elsewhere. In place at the root when sendbuff == recvbuff; the call refuses other overlaps.
 */
R2CCL_API r2cclResult_t r2cclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                                       r2cclDataType_t datatype, int root, r2cclComm_t comm,
                                       r2cclRequest_t* request);
/* Sets recvbuff[i] of the root to op over all ranks of sendbuff[i], i < count. Only the root writes
 * recvbuff. In place at the root when sendbuff == recvbuff. */
R2CCL_API r2cclResult_t r2cclReduce(const void* sendbuff, void* recvbuff, size_t count,
                                    r2cclDataType_t datatype, r2cclRedOp_t op, int root,
                                    r2cclComm_t comm, r2cclRequest_t* request);

/* A buffer of blocks has one for each of the p ranks: block r is buffer[r * count + i], i < count.
 * A block that a rank keeps is copied too, unless the call is in place: then this rank's own block
 * lies where it belongs in the long buffer. Alignment, calls that differ, and buffers that cannot
 * be touched are as for r2cclAllReduce. */

/* Copies sendbuff of rank r to block r of recvbuff on every rank; recvbuff has p * sendcount
 * elements. In place when sendbuff == recvbuff + rank * sendcount. */
R2CCL_API r2cclResult_t r2cclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                                       r2cclDataType_t datatype, r2cclComm_t comm,
                                       r2cclRequest_t* request);
/* Sets recvbuff of rank r to op over all ranks of block r of sendbuff, which has p * recvcount
 * elements. In place when recvbuff == sendbuff + rank * recvcount; the other blocks of sendbuff
 * keep their values. */
R2CCL_API r2cclResult_t r2cclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                           r2cclDataType_t datatype, r2cclRedOp_t op,
                                           r2cclComm_t comm, r2cclRequest_t* request);
/* Copies block r of sendbuff to block `rank` of recvbuff of rank r, from every rank to every rank.
 * The buffers may not overlap. This call and r2cclAllToAllV take communicators of at most 4096
 * ranks. */
R2CCL_API r2cclResult_t r2cclAllToAll(const void* sendbuff, void* recvbuff, size_t count,
                                      r2cclDataType_t datatype, r2cclComm_t comm,
                                      r2cclRequest_t* request);
/* Copies sendbuff of rank r to block r of the root's recvbuff. Only the root has a recvbuff. In
 * place at the root when sendbuff == recvbuff + root * count. */
R2CCL_API r2cclResult_t r2cclGather(const void* sendbuff, void* recvbuff, size_t count,
                                    r2cclDataType_t datatype, int root, r2cclComm_t comm,
                                    r2cclRequest_t* request);
/* Copies block r of the root's sendbuff to recvbuff of rank r. Only the root has a sendbuff. In
 * place at the root when recvbuff == sendbuff + root * count. */
R2CCL_API r2cclResult_t r2cclScatter(const void* sendbuff, void* recvbuff, size_t count,
                                     r2cclDataType_t datatype, int root, r2cclComm_t comm,
                                     r2cclRequest_t* request);

/* Makes *op a sum for which this rank multiplies its elements by *scalar, an element of `datatype`,
 * before they are added. The scalar lies in the memory of the host. Each rank may have another one.
 * Each product is rounded once, to `datatype` (any type; integers wrap), and then added as by
 * r2cclSum. An AllReduce keeps the products in recvbuff, Reduce and ReduceScatter in memory of the
 * library as long as sendbuff.
 *
 * The operation is for this communicator and type only: any other use is r2cclInvalidArgument. It
 * ends with r2cclRedOpDestroy, which calls in progress do not notice, or with the communicator. The
 * other ranks must use an operation of this kind, too, in the same call; its number may differ. Not
 * collective: the call waits for no other rank. */
R2CCL_API r2cclResult_t r2cclRedOpCreatePreMulSum(r2cclRedOp_t* op, const void* scalar,
                                                  r2cclDataType_t datatype,
                                                  r2cclScalarResidence_t residence,
                                                  r2cclComm_t comm);
/* Ends an operation that r2cclRedOpCreatePreMulSum has made; any other is r2cclInvalidArgument. */
R2CCL_API r2cclResult_t r2cclRedOpDestroy(r2cclRedOp_t op, r2cclComm_t comm);

/* Waits for all ranks: no rank returns (or completes the request) before every rank has called.
 * Counts in the order of the calls like the other collectives; calls that differ are as for
 * r2cclAllReduce. */
R2CCL_API r2cclResult_t r2cclBarrier(r2cclComm_t comm, r2cclRequest_t* request);

/* Calls whose name ends in V have blocks of different sizes: each block has a count and, in all but
 * r2cclReduceScatterV, a displacement, the element at which it begins. The displacements may be
 * NULL: the blocks then lie one after another. Arrays have an entry for each rank and may change
 * after the return. Blocks that a call writes may not overlap. A block of 0 elements is allowed. A
 * count on which two ranks differ is an error on all ranks: of this call, or of the next one on a
 * rank whose part is complete by then. Alignment, calls that differ, and buffers that cannot be
 * touched are as for r2cclAllReduce. */

/* Copies sendbuff of rank r, recvcounts[r] elements, to block r of recvbuff on every rank. Block r
 * has recvcounts[r] elements and begins at element displs[r]. All ranks give the same recvcounts;
 * displs may differ. In place when sendbuff is this rank's block of recvbuff. */
R2CCL_API r2cclResult_t r2cclAllGatherV(const void* sendbuff, void* recvbuff,
                                        const size_t recvcounts[], const size_t displs[],
                                        r2cclDataType_t datatype, r2cclComm_t comm,
                                        r2cclRequest_t* request);
/* Sets recvbuff of rank r, recvcounts[r] elements, to op over all ranks of block r of sendbuff. The
 * blocks lie one after another. All ranks give the same recvcounts. In place when recvbuff is this
 * rank's block of sendbuff; the other blocks keep their values. */
R2CCL_API r2cclResult_t r2cclReduceScatterV(const void* sendbuff, void* recvbuff,
                                            const size_t recvcounts[], r2cclDataType_t datatype,
                                            r2cclRedOp_t op, r2cclComm_t comm,
                                            r2cclRequest_t* request);
/* Copies sendbuff of rank r, sendcount elements, to block r of the root's recvbuff. There it has
 * recvcounts[r] elements and begins at element displs[r]. A rank other than the root gives only its
 * sendcount; its recvcounts and displs may be NULL. In place at the root when sendbuff is its block
 * of recvbuff. */
R2CCL_API r2cclResult_t r2cclGatherV(const void* sendbuff, size_t sendcount, void* recvbuff,
                                     const size_t recvcounts[], const size_t displs[],
                                     r2cclDataType_t datatype, int root, r2cclComm_t comm,
                                     r2cclRequest_t* request);
/* Copies block r of the root's sendbuff to recvbuff of rank r, recvcount elements. In sendbuff it
 * has sendcounts[r] elements and begins at element displs[r]. A rank other than the root gives only
 * its recvcount; its sendcounts and displs may be NULL. In place at the root when recvbuff is its
 * block of sendbuff. */
R2CCL_API r2cclResult_t r2cclScatterV(const void* sendbuff, const size_t sendcounts[],
                                      const size_t displs[], void* recvbuff, size_t recvcount,
                                      r2cclDataType_t datatype, int root, r2cclComm_t comm,
                                      r2cclRequest_t* request);
/* Copies block r of sendbuff to block `rank` of recvbuff of rank r. Block r of sendbuff has
 * sendcounts[r] elements and begins at element sdispls[r]; that of recvbuff has recvcounts[r] and
 * begins at rdispls[r]. sendcounts[r] of this rank is recvcounts[rank] of rank r. The buffers may
 * not overlap. */
R2CCL_API r2cclResult_t r2cclAllToAllV(const void* sendbuff, const size_t sendcounts[],
                                       const size_t sdispls[], void* recvbuff,
                                       const size_t recvcounts[], const size_t rdispls[],
                                       r2cclDataType_t datatype, r2cclComm_t comm,
                                       r2cclRequest_t* request);

/* === Messages === */

/* Messages between two ranks. Alignment, calls that differ, and buffers that cannot be touched are
 * as for r2cclAllReduce. */

/* Sends count elements to rank peer. The n-th Send from A to B meets the n-th Recv at B from A;
 * count and type must agree. There is no other order. A Send is complete once the caller may
 * overwrite its buffer: a small Send may be complete long before the Recv, a Send to this rank
 * itself only with its Recv. */
R2CCL_API r2cclResult_t r2cclSend(const void* sendbuff, size_t count, r2cclDataType_t datatype,
                                  int peer, r2cclComm_t comm, r2cclRequest_t* request);
/* Receives count elements from rank peer: the counterpart of r2cclSend. */
R2CCL_API r2cclResult_t r2cclRecv(void* recvbuff, size_t count, r2cclDataType_t datatype, int peer,
                                  r2cclComm_t comm, r2cclRequest_t* request);
/* Messages with a tag, 0 or more, whose size the receiver does not know. The n-th Send with a tag
 * from A to B meets the n-th Recv with that tag at B from A. Different tags have no order among
 * each other, nor against r2cclSend and r2cclRecv: a Recv that comes late, or never, holds up no
 * other tag. There are no wildcards: a negative tag or peer is r2cclInvalidArgument.
 *
 * A Recv takes a message of 0 to max_count elements. It sets *received to their number before it is
 * complete, and writes no element of recvbuff after these; received may be NULL, and must be valid
 * until the call, or its request, is complete. A longer message, or one of another type, is
 * r2cclInvalidUsage on every rank, and ends the communicator; the text gives both ranks, the tag
 * and both sizes.
 *
 * A message of up to 32,736 bytes is complete at its sender at once, as long as the Recvs of the
 * other rank leave room: 256 KB for each peer, where each message takes 128 bytes more. Any other
 * Send is complete after its Recv. If 65,536 Sends to one rank wait for their Recvs, further ones
 * to it wait for those, whatever their tags. A Send to this rank itself is complete with its Recv.
 * r2cclCommFinalize with a message that no Recv has taken is r2cclInvalidUsage on every rank;
 * r2cclCommDestroy alone returns it only on ranks that do not know of the error yet. */
R2CCL_API r2cclResult_t r2cclSendTagged(const void* sendbuff, size_t count,
                                        r2cclDataType_t datatype, int peer, int tag,
                                        r2cclComm_t comm, r2cclRequest_t* request);
R2CCL_API r2cclResult_t r2cclRecvTagged(void* recvbuff, size_t max_count, r2cclDataType_t datatype,
                                        int peer, int tag, size_t* received, r2cclComm_t comm,
                                        r2cclRequest_t* request);

/* === Groups === */

/* A group makes several calls start together. Inside it each call that takes a request pointer
 * checks its arguments and buffers at once, and starts nothing. The outermost r2cclGroupEnd starts
 * all calls of the group, on all communicators, in their order, and then waits for those whose
 * request is NULL. So one thread can send to its own rank, exchange large messages in both
 * directions, or make the operations of several ranks. All other calls act at once, so a
 * r2cclCommInitRank in a group blocks as it does outside, unlike NCCL's.
 *
 * r2cclGroupEnd sets *request, which must be valid until then and is NULL meanwhile. If a call of
 * the group fails, r2cclGroupEnd starts none of them and returns the first error; its text names
 * the call. So it does when a communicator of the group was destroyed, finalized or aborted since.
 * An unusable buffer ends the communicator, as outside a group. When a call fails after all have
 * started, r2cclGroupEnd returns the first error in the order of the calls once no call that it
 * waits for is left, and the requests are valid.
 *
 * A group belongs to the thread that opened it. Groups nest, and an inner r2cclGroupEnd only
 * returns the error so far. r2cclGroupEnd without r2cclGroupStart is r2cclInvalidUsage. */
R2CCL_API r2cclResult_t r2cclGroupStart(void);
R2CCL_API r2cclResult_t r2cclGroupEnd(void);

/* === Memory === */

/* Allocates `size` bytes (1 or more), all 0, for buffers or anything else. 2 MiB or more begin at a
 * huge page, and the kernel is asked to use huge pages. Memory does not belong to a communicator.
 * r2cclMemFree frees it. Without memory the result is r2cclSystemError, and *ptr NULL. */
R2CCL_API r2cclResult_t r2cclMemAlloc(void** ptr, size_t size);
/* Frees memory of r2cclMemAlloc; NULL is nothing to free, and any other pointer is
 * r2cclInvalidArgument. Free no buffer of an operation that is not complete. */
R2CCL_API r2cclResult_t r2cclMemFree(void* ptr);
/* Checks the memory once: calls on comm whose buffers lie in it skip their own check. That saves a
 * system call for each buffer, and before Linux 6.11 a look at each page. It must stay mapped, with
 * its rights, until r2cclCommDeregister or the end of comm. Memory that can only be read serves as
 * sendbuff only. Sets *handle, which is for r2cclCommDeregister alone. Not collective. Any memory
 * may be registered, also twice. */
R2CCL_API r2cclResult_t r2cclCommRegister(r2cclComm_t comm, void* buff, size_t size, void** handle);
/* Takes a registration back. Operations under way do not notice. */
R2CCL_API r2cclResult_t r2cclCommDeregister(r2cclComm_t comm, void* handle);

/* === Requests === */

/* A call with a request pointer sets *request to NULL when it fails. A NULL request is complete,
 * and its result is r2cclSuccess. So a caller can test, await and abort an array of requests as a
 * whole, also when some of them have ended. */

/* If the request is complete, sets *done to 1, returns its result, frees the request and sets it to
 * NULL. Otherwise sets *done to 0 and returns r2cclSuccess. */
R2CCL_API r2cclResult_t r2cclRequestTest(r2cclRequest_t* request, int* done);
/* Waits for at most timeout_ms (-1: no bound; below: r2cclInvalidArgument). While it waits, it
 * drives the operations of the process in its own thread. r2cclTimeout leaves the request as it
 * was. Every other result is the operation's, and the call frees the request and sets it to NULL.
 */
R2CCL_API r2cclResult_t r2cclRequestWait(r2cclRequest_t* request, int64_t timeout_ms);
/* Gives the operation up and frees the request; one that is complete is only freed, and all goes
 * on. After the return the library touches its buffers no more. Returns r2cclSuccess. Other ranks
 * that take part in the operation cannot finish it, so this ends the communicator as r2cclCommAbort
 * does: its other operations on this rank are r2cclAborted, and the other ranks get
 * r2cclRemoteError, which names this rank. */
R2CCL_API r2cclResult_t r2cclRequestAbort(r2cclRequest_t* request);

/* r2cclRequestWaitAll, r2cclRequestWaitAny and r2cclRequestTestAll take `count` requests, 0 or
 * more, of any communicators. NULL entries count as complete, and r2cclRequestWaitAny passes over
 * them; requests may be NULL when count is 0. An entry that is no request is r2cclInvalidArgument,
 * whose text names the index, and the call does nothing else. No request may be in the array twice.
 * While it waits, a call drives the operations in its own thread, like r2cclRequestWait. */

/* Waits until all are complete, for at most timeout_ms (-1: no bound). r2cclTimeout leaves all
 * requests as they were, also those that are complete; its text names one that is not. Every other
 * result frees all requests and sets them to NULL: the first error in the order of the array, or
 * r2cclSuccess. The text gives each error with the indices of its requests. */
R2CCL_API r2cclResult_t r2cclRequestWaitAll(int count, r2cclRequest_t requests[],
                                            int64_t timeout_ms);
/* Waits until one is complete, for at most timeout_ms (-1: no bound). Sets *index to the lowest one
 * that is, frees it, sets it to NULL and returns its result, also an error. If all are NULL, sets
 * *index to -1 and returns r2cclSuccess at once. r2cclTimeout sets *index to -1 and leaves all as
 * they were. A call takes time in proportion to count. Requests may complete in another order on
 * each rank: do not start the next collective of a communicator for each one that completes. */
R2CCL_API r2cclResult_t r2cclRequestWaitAny(int count, r2cclRequest_t requests[], int* index,
                                            int64_t timeout_ms);
/* If all are complete, sets *done to 1 and goes on as r2cclRequestWaitAll. Otherwise sets *done to
 * 0, leaves all as they were and returns r2cclSuccess. */
R2CCL_API r2cclResult_t r2cclRequestTestAll(int count, r2cclRequest_t requests[], int* done);

/* Sets *fd to a descriptor for poll() or epoll (level-triggered or edge-triggered). It becomes
 * readable when an operation of this communicator completes, with or without a request, so also
 * after a r2cclBarrier that blocks, and when the communicator fails, and stays so until the caller
 * reads 8 bytes from it: a uint64_t, the number of those events since the last read. The read never
 * blocks: it fails with EAGAIN when there were none. Read first and test requests afterwards, so
 * that no completion falls between. Perhaps none of the requests is complete then: poll again.
 * Operations go on while no thread is in the library.
 *
 * Each call returns the same descriptor. At first it is readable, because operations may have
 * completed before. The library owns it and closes it when the communicator is destroyed; the
 * caller must not close it. Without this call completions write to no descriptor; with it each
 * costs a system call. */
R2CCL_API r2cclResult_t r2cclCommGetFd(r2cclComm_t comm, int* fd);

#ifdef __cplusplus
}
#endif

#endif /* R2CCL_R2CCL_H_ */
