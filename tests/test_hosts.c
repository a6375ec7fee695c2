/* Worlds over the network: ranks of one host that are told to use it, and ranks on several made-up hosts,
 * which find that out themselves. */
#include "check.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"
#include "hosts.h"
#include "ranks.h"
#include "streams.h"

/* How the ranks are spread. */
struct spread {
    int hosts;        /* 0: all here, with PLAIT_TRANSPORT=ofi */
    int per_host;     /* ranks; a few less on the last one if */
    int ranks;        /* is not 0 */
    const char *plan; /* NULL: the choice is Plait's */
    bool slow;        /* the network is said to be slow, so that plans spare it at any price */
};

static const struct spread here = { .hosts = 0 };
static const struct spread two_by_one = { .hosts = 2, .per_host = 1 },
                           two_by_two = { .hosts = 2, .per_host = 2 },
                           three_by_one = { .hosts = 3, .per_host = 1 };
/* Uneven, and by plans that go by hosts whatever the size. */
static const struct spread two_and_one = { .hosts = 2, .per_host = 2, .ranks = 3, .slow = true },
                           by_doubling = { 3, 2, 5, "hierarchy-doubling", false },
                           by_ring = { 3, 2, 5, "hierarchy-ring", false },
                           by_halving = { 2, 2, 4, "hierarchy-halving", false },
                           by_tree = { 3, 2, 5, "hierarchy-tree", false },
                           by_chain = { 2, 2, 4, "hierarchy-chain", false },
                           halving = { 3, 1, 3, "halving", false };

static const struct spread *spread_of(const struct rank *rank)
{
    return rank->context;
}

/* Creates the rank's world where it belongs. */
static bool come(struct rank *rank)
{
    const struct spread *spread = spread_of(rank);
    plait_world_options options = rank_options(rank);
    if (spread->slow)
        setenv("PLAIT_NETWORK_MBITS", "100", 1);
    if (spread->hosts == 0)
        options.transport = "ofi";
    else if (!rank_check(rank, hosts_enter(rank->number / spread->per_host), "can't enter its host"))
        return false;
    rank_doing(rank, "creating the world");
    if (!rank_ok(rank, plait_world_create(&options, &rank->world), "creating the world"))
        return false;
    rank->comm = plait_world_comm(rank->world);
    return true;
}

static void run_facts(struct rank *rank)
{
    const struct spread *spread = spread_of(rank);
    plait_world_facts facts = { .struct_size = sizeof facts };
    if (!come(rank))
        return;
    int per_host = spread->hosts == 0 ? rank->size : spread->per_host;
    rank_ok(rank, plait_world_get_facts(rank->world, &facts), "asking for facts");
    rank_check(rank, strcmp(facts.transport, spread->hosts == 0 ? "ofi" : "shm+ofi") == 0, "transport %s",
               facts.transport);
    rank_check(rank, plait_world_local_size(rank->world) == per_host, "%d ranks on this host",
               plait_world_local_size(rank->world));
    rank_check(rank, plait_world_local_rank(rank->world) == rank->number % per_host, "local rank %d",
               plait_world_local_rank(rank->world));
}

static void run_everything(struct rank *rank)
{
    if (come(rank))
        stream_everything(rank);
}

static void run_small(struct rank *rank)
{
    if (come(rank))
        stream_small(rank);
}

static void run_large(struct rank *rank)
{
    if (come(rank))
        stream_large(rank);
}

