/**
 * Plait: collective communication for distributed training.
 *
 * This header is the whole public API. It is plain C (C99 and later, C++11 and
 * later), names no platform or CUDA type, and every object in it is opaque.
 *
 * A process (or a thread, see plait_thread_group) takes part in a *world* as one
 * *rank*. A world has a *communicator* of all its ranks; more are made by
 * splitting it. A collective is a call that every rank of a communicator makes,
 * in the same order and with the same count, type, operation and root:
 *
 *     plait_world *world = NULL;
 *     plait_status status = plait_world_create(NULL, &world); // rank and size from the launcher
 *     if (status == PLAIT_OK)
 *         status = plait_allreduce(plait_world_comm(world), gradients, gradients, count,
 *                                  PLAIT_F32, PLAIT_AVERAGE, NULL);
 *     if (status != PLAIT_OK)
 *         fprintf(stderr, "%s: %s\n", plait_status_name(status), plait_last_error());
 *     plait_world_destroy(world);
 *
 * Conventions
 * - `count` is elements, `size` is bytes, times carry their unit (`timeout_ms`).
 * - A function that can fail returns a plait_status; plait_last_error() then
 *   holds one sentence for the calling thread. Out-parameters are set on success only.
 * - NULL for a handle is PLAIT_INVALID_ARGUMENT, unless the function says that it is fine.
 * - Create and release pair up; release takes NULL. A handle used after its
 *   release is answered with PLAIT_INVALID_USAGE, never with a crash.
 * - Threads: a communicator takes calls from one thread at a time; different
 *   communicators are independent, and a work may be tested, waited for and
 *   released from any thread. Safe from any thread at any time are
 *   plait_world_abort(), plait_comm_abort(), plait_comm_set_timeout(), profiles, the log,
 *   and all functions that only ask (rank, size, facts, status, fault, last plan).
 *   Exceptions are named at the function.
 * - Structs that may grow begin with `struct_size`: set it to the struct's
 *   sizeof. A program keeps working with a later library, and an earlier library
 *   refuses (PLAIT_UNSUPPORTED) options that it does not know unless they are zero.
 * - Fork: a child has no part in its parent's worlds; calls on them return
 *   PLAIT_INVALID_USAGE there, and plait_world_destroy() frees nothing.
 */
#ifndef PLAIT_H
#define PLAIT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(PLAIT_BUILDING) && defined(__GNUC__)
#define PLAIT_API __attribute__((visibility("default")))
#else
#define PLAIT_API
#endif

#define PLAIT_VERSION_MAJOR 0
#define PLAIT_VERSION_MINOR 1
#define PLAIT_VERSION_PATCH 0

/** The version of the library that is loaded, "0.1.0". Static; never NULL. */
PLAIT_API const char *plait_version(void);

/* ---------------------------------------------------------------- failures */

/** What became of a call. Grouped by what the caller can do next. */
typedef enum plait_status {
    PLAIT_OK = 0,
    PLAIT_IN_PROGRESS = 1, /**< not an error: ask again later */

    /* Mend the call: nothing was sent and nothing has changed. */
    PLAIT_INVALID_ARGUMENT = -1, /**< a pointer, count, rank, type, ... is wrong */
    PLAIT_INVALID_USAGE = -2,    /**< right arguments at the wrong moment: after destroy, after a fork */
    PLAIT_INVALID_SETTING = -3,  /**< an option or PLAIT_* variable has none of the good values */
    PLAIT_UNSUPPORTED = -4,      /**< this build or machine can't do it */

    /* Give the machine more, or ask for less, then try again. */
    PLAIT_OUT_OF_MEMORY = -10,
    PLAIT_OUT_OF_RESOURCES = -11, /**< file descriptors, threads, ports, ... */
    PLAIT_SYSTEM_ERROR = -12,     /**< the system refused a call; the sentence says which and why */

    /* This operation failed; the communicator goes on. */
    PLAIT_MISMATCH = -20,  /**< ranks made different calls; outputs are untouched on all of them */
    PLAIT_TRUNCATED = -21, /**< a message was longer than the receive; the buffer is untouched */

    PLAIT_CALLER_FAILED = -22, /**< a caller's function returned an error on some rank; outputs are undefined */

    /* The communicator is over: destroy it, or the world. */
    PLAIT_TIMED_OUT = -30,    /**< a deadline passed; the fault names who was missing */
    PLAIT_PEER_LOST = -31,    /**< a rank died or left; the fault names it */
    PLAIT_ABORTED = -32,      /**< this rank or another one called abort */
    PLAIT_START_FAILED = -33, /**< the world did not come together; the sentence says who is missing */

    /* Report it: Plait itself is wrong. */
    PLAIT_INTERNAL = -40
} plait_status;

/** What a caller can do about a status. */
typedef enum plait_remedy {
    PLAIT_REMEDY_NONE = 0,  /**< nothing is wrong */
    PLAIT_REMEDY_MEND_CALL, /**< the call was wrong and had no effect */
    PLAIT_REMEDY_RETRY,     /**< the machine lacked something: free it and try again */
    PLAIT_REMEDY_GO_ON,     /**< this operation failed on every rank; the next may succeed */
    PLAIT_REMEDY_REBUILD,   /**< the communicator is over */
    PLAIT_REMEDY_REPORT     /**< a bug in Plait */
} plait_remedy;

/** The group that `status` belongs to. Unknown values give PLAIT_REMEDY_REPORT. */
PLAIT_API plait_remedy plait_status_remedy(plait_status status);

/** "PLAIT_PEER_LOST" and the like. Static; never NULL. */
PLAIT_API const char *plait_status_name(plait_status status);

/**
 * One sentence on the calling thread's latest failed call: what was wrong,
 * where, and what to do. "" before the first failure. Valid until this
 * thread's next failure. A failed work's sentence becomes the caller's when
 * plait_work_wait(), plait_work_test() or plait_work_status() returns the failure.
 */
PLAIT_API const char *plait_last_error(void);

