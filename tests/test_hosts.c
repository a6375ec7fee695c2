/* Worlds over the network: ranks of one host that are told to use it, and ranks on several made-up hosts,
 * which find that out themselves. */
#include "check.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hosts.h"
#include "ranks.h"
#include "streams.h"

/* How the ranks are spread. */
struct spread {
    int hosts;    /* 0: all here, with PLAIT_TRANSPORT=ofi */
    int per_host; /* ranks */
};

static const struct spread here = { 0, 0 }, two_by_one = { 2, 1 }, two_by_two = { 2, 2 },
                           three_by_one = { 3, 1 };

static const struct spread *spread_of(const struct rank *rank)
{
    return rank->context;
}

/* Creates the rank's world where it belongs. */
static bool come(struct rank *rank)
{
    const struct spread *spread = spread_of(rank);
    plait_world_options options = rank_options(rank);
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
    { "megabytes, 2 hosts", run_large, &two_by_one },
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
    struct ranks_setup setup = {
        .way = RANKS_FILE, .size = ranks_of(spread), .shared_size = STREAM_SHARED, .bare = true
    };
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