/* Calls of the kinds that plans go by hosts for: small ones, odd ones, and some of several chunks. */
static void run_planned(struct rank *rank)
{
    static const enum call_kind kinds[] = { CALL_ALLREDUCE, CALL_REDUCE,         CALL_BROADCAST,
                                            CALL_ALLGATHER, CALL_REDUCE_SCATTER, CALL_BARRIER };
    const int calls = 2 * test_settings()->scale;
    struct trial trial;
    if (!come(rank) ||
        !rank_check(rank, trial_open(&trial, DATA_MOST_SIZE * 200000, rank->size), "no memory"))
        return;
    for (int i = 0; i < calls && !rank_failed(rank); i++) {
        const uint64_t random =
            mix(test_settings()->seed * 1000003 + (uint64_t)(i * RANKS_MOST + rank->size));
        struct call call = { .kind = kinds[(size_t)i % LENGTH(kinds)],
                             .root = (int)(random >> 24 & 0xff) % rank->size,
                             .count = (random >> 33) % (i % 13 == 0 ? 200000
                                                        : i % 2     ? 20
                                                                    : 5000) };
        data_choose(random, call_reduces(call.kind), &call.type, &call.op);
        struct layout layout = layout_drawn(call.kind, mix(random));
        trial_run(rank, &trial, rank->comm, &call, &layout, random);
    }
    trial_close(&trial);
}

static void run_repeats(struct rank *rank)
{
    if (come(rank))
        stream_repeats(rank);
}

/* Bytes that have left this host. */
static double bytes_sent(void)
{
    char line[512];
    unsigned long long sent = 0;
    FILE *file = fopen("/proc/thread-self/net/dev", "r"); /* /sys shows the host that it was mounted on */
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        sscanf(line, " eth0: %*u %*u %*u %*u %*u %*u %*u %*u %llu", &sent);
    if (file != NULL)
        fclose(file);
    return (double)sent;
}

enum { VOLUME_BLOCK = 3 << 20, VOLUME_TURNS = 2 }; /* bytes; calls */

static plait_status call_by_name(struct rank *rank, const char *name, char *in, char *out)
{
    size_t count = VOLUME_BLOCK / sizeof(float);
    if (strcmp(name, "all-reduce") == 0)
        return plait_allreduce(rank->comm, in, out, count, PLAIT_F32, PLAIT_SUM, NULL);
    if (strcmp(name, "all-gather") == 0)
        return plait_allgather(rank->comm, in, out, count, PLAIT_F32, NULL);
    if (strcmp(name, "reduce-scatter") == 0)
        return plait_reduce_scatter(rank->comm, in, out, count, PLAIT_F32, PLAIT_SUM, NULL);
    if (strcmp(name, "reduce") == 0)
        return plait_reduce(rank->comm, in, out, count, PLAIT_F32, PLAIT_SUM, 0, NULL);
    return plait_broadcast(rank->comm, out, count, PLAIT_F32, 0, NULL);
}

/* Bytes that leave a host in such a call, where it sends no more than as if it were one rank. */
static double least_sent(const struct rank *rank, const char *name)
{
    int per_host = spread_of(rank)->per_host, host = rank->number / per_host;
    int mine = host == 0 ? per_host : rank->size - per_host, others = rank->size - mine;
    double blocks = 1; /* of two hosts: half of a block there, and half of the result back */
    if (strcmp(name, "all-gather") == 0)
        blocks = mine;
    if (strcmp(name, "reduce-scatter") == 0)
        blocks = others;
    if (strcmp(name, "reduce") == 0)
        blocks = host != 0;
    if (strcmp(name, "broadcast") == 0)
        blocks = host == 0;
    return blocks * VOLUME_BLOCK;
}

/* What goes over the link of two hosts by default is what one rank each would have to send. */
static void run_volumes(struct rank *rank)
{
    static const char *const names[] = { "all-reduce", "all-gather", "reduce-scatter", "broadcast",
                                         "reduce" };
    if (!come(rank))
        return;
    size_t size = (size_t)rank->size * VOLUME_BLOCK;
    char *in = calloc(1, size), *out = calloc(1, size);
    for (size_t i = 0; i < LENGTH(names); i++) {
        rank_doing(rank, "%s", names[i]);
        rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
        rank_meet(rank);
        double before = bytes_sent();
        rank_meet(rank);
        for (int turn = 0; turn < VOLUME_TURNS; turn++)
            rank_ok(rank, call_by_name(rank, names[i], in, out), names[i]);
        char plan[64];
        snprintf(plan, sizeof plan, "%s", plait_comm_last_plan(rank->comm));
        rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
        rank_meet(rank);
        double sent = (bytes_sent() - before) / VOLUME_TURNS, least = least_sent(rank, names[i]);
        rank_check(rank, sent >= 0.95 * least && sent <= 1.1 * least + 100000,
                   "%s by %s: %.0f bytes left the host of rank %d, and %.0f need to", names[i], plan, sent,
                   rank->number, least);
    }
    free(in);
    free(out);
}