typedef enum plait_fault_kind {
    PLAIT_FAULT_NONE = 0,
    PLAIT_FAULT_DIED,        /**< the culprit's process ended */
    PLAIT_FAULT_LEFT,        /**< the culprit destroyed its world while others still needed it */
    PLAIT_FAULT_NOT_ENTERED, /**< the culprit is alive and has not made the call */
    PLAIT_FAULT_STUCK,       /**< the culprit entered the operation and does not move on */
    PLAIT_FAULT_MISMATCH,    /**< the culprit made another call */
    PLAIT_FAULT_ABORTED,     /**< the culprit called abort */
    PLAIT_FAULT_FUNCTION,    /**< the culprit's function, of an operation of its own, returned an error */
    PLAIT_FAULT_NO_MEMORY    /**< the culprit has no memory for what the operation needs */
} plait_fault_kind;

/** Something that went wrong, with its culprit. All strings are terminated. */
typedef struct plait_fault {
    size_t struct_size; /**< set to sizeof(plait_fault) by the caller before asking */
    plait_fault_kind kind;
    plait_status status;       /**< what the operation returned */
    int culprit;               /**< world rank, -1 if unknown */
    int64_t pid;               /**< the culprit's process id on its host, 0 if unknown */
    uint64_t operation_number; /**< counts a communicator's operations from 1; 0 outside of one */
    char host[64];             /**< the culprit's host name, for people; "" if unknown */
    char operation[32];        /**< "all-reduce" */
    char call[160];            /**< "all-reduce of 1024 f32, sum", as this rank made it */
    char evidence[512];        /**< how it is known */
    char communicator[64];     /**< its name: "world", "world/3", or what plait_comm_options says */
} plait_fault;

/* ------------------------------------------------------------------- world */

typedef struct plait_world plait_world;
typedef struct plait_comm plait_comm;
typedef struct plait_work plait_work;

/**
 * A place where ranks leave word for each other while a world starts: four
 * functions over a key-value store that all ranks see, such as c10d's. Keys
 * are terminated strings of printable ASCII, at most 127 bytes. Each returns
 * 0, or any other value for a failure. All are called from the thread that
 * creates the world and never after plait_world_create() has returned.
 */
typedef struct plait_store {
    size_t struct_size; /**< sizeof(plait_store) */
    void *context;      /**< handed to each function */
    /** Sets `key` to `size` bytes at `value`, replacing what was there. */
    int (*set)(void *context, const char *key, const void *value, size_t size);
    /**
     * Waits up to `timeout_ms` for `key` to exist, then copies its value to
     * `value`, at most `*size` bytes, and sets `*size` to its whole length.
     */
    int (*get)(void *context, const char *key, void *value, size_t *size, int64_t timeout_ms);
    /** Adds `amount` to the counter at `key` (0 if new); gives the sum in `*result`. */
    int (*add)(void *context, const char *key, int64_t amount, int64_t *result);
    /** Waits until `key` exists, at most `timeout_ms`. */
    int (*wait)(void *context, const char *key, int64_t timeout_ms);
} plait_store;

/** Ranks that are threads of one process find each other through one of these. */
typedef struct plait_thread_group plait_thread_group;

/**
 * Makes a meeting point for `ranks` threads, each of which creates a world
 * with options.threads set to it and its own rank. Reusable for one world
 * after another.
 *
 *     plait_world_options options = { .struct_size = sizeof options,
 *                                     .threads = group, .rank = my_number, .size = 4 };
 *     plait_status status = plait_world_create(&options, &world); // on each of the 4 threads
 *
 * Returns PLAIT_OK; PLAIT_INVALID_ARGUMENT unless 1 <= ranks <= 1024; PLAIT_OUT_OF_MEMORY.
 * Threads: any.
 */
PLAIT_API plait_status plait_thread_group_create(int ranks, plait_thread_group **group);

/** Frees a group; worlds made through it live on, those that are starting fail. NULL is fine. Any thread. */
PLAIT_API void plait_thread_group_destroy(plait_thread_group *group);

/**
 * Called once for each fault of a communicator of the world, on the thread that
 * found it. It may call the functions that are safe at any time, and no others.
 */
typedef void (*plait_fault_handler)(void *context, const plait_fault *fault);

/**
 * How to create a world. Zero in every field is the default; set struct_size
 * and what you need. PLAIT_* variables override the fields named beside them;
 * MASTER_ADDR and MASTER_PORT only stand in for theirs. What the pointers lead
 * to is read during plait_world_create() only.
 *
 * How ranks find each other, first match wins:
 *   threads      ranks are threads of this process; rank and size are required
 *   store        over a caller's key-value store; rank and size are required
 *   file         over a file that all ranks can lock (PLAIT_FILE)
 *   environment  MASTER_ADDR, MASTER_PORT, as torchrun sets them; rank 0 listens
 *   launcher     mpirun, mpiexec or srun tells where rank 0 is (PLAIT_LAUNCHER)
 *
 * Rank and size come from torchrun's, mpirun's, mpiexec's or srun's variables
 * (docs/settings.md) unless `size` is set; without any: a world of one.
 */
typedef struct plait_world_options {
    size_t struct_size; /**< sizeof(plait_world_options); 0 means this version's */
    int rank;           /**< this rank, 0 <= rank < size */
    int size;           /**< number of ranks; 0: rank and size come from the launcher */
    plait_thread_group *threads;
    const plait_store *store;
    const char *file;         /**< a path, created if absent; PLAIT_FILE */
    const char *address;      /**< rank 0's host name or address; MASTER_ADDR */
    int port;                 /**< 1..65535; MASTER_PORT */
    const void *job_key;      /**< a secret that all ranks share and strangers do not; PLAIT_JOB_KEY */
    size_t job_key_size;      /**< bytes */
    int64_t timeout_ms;       /**< deadline of an operation; 0: 600 000; < 0: none; PLAIT_TIMEOUT_MS */
    int64_t start_timeout_ms; /**< of the start; 0: 120 000; < 0: none; PLAIT_START_TIMEOUT_MS */
    const char *transport;    /**< "auto" (NULL), "inproc", "shm", "ofi"; PLAIT_TRANSPORT */
    const char *plan;         /**< "auto" (NULL), "deterministic", or a planner's name, for tests; PLAIT_PLAN */
    plait_fault_handler on_fault;
    void *fault_context;
} plait_world_options;

/**
 * Joins a world and returns once all of its ranks are there.
 *
 * options  NULL: all defaults, so rank and size come from the environment
 * world    set on PLAIT_OK only; end it with plait_world_destroy()
 *
 * Returns PLAIT_OK; PLAIT_INVALID_ARGUMENT or PLAIT_INVALID_SETTING for options
 * that contradict each other, can't be, or differ between ranks that must agree;
 * PLAIT_UNSUPPORTED for ranks on several hosts; PLAIT_START_FAILED when ranks are
 * missing at the deadline (the sentence names them) or die meanwhile, when two
 * processes claim one number, or when nobody with the right job key answers;
 * PLAIT_OUT_OF_MEMORY, PLAIT_OUT_OF_RESOURCES, PLAIT_SYSTEM_ERROR.
 * Threads: any; one process may hold many worlds.
 */
PLAIT_API plait_status plait_world_create(const plait_world_options *options, plait_world **world);

/** This rank's number in the world, or -1 for a handle that is not a living world. */
PLAIT_API int plait_world_rank(const plait_world *world);
/** Number of ranks in the world, or -1. */
PLAIT_API int plait_world_size(const plait_world *world);
/** This rank's number among the ranks of its host (or of its process, for threads), or -1. */
PLAIT_API int plait_world_local_rank(const plait_world *world);
/** Number of ranks on this rank's host, or -1. */
PLAIT_API int plait_world_local_size(const plait_world *world);

/** The communicator of all ranks. The world's own: don't destroy it. NULL for a dead handle. */
PLAIT_API plait_comm *plait_world_comm(plait_world *world);

/**
 * Gives up: every operation under way or started later, on this rank and, as
 * soon as they notice, on all others, fails with PLAIT_ABORTED. `reason` (NULL
 * is fine) is what the sentences quote, at most 79 bytes of it. Returns at
 * once. Any thread. What is left is to destroy the world.
 */
PLAIT_API plait_status plait_world_abort(plait_world *world, const char *reason);

/**
 * Leaves the world and frees it, with all of its communicators. What still runs,
 * a blocking call in which another thread waits included, is given up to a
 * second in all to finish and then fails with PLAIT_ABORTED; with dead peers it
 * is not waited for. Works stay readable until they are released. NULL is fine.
 *
 * Returns PLAIT_OK; PLAIT_INVALID_USAGE from a callback, in a forked child, or
 * when the world is gone.
 * Threads: any. That no other thread begins a call on the world or its
 * communicators meanwhile is the caller's part, but for those that are safe at any time.
 */
PLAIT_API plait_status plait_world_destroy(plait_world *world);

/** The world's first fault, if any; fault->kind is PLAIT_FAULT_NONE otherwise. Any thread. */
PLAIT_API plait_status plait_world_fault(const plait_world *world, plait_fault *fault);

/** What a world has found out and chosen, for reports. Strings live as long as the world. */
typedef struct plait_world_facts {
    size_t struct_size;    /**< set to sizeof(plait_world_facts) by the caller before asking */
    const char *transport; /**< "shm" */
    const char *kernels;   /**< "avx512" */
    double line_ns;        /**< a cache line's way between two ranks' cores at start; 0 if not measured */
    int cores;             /**< cores that the ranks of this host may use between them */
    size_t staging_size;   /**< bytes of shared memory of each rank that the world's communicator stages through */
} plait_world_facts;

/** Fills `facts`; PLAIT_INVALID_ARGUMENT if its struct_size is not set. Any thread. */
PLAIT_API plait_status plait_world_get_facts(const plait_world *world, plait_world_facts *facts);

/**
 * Measures the way of a cache line, in nanoseconds, between ranks 0 and 1 of
 * `comm` (0 with one rank, where no memory is shared, or where they share a
 * core). A collective call that blocks: less than a millisecond when the ranks
 * have cores to themselves, 20 ms at most once all have come. Fails as collectives do.
 */
PLAIT_API plait_status plait_comm_measure_line(plait_comm *comm, double *line_ns);

/* ----------------------------------------------------------- communicators */

/** Options of a communicator; zero is the default. */
typedef struct plait_comm_options {
    size_t struct_size; /**< sizeof(plait_comm_options); 0 means this version's */
    int64_t timeout_ms; /**< deadline of an operation; 0: the parent's; < 0: none */
    const char *name;   /**< for logs and faults; up to 63 bytes are copied; NULL: "world/3" */
} plait_comm_options;

#define PLAIT_NO_COLOUR (-1) /**< "I am in no group of this split" */

/**
 * Splits `parent`: ranks that pass the same colour (>= 0) share a new
 * communicator, ordered by key, then by rank in the parent. A collective call
 * of all ranks of `parent`, which blocks. Opens no connection. A rank can be in
 * 1024 communicators at a time. One takes less than 64 KiB of a rank's memory and, from its first large
 * operation until it is destroyed, 512 KiB of shared memory more to stage through; one that is made
 * while 63 others are there stages through 16 KiB, which is slower.
 *
 *     plait_comm *row = NULL; // of a grid of ranks, `columns` wide
 *     plait_status status = plait_comm_split(plait_world_comm(world), rank / columns, rank, NULL, &row);
 *
 * options  NULL is fine
 * comm     set to the new communicator, or to NULL for PLAIT_NO_COLOUR; for plait_comm_destroy()
 *
 * Returns PLAIT_OK; PLAIT_INVALID_ARGUMENT; PLAIT_OUT_OF_RESOURCES when a member
 * is in 1024 already; what collectives return.
 * Threads: one thread at a time makes communicators of a world, whichever the parents.
 */
PLAIT_API plait_status plait_comm_split(plait_comm *parent, int colour, int key,
                                        const plait_comm_options *options, plait_comm **comm);

/**
 * Makes a communicator of some ranks of `parent`, called by those ranks only,
 * each with the same list and tag; calls that overlap in time need different
 * tags. Rank i of the new communicator is `ranks[i]` of the parent. Opens no
 * connection. Blocks until all members have called it. Returns and threads: as
 * plait_comm_split().
 *
 * ranks    `count` different ranks of `parent`, the caller's among them
 * tag      0 .. 2^31 - 1
 * options  NULL is fine
 * comm     set to the new communicator; for plait_comm_destroy()
 */