/* Ranks of one host share memory in a communicator of their own. */
static void run_split(struct rank *rank)
{
    const struct spread *spread = spread_of(rank);
    plait_comm *inside = NULL;
    int value = rank->number, sum = 0, first = rank->number / spread->per_host * spread->per_host, wanted = 0;
    if (!come(rank))
        return;
    rank_ok(rank, plait_comm_split(rank->comm, rank->number / spread->per_host, 0, NULL, &inside), "split");
    rank_ok(rank, plait_allreduce(inside, &value, &sum, 1, PLAIT_I32, PLAIT_SUM, NULL), "all-reduce inside");
    for (int i = 0; i < spread->per_host; i++)
        wanted += first + i;
    rank_check(rank, sum == wanted, "the sum inside is %d", sum);
    rank_check(rank, strncmp(plait_comm_last_plan(inside), "direct", 6) == 0, "inside, the plan is %s",
               plait_comm_last_plan(inside));
    rank_ok(rank, plait_comm_destroy(inside), "destroying it");
    rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
}

/* Every rank sends rank 0 some messages, small and large, which takes them from anybody. */
static void run_any_source(struct rank *rank)
{
    enum { MESSAGES = 20, MOST = 60000 };
    static unsigned char bytes[MOST];
    int counts[RANKS_MOST] = { 0 };
    if (!come(rank))
        return;
    for (int i = 0; i < MESSAGES && rank->number > 0; i++) {
        size_t size = i % 2 ? (size_t)i : MOST - (size_t)i;
        bytes[0] = (unsigned char)i;
        rank_ok(rank, plait_send(rank->comm, bytes, size + 1, PLAIT_U8, 0, 7, NULL), "send");
    }
    for (int i = 0; i < MESSAGES * (rank->size - 1) && rank->number == 0; i++) {
        int source = -1;
        size_t received = 0;
        if (!rank_ok(rank,
                     plait_recv(rank->comm, bytes, MOST + 1, PLAIT_U8, PLAIT_ANY_SOURCE, 7, &source,
                                &received, NULL),
                     "receive"))
            return;
        rank_check(rank, bytes[0] == counts[source], "message %d of rank %d came after %d", bytes[0], source,
                   counts[source]);
        counts[source]++;
    }
    rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
}

/* A call that differs fails on all ranks, and the next one succeeds. */
static void run_mismatch(struct rank *rank)
{
    if (!come(rank))
        return;
    for (size_t count = 3; count < 100000; count *= 60) {
        float *data = calloc(count + 1, sizeof *data), *sum = malloc((count + 1) * sizeof *sum);
        memset(sum, 0xee, (count + 1) * sizeof *sum);
        size_t mine = count + (rank->number == 1);
        rank_doing(rank, "an all-reduce of %zu that differs", count);
        if (!rank_status(rank, plait_allreduce(rank->comm, data, sum, mine, PLAIT_F32, PLAIT_SUM, NULL),
                         PLAIT_MISMATCH, "an all-reduce that differs"))
            return;
        char one[32], other[32];
        snprintf(one, sizeof one, "of %zu f32", count);
        snprintf(other, sizeof other, "of %zu f32", count + 1);
        rank_says(rank, one);
        rank_says(rank, other);
        for (size_t i = 0; i < (count + 1) * sizeof *sum; i++)
            if (((unsigned char *)sum)[i] != 0xee) {
                rank_check(rank, false, "byte %zu of the output was touched", i);
                break;
            }
        rank_doing(rank, "an all-reduce of %zu that is alike", count);
        rank_ok(rank, plait_allreduce(rank->comm, data, sum, count, PLAIT_F32, PLAIT_SUM, NULL),
                "the next one");
        free(data);
        free(sum);
    }
}