PLAIT_API plait_status plait_comm_group(plait_comm *parent, const int *ranks, int count, int tag,
                                        const plait_comm_options *options, plait_comm **comm);

/** This rank's number in `comm`, or -1. */
PLAIT_API int plait_comm_rank(const plait_comm *comm);
/** Number of ranks in `comm`, or -1. */
PLAIT_API int plait_comm_size(const plait_comm *comm);
/** The world rank of `rank` of `comm`, or -1. */
PLAIT_API int plait_comm_world_rank(const plait_comm *comm, int rank);
/** Changes the deadline of operations started from now on; < 0: none; 0 is refused. Any thread. */
PLAIT_API plait_status plait_comm_set_timeout(plait_comm *comm, int64_t timeout_ms);
/** As plait_world_abort(), for one communicator. */
PLAIT_API plait_status plait_comm_abort(plait_comm *comm, const char *reason);
/** The first fault that ended `comm`, or its latest mismatch. Any thread. */
PLAIT_API plait_status plait_comm_fault(const plait_comm *comm, plait_fault *fault);
/**
 * How the latest collective of `comm` was carried out: "direct-one-shot"; "none yet"
 * before the first, "" for a dead handle. Any thread; static.
 */
PLAIT_API const char *plait_comm_last_plan(const plait_comm *comm);

/**
 * Where the time of a communicator's collectives went on this rank, from the moment an operation is
 * taken up until its result is there. The four times add up to that. They only grow: take the difference
 * of two readings. Sends and receives are not counted; the bytes of collectives that go by messages
 * are moved by the transport, within the time waited for the sender.
 */
typedef struct plait_profile {
    size_t struct_size;  /**< set to sizeof(plait_profile) by the caller before asking */
    int64_t *awaited_ns; /**< set by the caller: room for a number for each rank of the communicator, what of
                                 waiting_ns was spent on that rank; or NULL */
    uint64_t operations; /**< collectives that succeeded while profiling was on */
    uint64_t chunks;     /**< that they were cut into; 0 for those so small that they ride in their notices */
    int64_t waiting_ns;  /**< for other ranks, a cache line's way from their cores included */
    int64_t copying_ns;  /**< in and out of staging */
    int64_t reducing_ns; /**< in kernels, reading what other ranks staged included */
    int64_t other_ns;    /**< the library's own: planning, bookkeeping, very small data */
    uint64_t copied_bytes;
    uint64_t reduced_bytes; /**< read by kernels, all operands together */
} plait_profile;

/**
 * Switches profiling of collectives that begin from now on. Local; off at first. Costs an operation some
 * 20 ns for each thing it turns to while on, and nothing to speak of while off.
 *
 *     plait_profile before = { .struct_size = sizeof before }, after = before;
 *     plait_comm_set_profiling(comm, 1);
 *     plait_comm_profile(comm, &before);
 *     ... collectives ...
 *     plait_comm_profile(comm, &after);
 *     printf("%lld ns waited\n", (long long)(after.waiting_ns - before.waiting_ns));
 *
 * Returns PLAIT_OK or PLAIT_OUT_OF_MEMORY. Any thread.
 */
PLAIT_API plait_status plait_comm_set_profiling(plait_comm *comm, int on);
/** Fills `profile`, also while profiling is off; zeros before it was ever on. Any thread. */
PLAIT_API plait_status plait_comm_profile(const plait_comm *comm, plait_profile *profile);

/**
 * Frees a communicator that a split or group made. Local: the other ranks may
 * do it later. What still runs is treated as by plait_world_destroy(), and so
 * are other threads. NULL is fine. PLAIT_INVALID_USAGE for the world's own.
 */
PLAIT_API plait_status plait_comm_destroy(plait_comm *comm);

/* ------------------------------------------------------------------ memory */

/*
 * Collectives of buffers that peers can read where they lie take a half to a fifth of the time: nothing is
 * staged. They do so when the buffers that matter lie in such memory on every rank; otherwise all is as
 * with private memory. The results have the same bits either way.
 *
 * While a collective runs, nobody writes to its input or touches its output, as always; peers read
 * both. After one has failed (but for PLAIT_MISMATCH) peers that are late may still read.
 * The four calls are local. Threads: any, at any time but during plait_world_destroy().
 * Fork: a child shares the memory with its parent and must not write to it.
 */

/**
 * Allocates memory that peers can read: zeros, in whole pages of 4096 bytes, aligned to one (to 2 MiB from
 * that size on, in huge pages where the system has them for shared memory), all there when the call
 * returns, near the core that runs it. At most 64 GiB a rank (1 TiB for all ranks of a host), less under
 * `ulimit -v`. Slow, like mmap(): allocate once, use often.
 *
 * size    bytes, at least 1
 * memory  set on PLAIT_OK; for plait_mem_free(); the end of the world frees it, too
 *
 * Returns PLAIT_OK, PLAIT_INVALID_ARGUMENT, PLAIT_INVALID_USAGE, PLAIT_OUT_OF_MEMORY.
 */
PLAIT_API plait_status plait_mem_alloc(plait_world *world, size_t size, void **memory);

/**
 * Frees what plait_mem_alloc() gave. NULL is fine. PLAIT_INVALID_USAGE, with nothing freed, while a work
 * or a call of another thread uses any of it (the sentence says which), while it is registered, for a
 * pointer into the middle, and for one that is freed or unknown.
 */
PLAIT_API plait_status plait_mem_free(plait_world *world, void *memory);

/**
 * Makes a caller's own buffer readable for peers, until plait_mem_deregister() or the end of the world. Its
 * pages are moved to shared memory; address and content stay. So no other thread may write to it during the
 * call, it takes the time of a copy, and the buffer must not be freed, unmapped or remapped before it is
 * deregistered. Memory of plait_mem_alloc() is fine already; registering it, or a part of it, only counts.
 * One buffer may be registered several times, and is deregistered as often.
 *
 * memory, size  whole pages (of 4096 bytes, mostly) of private, anonymous memory that can be read and
 *               written: from aligned_alloc(), posix_memalign(), mmap(). Not stacks, files, hugetlb pages
 *
 * Returns PLAIT_OK; PLAIT_UNSUPPORTED for memory that is not of that kind (the sentence says why);
 * PLAIT_INVALID_ARGUMENT, also where it overlaps with other registered memory; PLAIT_INVALID_USAGE, also
 * while a work uses it; PLAIT_OUT_OF_MEMORY; PLAIT_SYSTEM_ERROR. But on PLAIT_OK nothing has changed.
 */
PLAIT_API plait_status plait_mem_register(plait_world *world, void *memory, size_t size);

/**
 * Ends a registration, by the buffer's start: its memory is private again, with its content. Nobody may
 * write to it during the call. PLAIT_INVALID_USAGE, with nothing changed, while a work or a call of another
 * thread uses it, and for what is not registered.
 */
PLAIT_API plait_status plait_mem_deregister(plait_world *world, void *memory);

/* ----------------------------------------------------- types and operations */

/** Element types. Values are stable; 0 is none. Little-endian, of any alignment. */
typedef enum plait_type {
    PLAIT_I8 = 1,
    PLAIT_U8 = 2,
    PLAIT_I32 = 3,
    PLAIT_U32 = 4,
    PLAIT_I64 = 5,
    PLAIT_U64 = 6,
    PLAIT_F16 = 7,  /**< IEEE 754 binary16 */
    PLAIT_BF16 = 8, /**< the upper half of a binary32 */
    PLAIT_F32 = 9,
    PLAIT_F64 = 10,
    PLAIT_I16 = 11,
    PLAIT_U16 = 12,
    PLAIT_BOOL = 13,   /**< a byte; reductions read any but 0 as 1, and give 0 or 1 */
    PLAIT_C64 = 14,    /**< complex: two F32, the real part first */
    PLAIT_C128 = 15,   /**< two F64 */
    PLAIT_F8E4M3 = 16, /**< OCP E4M3 (float8_e4m3fn): up to 448, no infinity, one NaN of either sign */
    PLAIT_F8E5M2 = 17, /**< OCP E5M2 (float8_e5m2): the upper half of a binary16, up to 57344 */
    PLAIT_BYTES = 18,  /**< single bytes that are moved and never reduced */
    /* A value and its place: struct { float value; int32_t index; } and so on, without padding. */
    PLAIT_F32_I32 = 19,
    PLAIT_F64_I64 = 20,
    PLAIT_I32_I32 = 21,
    PLAIT_I64_I64 = 22
} plait_type;

/**
 * Reductions. Values are stable; 0 is none. Operands are combined in an order
 * that the plan fixes, the same on every rank: same inputs and plan, same bits.
 * docs/types.md has every rule by type; in short:
 *
 *            integers                       floats (8 and 16 bits: in float32, rounded once)
 *   SUM      modulo 2^bits                  a NaN comes out as the type's canonical NaN
 *   PRODUCT  modulo 2^bits                  likewise
 *   MIN MAX  exact                          a NaN operand makes the result NaN; -0 < +0
 *   AVERAGE  SUM, then divided by the ranks, the sum divided by the ranks,
 *            truncated toward zero          then rounded
 *   BIT_*    bit by bit                     refused
 *   AND OR XOR  any but 0 is true; 0 or 1   refused
 *
 * 8-bit floats: what is finite in float32 and beyond the largest becomes the largest. Bools: SUM and
 * MAX are OR, PRODUCT and MIN are AND, BIT_* as the logical ones, no AVERAGE. Complex: SUM, PRODUCT
 * and AVERAGE. Pairs: MIN_LOCATION and MAX_LOCATION alone. BYTES: none. An operation that is
 * not defined for a type is PLAIT_INVALID_ARGUMENT; plait_type_reduces() tells beforehand.
 */
typedef enum plait_op {
    PLAIT_SUM = 1,
    PLAIT_PRODUCT = 2,
    PLAIT_MIN = 3,
    PLAIT_MAX = 4,
    PLAIT_AVERAGE = 5,
    PLAIT_BIT_AND = 6,
    PLAIT_BIT_OR = 7,
    PLAIT_BIT_XOR = 8,
    PLAIT_AND = 9,
    PLAIT_OR = 10,
    PLAIT_XOR = 11,
    PLAIT_MIN_LOCATION = 12, /**< the least value with its index; of equal ones, or of NaNs, the lowest index */
    PLAIT_MAX_LOCATION = 13,
    PLAIT_LAST_MADE_OP = 0x7fffffff /**< none: the type holds what plait_op_create_...() gives */
} plait_op;

/** Operations that callers make have numbers from here on; each process has its own. */
#define PLAIT_FIRST_MADE_OP 1024

/**
 * Makes a sum of inputs that each rank multiplies first, each by a factor of its own: output[i] = sum over the
 * ranks of factor * input[i]. For all-reduce, reduce and reduce-scatter of `type`. Integers modulo 2^bits; 16-bit
 * floats are multiplied and summed in float32 and rounded once.
 *
 *     double share = my_samples / (double)all_samples; // a weighted average of gradients
 *     status = plait_op_create_premul(PLAIT_F64, &share, &op);
 *
 * factor  one element of `type`, a float for types of fewer bits; copied
 * op      set on PLAIT_OK only; for plait_op_destroy(). All ranks need such an operation for a call
 *
 * Returns PLAIT_OK, PLAIT_INVALID_ARGUMENT, PLAIT_OUT_OF_MEMORY, PLAIT_OUT_OF_RESOURCES (of 4096). Any thread.
 */
PLAIT_API plait_status plait_op_create_premul(plait_type type, const void *factor, plait_op *op);

/** An operation that is a caller's function. */
typedef struct plait_function_op {
    size_t struct_size; /**< sizeof(plait_function_op); 0 means this version's */
    const char *name;   /**< for faults; alike on all ranks; up to 31 bytes are copied; NULL: "a function" */
    /**
     * right[i] = left[i] op right[i], for `count` elements of `type`, which are aligned and do not overlap; the
     * left ones are of lower ranks where the order is kept. Returns 0, or an error number of its own. It runs
     * on the thread that drives the world, several times a call, and must not call Plait, wait or throw.
     */
    int (*function)(void *context, const void *left, void *right, size_t count, plait_type type);
    void *context;   /**< handed to the function; lives until the operation is destroyed and its calls are done */
    int commutative; /**< 0: ranks are folded from left to right, in their order, at some cost for large messages */
} plait_function_op;