/* Rank 1 ends so while the others wait for it. */
enum how { DIES, LEAVES, ABORTS };

static void run_end(struct rank *rank, enum how how, plait_status wanted, plait_fault_kind kind)
{
    float value = 1;
    plait_fault fault = { .struct_size = sizeof fault };
    if (!come(rank))
        return;
    rank_ok(rank, plait_allreduce(rank->comm, &value, &value, 1, PLAIT_F32, PLAIT_SUM, NULL), "all-reduce");
    if (rank->number == 1) {
        sleep_ms(100);
        if (how == DIES)
            raise(SIGKILL);
        if (how == ABORTS) {
            plait_comm_abort(rank->comm, "for a test");
            sleep_ms(500);
        }
        plait_world_destroy(rank->world);
        rank->world = NULL;
        return;
    }
    int64_t before = now_ns();
    rank_doing(rank, "an all-reduce without rank 1");
    rank_status(rank, plait_allreduce(rank->comm, &value, &value, 1, PLAIT_F32, PLAIT_SUM, NULL), wanted,
                "an all-reduce without rank 1");
    rank_check(rank, now_ns() - before < 5000000000, "that took %lld ms",
               (long long)(now_ns() - before) / 1000000);
    rank_ok(rank, plait_comm_fault(rank->comm, &fault), "asking for the fault");
    rank_check(rank, fault.kind == kind, "the fault is of kind %d", (int)fault.kind);
    rank_check(rank, fault.culprit == 1, "the culprit is %d", fault.culprit);
}

static void run_leaving(struct rank *rank)
{
    run_end(rank, LEAVES, PLAIT_PEER_LOST, PLAIT_FAULT_LEFT);
}

static void run_abort(struct rank *rank)
{
    run_end(rank, ABORTS, PLAIT_ABORTED, PLAIT_FAULT_ABORTED);
}

static void run_dying(struct rank *rank)
{
    run_end(rank, DIES, PLAIT_PEER_LOST, PLAIT_FAULT_DIED);
}

static int ranks_of(const struct spread *spread)
{
    if (spread->ranks > 0)
        return spread->ranks;
    return spread->hosts == 0 ? 3 : spread->hosts * spread->per_host;
}

static void a_death_is_named(void **state)
{
    const struct spread *spread = *state;
    struct ranks_setup setup = { .way = RANKS_FILE, .size = ranks_of(spread), .bare = true };
    struct ranks *ranks = ranks_start(&setup, run_dying, spread);
    ranks_excuse(ranks, 1);
    ranks_finish(ranks);
}

/* Rank 2 does not come to a call: those who wait name it. */
static void run_absent(struct rank *rank)
{
    float value = 1;
    plait_fault fault = { .struct_size = sizeof fault };
    if (!come(rank))
        return;
    rank_ok(rank, plait_comm_set_timeout(rank->comm, 1500), "setting the timeout");
    if (rank->number == 2) {
        sleep_ms(3000);
        return;
    }
    rank_doing(rank, "an all-reduce that rank 2 does not enter");
    rank_status(rank, plait_allreduce(rank->comm, &value, &value, 1, PLAIT_F32, PLAIT_SUM, NULL),
                PLAIT_TIMED_OUT, "an all-reduce that rank 2 does not enter");
    rank_ok(rank, plait_comm_fault(rank->comm, &fault), "asking for the fault");
    rank_check(rank, fault.kind == PLAIT_FAULT_NOT_ENTERED && fault.culprit == 2,
               "the fault is of kind %d by rank %d", (int)fault.kind, fault.culprit);
}