/**
 * Makes an operation of a function, which must be associative, for all-reduce, reduce and reduce-scatter of any
 * type. When it returns an error on a rank, that call fails on all ranks with PLAIT_CALLER_FAILED: the sentence
 * names the rank, the operation and the error, outputs are undefined, the communicator goes on. Calls with
 * operations of other names are mismatches. In C++, plait::guard() below turns what is thrown into an error.
 *
 * op  set on PLAIT_OK only; for plait_op_destroy()
 *
 * Returns as plait_op_create_premul(), and PLAIT_UNSUPPORTED for options of a later version. Any thread.
 */
PLAIT_API plait_status plait_op_create_function(const plait_function_op *options, plait_op *op);

/** Ends an operation that a caller made; calls under way keep it. PLAIT_INVALID_ARGUMENT for any other. Any thread. */
PLAIT_API plait_status plait_op_destroy(plait_op op);

/** Bytes of an element, or 0 for an unknown type. */
PLAIT_API size_t plait_type_size(plait_type type);
/** "bf16", or "?" for an unknown type. Static. */
PLAIT_API const char *plait_type_name(plait_type type);
/** "sum", or "?" for an unknown operation or a caller's. Static. */
PLAIT_API const char *plait_op_name(plait_op op);
/** 1 if reductions of `type` know `op`, 0 if not or if either is unknown. Any thread. */
PLAIT_API int plait_type_reduces(plait_type type, plait_op op);

/* ------------------------------------------------------------- collectives */

/*
 * Common to all collectives
 *
 * work   NULL: the call returns when the operation is complete on this rank.
 *        Otherwise the call starts the operation and gives a work: leave the
 *        buffers alone until it is done. Works of one communicator run in the
 *        order of their calls.
 * Buffers may have any alignment. A buffer of 0 bytes may be NULL. Input and
 * output may be the same where "in place" says so and must not overlap otherwise.
 * Counts above 2^31 are fine; counts whose bytes exceed PTRDIFF_MAX are refused.
 *
 * Returns PLAIT_OK, or: PLAIT_INVALID_ARGUMENT, PLAIT_INVALID_USAGE (a blocking
 * call from a callback is one), PLAIT_OUT_OF_MEMORY before anything was sent; PLAIT_MISMATCH when another
 * rank made a different call (it fails on all ranks, outputs untouched, the
 * communicator goes on), and PLAIT_OUT_OF_MEMORY likewise when a rank has no memory for the staging
 * that a communicator's first large operation needs; PLAIT_TIMED_OUT, PLAIT_PEER_LOST, PLAIT_ABORTED, after
 * which outputs are undefined and the communicator can only be destroyed. With
 * a work, the last four come out of plait_work_wait() and plait_work_test().
 */

/**
 * output[i] on every rank = op over all ranks of input[i]; `count` elements.
 * In place: output == input. Plans: direct one-shot and two-phase (through
 * shared memory), recursive doubling, ring, binomial tree.
 *
 *     plait_work *work = NULL;
 *     plait_status status = plait_allreduce(comm, bucket, bucket, count, PLAIT_BF16, PLAIT_AVERAGE, &work);
 *     ... compute ...
 *     if (status == PLAIT_OK)
 *         status = plait_work_wait(work, -1);
 *     plait_work_release(work);
 */
PLAIT_API plait_status plait_allreduce(plait_comm *comm, const void *input, void *output, size_t count,
                                       plait_type type, plait_op op, plait_work **work);

/**
 * As allreduce, with the result on `root` only. `output` is ignored elsewhere and may
 * be NULL there. In place: output == input on the root.
 */
PLAIT_API plait_status plait_reduce(plait_comm *comm, const void *input, void *output, size_t count,
                                    plait_type type, plait_op op, int root, plait_work **work);

/** Copies `count` elements at `data` on `root` to `data` on all other ranks. */
PLAIT_API plait_status plait_broadcast(plait_comm *comm, void *data, size_t count, plait_type type, int root,
                                       plait_work **work);

/**
 * output = input of rank 0, input of rank 1, ...: `count` elements from each,
 * `count` * ranks in `output`. In place: input == output + rank * count.
 */
PLAIT_API plait_status plait_allgather(plait_comm *comm, const void *input, void *output, size_t count,
                                       plait_type type, plait_work **work);

/**
 * output[i] = op over all ranks of input[rank * count + i]: `count` * ranks
 * elements in `input`, `count` in `output`. In place: output == input + rank * count.
 */
PLAIT_API plait_status plait_reduce_scatter(plait_comm *comm, const void *input, void *output, size_t count,
                                            plait_type type, plait_op op, plait_work **work);

/**
 * As allgather, with `output` on `root` only (ignored elsewhere, may be NULL).
 * In place on the root: input == output + root * count.
 */
PLAIT_API plait_status plait_gather(plait_comm *comm, const void *input, void *output, size_t count,
                                    plait_type type, int root, plait_work **work);

/**
 * Block r of `input` on `root` goes to `output` of rank r: `count` elements to
 * each. `input` is ignored elsewhere and may be NULL there. In place on the
 * root: output == input + root * count.
 */
PLAIT_API plait_status plait_scatter(plait_comm *comm, const void *input, void *output, size_t count,
                                     plait_type type, int root, plait_work **work);

/**
 * Block r of `input` goes to rank r, whose `output` has this rank's block at
 * place `rank`: `count` elements each way to each rank. In place: output == input.
 */
PLAIT_API plait_status plait_alltoall(plait_comm *comm, const void *input, void *output, size_t count,
                                      plait_type type, plait_work **work);

/**
 * output[i] on rank r = op over ranks 0 .. r of input[i], folded in the order of ranks; `count` elements. No
 * PLAIT_AVERAGE. In place: output == input. Plans: direct one-shot and running (through shared memory), chain.
 */
PLAIT_API plait_status plait_scan(plait_comm *comm, const void *input, void *output, size_t count,
                                  plait_type type, plait_op op, plait_work **work);

/** As scan, over ranks 0 .. r - 1: without the rank's own input. `output` of rank 0 is ignored and may be NULL. */
PLAIT_API plait_status plait_exscan(plait_comm *comm, const void *input, void *output, size_t count,
                                    plait_type type, plait_op op, plait_work **work);

/*
 * V-forms: the same with blocks that differ in length
 *
 * counts         elements of each block, one a rank; 0 is fine
 * displacements  where each block begins in its buffer, in elements; NULL: blocks follow each other. Blocks of
 *                the output must not overlap; what lies between them is not touched. Of a block of 0 it is not read
 *
 * Both are read during the call only. In place means that a rank's own block is where it belongs. Ranks
 * that disagree on counts get PLAIT_MISMATCH on all ranks, and the sentence names the counts: allgatherv
 * and reduce_scatterv take the same counts on all ranks; the others compare what each rank sends with what
 * its receiver expects, in an exchange of counts before (one small all-gather). Buffers and counts that mean
 * nothing on a rank may be NULL there.
 */

/** As allgather; rank r gives counts[r] elements, so `count` is counts[rank]. In place: input is its block of output. */
PLAIT_API plait_status plait_allgatherv(plait_comm *comm, const void *input, size_t count, void *output,
                                        const size_t *counts, const size_t *displacements, plait_type type,
                                        plait_work **work);

/**
 * As reduce_scatter; block r of `input` has counts[r] elements, blocks follow each other, and `output` takes
 * counts[rank]. In place: output is its block of input.
 */
PLAIT_API plait_status plait_reduce_scatterv(plait_comm *comm, const void *input, void *output,
                                             const size_t *counts, plait_type type, plait_op op,
                                             plait_work **work);

/** As gather; each rank gives `count` elements, and counts[r] on the root says how many rank r gives. */
PLAIT_API plait_status plait_gatherv(plait_comm *comm, const void *input, size_t count, void *output,
                                     const size_t *counts, const size_t *displacements, plait_type type,
                                     int root, plait_work **work);

/** As scatter; rank r takes counts[r] of the root's elements, which it says by its own `count`. */
PLAIT_API plait_status plait_scatterv(plait_comm *comm, const void *input, const size_t *counts,
                                      const size_t *displacements, void *output, size_t count,
                                      plait_type type, int root, plait_work **work);

/**
 * As alltoall; this rank sends input_counts[r] elements to rank r and takes output_counts[r] from it.
 * In place: input == output, with the same counts and displacements both ways.
 *
 *     size_t sends[2] = { 3, 5 }, takes[2] = { 3, 4 }; // on rank 0 of 2: 5 go to rank 1, 4 come from it
 *     status = plait_alltoallv(comm, rows, sends, NULL, more_rows, takes, NULL, PLAIT_F32, NULL);
 */
PLAIT_API plait_status plait_alltoallv(plait_comm *comm, const void *input, const size_t *input_counts,
                                       const size_t *input_displacements, void *output,
                                       const size_t *output_counts, const size_t *output_displacements,
                                       plait_type type, plait_work **work);

/** Returns when every rank has called it. */
PLAIT_API plait_status plait_barrier(plait_comm *comm, plait_work **work);

/* ---------------------------------------------------------- point to point */

#define PLAIT_ANY_SOURCE (-1)

/**
 * Sends `count` elements to `peer`. Messages between two ranks with one tag
 * arrive in the order sent; messages of different tags are independent. Sends are not
 * collectives and may run beside them. A small message is taken over at once;
 * a large one (above 8 KiB) completes when the peer receives it.
 *
 *     if (rank == 0)
 *         status = plait_send(comm, data, 100, PLAIT_F64, 1, 7, NULL);
 *     if (rank == 1)
 *         status = plait_recv(comm, data, 100, PLAIT_F64, 0, 7, NULL, &received, NULL);
 *
 * peer  another rank of `comm`
 * tag   0 .. 2^31 - 1
 * work  NULL: returns when `data` may be used again; else as for collectives
 *
 * Returns what collectives return but PLAIT_MISMATCH: PLAIT_PEER_LOST when `peer`
 * died or left. A failure of any rank ends the communicator's messages, too.
 */
PLAIT_API plait_status plait_send(plait_comm *comm, const void *data, size_t count, plait_type type, int peer,
                                  int tag, plait_work **work);

/**
 * Receives a message of at most `count` elements with `tag` from `peer` or
 * from PLAIT_ANY_SOURCE. Sizes are matched, types are not: n bytes count as
 * n / plait_type_size(type) elements.
 *
 * source, received  of a blocking call: the rank whose message came, and its
 *                   elements; NULL is fine. With a work they stay as they are,
 *                   and plait_work_source() and plait_work_count() tell
 *
 * Returns as plait_send(), and PLAIT_TRUNCATED: the message was longer; it is
 * consumed, the buffer is untouched and the communicator goes on. A receive from
 * any source fails with PLAIT_PEER_LOST as soon as one rank of the communicator
 * has died, for that may have been the sender, or when all others have left.
 */
PLAIT_API plait_status plait_recv(plait_comm *comm, void *data, size_t count, plait_type type, int peer,
                                  int tag, int *source, size_t *received, plait_work **work);

/* ------------------------------------------------------------------- works */

/** The state of a work: PLAIT_IN_PROGRESS, PLAIT_OK or a failure. Never waits, makes no progress. */
PLAIT_API plait_status plait_work_status(const plait_work *work);

/** Makes what progress can be made now, then as plait_work_status(). */
PLAIT_API plait_status plait_work_test(plait_work *work);

/**
 * Waits until the work is done and returns its status.
 *
 * timeout_ms  < 0: no limit but the operation's own deadline; 0: as
 *             plait_work_test(). When it passes, PLAIT_IN_PROGRESS comes back and the work goes on.
 *
 * Returns also PLAIT_INVALID_USAGE: from a callback, where nothing may wait, for a
 * work that is not done.
 */
PLAIT_API plait_status plait_work_wait(plait_work *work, int64_t timeout_ms);