static const struct {
    const char *name;
    rank_function function;
    const struct spread *spread;
} cases[] = {
    { "facts, one host", run_facts, &here },
    { "everything, one host", run_everything, &here },
    { "small ones in a row, one host", run_small, &here },
    { "megabytes, one host", run_large, &here },
    { "messages from anybody, one host", run_any_source, &here },
    { "calls that differ, one host", run_mismatch, &here },
    { "a rank leaves, one host", run_leaving, &here },
    { "a rank aborts, one host", run_abort, &here },
    { "a rank does not come, one host", run_absent, &here },
    { "facts, 2 hosts", run_facts, &two_by_one },
    { "facts, 2 hosts of 2 ranks", run_facts, &two_by_two },
    { "everything, 2 hosts of 2 ranks", run_everything, &two_by_two },
    { "everything, 3 hosts", run_everything, &three_by_one },
    { "calls by hierarchy-doubling", run_planned, &by_doubling },
    { "calls by hierarchy-halving", run_planned, &by_halving },
    { "calls by hierarchy-ring", run_planned, &by_ring },
    { "calls by hierarchy-tree", run_planned, &by_tree },
    { "calls by hierarchy-chain", run_planned, &by_chain },
    { "calls by halving", run_planned, &halving },
    { "the same bits by hierarchy-ring", run_repeats, &by_ring },
    { "megabytes, 2 hosts", run_large, &two_by_one },
    { "megabytes by hierarchy-ring", run_large, &by_ring },
    { "bytes between 2 hosts of 2 ranks", run_volumes, &two_by_two },
    { "bytes between 2 and 1 ranks", run_volumes, &two_and_one },
    { "bytes between 2 hosts", run_volumes, &two_by_one },
    { "splitting, 2 hosts of 2 ranks", run_split, &two_by_two },
    { "messages from anybody, 2 hosts of 2 ranks", run_any_source, &two_by_two },
    { "calls that differ, 2 hosts of 2 ranks", run_mismatch, &two_by_two },
    { "a rank leaves, 3 hosts", run_leaving, &three_by_one },
    { "a rank aborts, 3 hosts", run_abort, &three_by_one },
};

static void run_case(void **state)
{
    size_t index = (size_t)(uintptr_t)*state;
    const struct spread *spread = cases[index].spread;
    const char *reason;
    if (spread->hosts > 0 && !hosts_up(spread->hosts, &reason)) {
        print_message("skipped: %s\n", reason);
        skip();
    }
    struct ranks_setup setup = { .way = RANKS_FILE,
                                 .size = ranks_of(spread),
                                 .plan = spread->plan,
                                 .shared_size = STREAM_SHARED,
                                 .bare = true };
    ranks_run(&setup, cases[index].function, spread);
    hosts_down();
}

static void a_death_is_named_between_hosts(void **state)
{
    const struct spread *spread = *state;
    const char *reason;
    if (!hosts_up(spread->hosts, &reason)) {
        print_message("skipped: %s\n", reason);
        skip();
    }
    a_death_is_named(state);
    hosts_down();
}

int main(void)
{
    static struct CMUnitTest tests[LENGTH(cases) + 2];
    test_settings();
    for (size_t i = 0; i < LENGTH(cases); i++)
        tests[i] = (struct CMUnitTest){ .name = cases[i].name,
                                        .test_func = run_case,
                                        .initial_state = (void *)(uintptr_t)i };
    tests[LENGTH(cases)] = (struct CMUnitTest){ .name = "a rank dies, one host",
                                                .test_func = a_death_is_named,
                                                .initial_state = (void *)(uintptr_t)&here };
    tests[LENGTH(cases) + 1] = (struct CMUnitTest){ .name = "a rank dies, 3 hosts",
                                                    .test_func = a_death_is_named_between_hosts,
                                                    .initial_state = (void *)(uintptr_t)&three_by_one };
    if (!ranks_can_fork())
        return 0;
    return check_run("hosts", tests, LENGTH(tests));
}