/**
 * Called when a work is done, on the thread that finished it. It may start works,
 * ask, and release works; blocking calls, waits and destroys return
 * PLAIT_INVALID_USAGE there.
 */
typedef void (*plait_work_callback)(void *context, plait_work *work, plait_status status);

/**
 * Has `callback` called once when the work is done; at once, on this thread,
 * if it is done already. One callback a work: a second call returns PLAIT_INVALID_USAGE.
 */
PLAIT_API plait_status plait_work_on_done(plait_work *work, plait_work_callback callback, void *context);

/** The rank of the communicator whose message a receive got; -1 before, and for other works. */
PLAIT_API int plait_work_source(const plait_work *work);
/** Elements that a receive got; 0 before, and for other works. */
PLAIT_API size_t plait_work_count(const plait_work *work);
/** The fault that failed the work; kind PLAIT_FAULT_NONE if there is none. */
PLAIT_API plait_status plait_work_fault(const plait_work *work, plait_fault *fault);

/** Lets go of a work. An unfinished operation goes on to its end all the same. NULL is fine. */
PLAIT_API void plait_work_release(plait_work *work);

/* ----------------------------------------------- groups and prepared calls */

/**
 * Opens a group: the collectives, sends and receives that this thread calls from here on are collected, and
 * plait_group_end() starts them together. They may be of several communicators and worlds. Sends and receives
 * of one group meet in any order, so ranks that exchange need not agree on who sends first; collectives of one
 * communicator keep the order of their calls. Groups nest: only the outermost end starts anything.
 *
 *     plait_group_begin();
 *     for (int peer = 0; peer < ranks; peer++) {
 *         if (peer == rank)
 *             continue;
 *         plait_send(comm, out[peer], count, PLAIT_F32, peer, 0, NULL);
 *         plait_recv(comm, in[peer], count, PLAIT_F32, peer, 0, NULL, NULL, NULL);
 *     }
 *     status = plait_group_end(NULL); // tells of calls that were refused, too
 *
 * Inside a group
 * - a call checks its arguments and returns at once, PLAIT_OK or why it was refused; a group with a refused
 *   call starts nothing on this rank (its peers see that at their deadlines) and its end returns that refusal;
 * - buffers, and a receive's `source` and `received`, stay in place until the group is done; those are set then;
 * - a call may be given a work of its own; it is under way once the group has started;
 * - what waits (waits for a work that is not done, splits, destroys, the start of a world) is refused with
 *   PLAIT_INVALID_USAGE. A group that its thread or callback leaves open starts nothing, with a log line.
 *
 * Returns PLAIT_OK, PLAIT_OUT_OF_MEMORY. Threads: any; a group belongs to its thread.
 */
PLAIT_API plait_status plait_group_begin(void);

/**
 * Ends the innermost group; the outermost one starts its calls. They can wait for each other on other ranks,
 * but all of them are under way before any is waited for.
 *
 * work  NULL: returns when all calls are done. Otherwise it is set to one work that is done when all calls are;
 *       its status and fault are those of the first that failed, while the others go on. NULL at inner ends.
 *
 * Returns PLAIT_OK; PLAIT_INVALID_USAGE without an open group, or when a communicator is gone meanwhile; what a
 * call was refused with; what the calls return.
 */
PLAIT_API plait_status plait_group_end(plait_work **work);

typedef struct plait_prepared plait_prepared;

/**
 * Ends a group without starting it, for plait_prepared_start() to start any number of times with the same
 * arguments and buffers; what costs a call time before its first byte moves is paid once. Other ranks may
 * make the same calls one by one. Its calls have no works of their own. Not for a group inside of another.
 *
 *     plait_group_begin();
 *     plait_allreduce(comm, gradients, gradients, count, PLAIT_F32, PLAIT_AVERAGE, NULL);
 *     status = plait_group_prepare(&prepared);
 *     for (int step = 0; step < steps && status == PLAIT_OK; step++) {
 *         ... compute ...
 *         status = plait_prepared_start(prepared, NULL);
 *     }
 *     plait_prepared_release(prepared);
 *
 * prepared  set on PLAIT_OK only; for plait_prepared_release()
 *
 * Returns as plait_group_end(); the group is closed in any case.
 */
PLAIT_API plait_status plait_group_prepare(plait_prepared **prepared);

/**
 * Starts prepared calls, as if they were called now. Allocates nothing after the first time.
 *
 * work  as for plait_group_end()
 *
 * Returns as plait_group_end(), and PLAIT_INVALID_USAGE while they still run from the former start.
 * Threads: one at a time, as for their communicators.
 */
PLAIT_API plait_status plait_prepared_start(plait_prepared *prepared, plait_work **work);

/** Frees prepared calls; what still runs of them goes on to its end. NULL is fine. */
PLAIT_API void plait_prepared_release(plait_prepared *prepared);

/* --------------------------------------------------------------------- log */

typedef enum plait_log_level {
    PLAIT_LOG_ERROR = 1,
    PLAIT_LOG_WARN = 2,
    PLAIT_LOG_INFO = 3,
    PLAIT_LOG_DEBUG = 4
} plait_log_level;

/** Takes one line, without a line end. May be called from any thread, several at a time. */
typedef void (*plait_log_sink)(void *context, plait_log_level level, const char *line);

/**
 * Sends log lines to `sink` instead of stderr; NULL restores stderr. A line under
 * way on another thread may still reach the former sink. Any thread.
 * PLAIT_LOG=error|warn|info|debug sets what is logged; warn by default.
 */
PLAIT_API void plait_log_set_sink(plait_log_sink sink, void *context);

#ifdef __cplusplus
}

namespace plait {

/** What guard() returns for a function that threw. */
enum { function_threw = -1000 };

/**
 * Runs `function`, which returns an int, and turns an exception into an error, for plait_function_op:
 *
 *     int add(void *, const void *left, void *right, size_t count, plait_type)
 *     {
 *         return plait::guard([&] { return add_matrices(left, right, count); });
 *     }
 */
template <typename Function> int guard(Function function) noexcept
{
    try {
        return function();
    } catch (...) {
        return function_threw;
    }
}

} // namespace plait
#endif
#endif
