/* Groups of calls and prepared calls: messages that meet in any order, several communicators and worlds, refusals,
 * failures inside, groups that are left open, starting again. */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ranks.h"

enum { MOST = 9 };

static int64_t element(int from, int to, size_t index)
{
    return (int64_t)index * 1000 + from * 10 + to;
}

/* ------------------------------------------------------------------ messages */

struct exchange {
    size_t counts[MOST]; /* by sender */
    int64_t *out[MOST], *in[MOST];
    int source[MOST];
    size_t received[MOST];
};

static void exchange_open(struct exchange *exchange, const struct rank *rank, size_t count)
{
    for (int peer = 0; peer < rank->size; peer++) {
        exchange->counts[peer] = count + (size_t)peer;
        exchange->out[peer] = calloc(count + (size_t)rank->number + 1, sizeof(int64_t));
        exchange->in[peer] = calloc(exchange->counts[peer] + 1, sizeof(int64_t));
    }
    for (int peer = 0; peer < rank->size; peer++)
        for (size_t i = 0; i < exchange->counts[rank->number]; i++)
            exchange->out[peer][i] = element(rank->number, peer, i);
}

/* All sends first, then all receives: alone, each large send would wait for ever. */
static void exchange_call(struct exchange *exchange, struct rank *rank, bool any)
{
    for (int peer = 0; peer < rank->size; peer++)
        if (peer != rank->number)
            rank_ok(rank,
                    plait_send(rank->comm, exchange->out[peer], exchange->counts[rank->number], PLAIT_I64,
                               peer, any ? rank->number : 100, NULL),
                    "a send in a group");
    for (int peer = rank->size - 1; peer >= 0; peer--)
        if (peer != rank->number)
            rank_ok(rank,
                    plait_recv(rank->comm, exchange->in[peer], exchange->counts[peer], PLAIT_I64,
                               any ? PLAIT_ANY_SOURCE : peer, any ? peer : 100, &exchange->source[peer],
                               &exchange->received[peer], NULL),
                    "a receive in a group");
}

static void exchange_check(struct exchange *exchange, struct rank *rank)
{
    for (int peer = 0; peer < rank->size && !rank_failed(rank); peer++) {
        if (peer == rank->number)
            continue;
        for (size_t i = 0; i < exchange->counts[peer]; i++)
            if (!rank_check(rank, exchange->in[peer][i] == element(peer, rank->number, i),
                            "element %zu from rank %d is %lld", i, peer, (long long)exchange->in[peer][i]))
                return;
        rank_check(rank, exchange->source[peer] == peer && exchange->received[peer] == exchange->counts[peer],
                   "rank %d's message came from %d with %zu elements", peer, exchange->source[peer],
                   exchange->received[peer]);
        memset(exchange->in[peer], 0, exchange->counts[peer] * sizeof(int64_t));
        exchange->source[peer] = -7;
    }
}

static void exchange_close(struct exchange *exchange, const struct rank *rank)
{
    for (int peer = 0; peer < rank->size; peer++) {
        free(exchange->out[peer]);
        free(exchange->in[peer]);
    }
}

static void run_exchange(struct rank *rank)
{
    static const size_t counts[] = { 0, 1, 37, 1021, 60000 };
    for (size_t i = 0; i < LENGTH(counts) && !rank_failed(rank); i++) {
        struct exchange exchange;
        exchange_open(&exchange, rank, counts[i]);
        for (int turn = 0; turn < 4; turn++) {
            plait_work *work = NULL;
            rank_doing(rank, "exchanging %zu elements, turn %d", counts[i], turn);
            rank_ok(rank, plait_group_begin(), "begin");
            exchange_call(&exchange, rank, turn % 2 == 1);
            rank_ok(rank, plait_group_end(turn < 2 ? NULL : &work), "end");
            if (work != NULL)
                rank_ok(rank, plait_work_wait(work, -1), "waiting");
            plait_work_release(work);
            exchange_check(&exchange, rank);
        }
        exchange_close(&exchange, rank);
    }
}

/* --------------------------------------------------- several communicators */

/* Communicators in another order on each rank, collectives and messages between them. */
static void run_mixed(struct rank *rank)
{
    enum { COMMS = 3, COUNT = 5000 };
    plait_comm *comms[COMMS];
    static _Thread_local int64_t data[COMMS][COUNT];
    for (int i = 0; i < COMMS; i++)
        if (!rank_ok(rank, plait_comm_split(rank->comm, 0, i == 1 ? -rank->number : 0, NULL, &comms[i]),
                     "split"))
            return;
    for (int turn = 0; turn < 6 && !rank_failed(rank); turn++) {
        int64_t sum = rank->number, token = rank->number, got = -1;
        int next = (rank->number + 1) % rank->size, last = (rank->number + rank->size - 1) % rank->size;
        plait_work *work = NULL;
        rank_doing(rank, "turn %d", turn);
        rank_ok(rank, plait_group_begin(), "begin");
        for (int i = 0; i < COMMS; i++) {
            int comm = (i + rank->number + turn) % COMMS;
            for (size_t j = 0; j < COUNT; j++)
                data[comm][j] = (int64_t)j + comm;
            rank_ok(rank,
                    plait_allreduce(comms[comm], data[comm], data[comm], COUNT, PLAIT_I64, PLAIT_SUM, NULL),
                    "all-reduce");
        }
        if (rank->size > 1) {
            rank_ok(rank, plait_recv(rank->comm, &got, 1, PLAIT_I64, last, 1, NULL, NULL, NULL), "receive");
            rank_ok(rank, plait_send(rank->comm, &token, 1, PLAIT_I64, next, 1, NULL), "send");
        }
        rank_ok(rank, plait_allreduce(rank->comm, &sum, &sum, 1, PLAIT_I64, PLAIT_SUM, NULL), "all-reduce");
        rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
        rank_ok(rank, plait_group_end(turn % 2 ? &work : NULL), "end");
        if (work != NULL)
            rank_ok(rank, plait_work_wait(work, -1), "waiting");
        plait_work_release(work);
        rank_check(rank, sum == rank->size * (rank->size - 1) / 2, "the sum is %lld", (long long)sum);
        rank_check(rank, rank->size == 1 || got == last, "the token is %lld", (long long)got);
        for (int comm = 0; comm < COMMS; comm++)
            for (size_t j = 0; j < COUNT; j++)
                if (!rank_check(rank, data[comm][j] == ((int64_t)j + comm) * rank->size, "element %zu of %d",
                                j, comm))
                    return;
    }
    for (int i = 0; i < COMMS; i++)
        rank_ok(rank, plait_comm_destroy(comms[i]), "destroying a communicator");
}

/* Two worlds of the same ranks, in one group. */
static void run_worlds(struct rank *rank)
{
    plait_world_options options = rank_options(rank);
    plait_world *other = NULL;
    if (!rank_ok(rank, plait_world_create(&options, &other), "creating another world"))
        return;
    plait_comm *comms[2] = { rank->comm, plait_world_comm(other) };
    for (int turn = 0; turn < 20 && !rank_failed(rank); turn++) {
        int64_t sums[2] = { 1, 10 };
        plait_work *work = NULL;
        rank_doing(rank, "turn %d", turn);
        rank_ok(rank, plait_group_begin(), "begin");
        for (int i = 0; i < 2; i++) {
            int world = (i + rank->number) % 2;
            rank_ok(rank,
                    plait_allreduce(comms[world], &sums[world], &sums[world], 1, PLAIT_I64, PLAIT_SUM, NULL),
                    "all-reduce");
        }
        rank_ok(rank, plait_group_end(turn % 2 ? &work : NULL), "end");
        if (work != NULL)
            rank_ok(rank, plait_work_wait(work, -1), "waiting");
        plait_work_release(work);
        rank_check(rank, sums[0] == rank->size && sums[1] == 10 * rank->size, "sums %lld and %lld",
                   (long long)sums[0], (long long)sums[1]);
    }
    rank_ok(rank, plait_world_destroy(other), "destroying the other world");
}

/* ------------------------------------------------------------------ the rules */

static void run_nested(struct rank *rank)
{
    int64_t first = 1, second = 2, third = 3;
    plait_work *inner = (plait_work *)(intptr_t)1, *own = NULL, *outer = NULL;
    rank_ok(rank, plait_group_begin(), "begin");
    rank_ok(rank, plait_allreduce(rank->comm, &first, &first, 1, PLAIT_I64, PLAIT_SUM, NULL), "all-reduce");
    rank_ok(rank, plait_group_begin(), "an inner begin");
    rank_ok(rank, plait_allreduce(rank->comm, &second, &second, 1, PLAIT_I64, PLAIT_SUM, &own), "all-reduce");
    rank_ok(rank, plait_group_end(&inner), "an inner end");
    rank_check(rank, inner == NULL, "an inner end gave a work");
    rank_status(rank, plait_work_status(own), PLAIT_IN_PROGRESS, "a call of a group that is open");
    rank_status(rank, plait_work_test(own), PLAIT_IN_PROGRESS, "a test of it");
    rank_ok(rank, plait_allreduce(rank->comm, &third, &third, 1, PLAIT_I64, PLAIT_SUM, NULL), "all-reduce");
    rank_check(rank, first == 1 && second == 2, "something ran before the end");
    rank_ok(rank, plait_group_end(&outer), "end");
    rank_ok(rank, plait_work_wait(own, -1), "waiting for one call");
    rank_ok(rank, plait_work_wait(outer, -1), "waiting");
    rank_check(rank, first == rank->size && second == 2 * rank->size && third == 3 * rank->size,
               "%lld, %lld, %lld", (long long)first, (long long)second, (long long)third);
    rank_check(rank, plait_work_count(outer) == 0 && plait_work_source(outer) == -1, "a group is no receive");
    plait_fault fault = { .struct_size = sizeof fault };
    rank_ok(rank, plait_work_fault(outer, &fault), "asking for a fault");
    rank_check(rank, fault.kind == PLAIT_FAULT_NONE, "fault of kind %d", fault.kind);
    plait_work_release(outer);
    plait_work_release(own);
}

static void run_empty(struct rank *rank)
{
    plait_work *work = NULL;
    rank_status(rank, plait_group_end(NULL), PLAIT_INVALID_USAGE, "an end without a begin");
    rank_says(rank, "plait_group_begin");
    rank_ok(rank, plait_group_begin(), "begin");
    rank_ok(rank, plait_group_end(NULL), "the end of nothing");
    rank_ok(rank, plait_group_begin(), "begin");
    rank_ok(rank, plait_group_end(&work), "the end of nothing");
    rank_ok(rank, plait_work_status(work), "the status of nothing");
    rank_ok(rank, plait_work_wait(work, -1), "waiting for nothing");
    plait_work_release(work);
    rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
}

/* A refused call: nothing of the group starts, here or elsewhere. */
static void run_refused(struct rank *rank)
{
    for (int turn = 0; turn < 3 && !rank_failed(rank); turn++) {
        int64_t value = 5, sum = -1;
        plait_work *own = NULL, *work = NULL;
        rank_ok(rank, plait_group_begin(), "begin");
        rank_ok(rank, plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I64, PLAIT_SUM, NULL), "all-reduce");
        rank_ok(rank, plait_barrier(rank->comm, &own), "barrier");
        if (turn == 0)
            rank_status(rank, plait_allreduce(rank->comm, &value, &sum, 1, (plait_type)99, PLAIT_SUM, NULL),
                        PLAIT_INVALID_ARGUMENT, "a type that is none");
        else if (turn == 1)
            rank_status(rank, plait_send(rank->comm, &value, 1, PLAIT_I64, 1000, 0, NULL),
                        PLAIT_INVALID_ARGUMENT, "a peer that is none");
        else
            rank_status(rank, plait_barrier(NULL, NULL), PLAIT_INVALID_ARGUMENT, "no communicator");
        rank_ok(rank, plait_barrier(rank->comm, NULL), "another barrier");
        rank_status(rank, plait_group_end(turn == 2 ? NULL : &work), PLAIT_INVALID_ARGUMENT, "the end");
        rank_says(rank, turn == 0 ? "type is 99" : turn == 1 ? "peer is 1000" : "comm is NULL");
        rank_says(rank, "nothing of the group was started");
        rank_check(rank, work == NULL, "a refused group has a work");
        rank_check(rank, sum == -1, "something ran");
        rank_status(rank, plait_work_wait(own, 1000), PLAIT_INVALID_ARGUMENT, "a call of it");
        rank_says(rank, "nothing of the group was started");
        plait_work_release(own);
        rank_ok(rank, plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I64, PLAIT_SUM, NULL), "afterwards");
        rank_check(rank, sum == 5 * rank->size, "the sum is %lld", (long long)sum);
    }
}

/* What waits is refused while a group is open. */
static void run_waits(struct rank *rank)
{
    int64_t value = 1, sum = 0;
    double line;
    int all[1] = { rank->number };
    plait_work *before = NULL;
    plait_comm *comm = NULL, *mine = NULL;
    plait_world *world = NULL;
    if (rank->number == 0)
        rank_meet(rank);
    rank_ok(rank, plait_comm_group(rank->comm, all, 1, rank->number, NULL, &mine), "a communicator of one");
    rank_ok(rank, plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I64, PLAIT_SUM, &before), "all-reduce");
    rank_ok(rank, plait_group_begin(), "begin");
    if (rank->number != 0) { /* rank 0 has not come, so it is not done */
        rank_status(rank, plait_work_wait(before, 1000), PLAIT_INVALID_USAGE, "a wait");
        rank_says(rank, "plait_group_end()");
        rank_status(rank, plait_work_wait(before, 0), PLAIT_IN_PROGRESS, "a test");
        rank_meet(rank);
    }
    rank_status(rank, plait_comm_split(rank->comm, 0, 0, NULL, &comm), PLAIT_INVALID_USAGE, "a split");
    rank_status(rank, plait_comm_group(rank->comm, all, 1, 1, NULL, &comm), PLAIT_INVALID_USAGE,
                "a new communicator");
    rank_status(rank, plait_comm_measure_line(rank->comm, &line), PLAIT_INVALID_USAGE, "measuring");
    rank_status(rank, plait_comm_destroy(mine), PLAIT_INVALID_USAGE, "destroying a communicator");
    rank_status(rank, plait_world_destroy(rank->world), PLAIT_INVALID_USAGE, "destroying the world");
    rank_status(rank, plait_world_create(NULL, &world), PLAIT_INVALID_USAGE, "creating a world");
    rank_says(rank, "plait_group_end()");
    rank_ok(rank, plait_group_end(NULL), "end");
    rank_ok(rank, plait_work_wait(before, -1), "waiting");
    rank_check(rank, sum == rank->size, "the sum is %lld", (long long)sum);
    plait_work_release(before);
    rank_ok(rank, plait_comm_destroy(mine), "destroying a communicator");
}

struct quitter {
    plait_comm *comm;
    plait_work *own;
    int64_t value;
};

static void *quit_with_group(void *argument)
{
    struct quitter *quitter = argument;
    plait_group_begin();
    plait_group_begin();
    plait_allreduce(quitter->comm, &quitter->value, &quitter->value, 1, PLAIT_I64, PLAIT_SUM, &quitter->own);
    plait_barrier(quitter->comm, NULL);
    return NULL;
}

/* A thread that ends with a group open: its calls fail, nothing of it was sent. */
static void run_left_open(struct rank *rank)
{
    struct quitter quitter = { .comm = rank->comm, .value = 3 };
    pthread_t thread;
    rank_check(rank, pthread_create(&thread, NULL, quit_with_group, &quitter) == 0, "no thread");
    pthread_join(thread, NULL);
    rank_status(rank, plait_work_wait(quitter.own, 1000), PLAIT_INVALID_USAGE, "a call of a group left open");
    rank_says(rank, "a thread ended with a group open: none of its 2 calls was started");
    plait_work_release(quitter.own);
    rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
    rank_check(rank, quitter.value == 3, "the value is %lld", (long long)quitter.value);
}

/* A communicator that is gone when the group ends. */
static void *destroy(void *comm)
{
    return (void *)(intptr_t)plait_comm_destroy(comm);
}

static void run_gone(struct rank *rank)
{
    int64_t value = 1;
    plait_comm *comm = NULL;
    plait_prepared *prepared = NULL;
    pthread_t thread;
    rank_ok(rank, plait_comm_split(rank->comm, 0, 0, NULL, &comm), "split");
    rank_ok(rank, plait_group_begin(), "begin");
    rank_ok(rank, plait_allreduce(comm, &value, &value, 1, PLAIT_I64, PLAIT_SUM, NULL), "all-reduce");
    rank_ok(rank, plait_group_prepare(&prepared), "preparing");
    rank_ok(rank, plait_prepared_start(prepared, NULL), "starting");
    rank_ok(rank, plait_group_begin(), "begin");
    rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
    rank_ok(rank, plait_barrier(comm, NULL), "barrier");
    rank_check(rank, pthread_create(&thread, NULL, destroy, comm) == 0, "no thread");
    pthread_join(thread, NULL);
    rank_status(rank, plait_group_end(NULL), PLAIT_INVALID_USAGE, "the end, without a communicator");
    rank_says(rank, "not a living communicator");
    rank_status(rank, plait_prepared_start(prepared, NULL), PLAIT_INVALID_USAGE,
                "starting without a communicator");
    plait_prepared_release(prepared);
    rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
    rank_check(rank, value == rank->size, "the sum is %lld", (long long)value);
}

/* ------------------------------------------------------------------ failures */

/* One call of a group differs between ranks: the group tells, the others of it succeed. */
static void run_mismatch(struct rank *rank)
{
    int64_t values[3] = { 1, 1, 1 };
    plait_work *work = NULL;
    plait_fault fault = { .struct_size = sizeof fault };
    rank_ok(rank, plait_group_begin(), "begin");
    for (int i = 0; i < 3; i++)
        rank_ok(rank,
                plait_allreduce(rank->comm, &values[i], &values[i], 1, PLAIT_I64,
                                i == 1 && rank->number == 0 ? PLAIT_MAX : PLAIT_SUM, NULL),
                "all-reduce");
    rank_ok(rank, plait_group_end(&work), "end");
    rank_status(rank, plait_work_wait(work, -1), PLAIT_MISMATCH, "waiting");
    rank_says(rank, "all-reduce of 1 i64, max");
    rank_says(rank, "all-reduce of 1 i64, sum");
    rank_ok(rank, plait_work_fault(work, &fault), "asking for the fault");
    rank_check(rank, fault.kind == PLAIT_FAULT_MISMATCH && fault.operation_number == 2,
               "fault of kind %d, operation %llu", fault.kind, (unsigned long long)fault.operation_number);
    plait_work_release(work);
    rank_check(rank, values[0] == rank->size && values[1] == 1 && values[2] == rank->size, "%lld, %lld, %lld",
               (long long)values[0], (long long)values[1], (long long)values[2]);
    rank_ok(rank, plait_group_begin(), "begin");
    rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
    rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
    rank_ok(rank, plait_group_end(NULL), "a group after it");
}

/* A large send that nobody receives. */
static void run_unmatched(struct rank *rank)
{
    enum { COUNT = 100000 };
    int64_t *data = calloc(COUNT, sizeof *data), sum = 1;
    rank_ok(rank, plait_comm_set_timeout(rank->comm, 300), "setting the deadline");
    rank_ok(rank, plait_group_begin(), "begin");
    rank_ok(rank, plait_allreduce(rank->comm, &sum, &sum, 1, PLAIT_I64, PLAIT_SUM, NULL), "all-reduce");
    if (rank->number == 0)
        rank_ok(rank, plait_send(rank->comm, data, COUNT, PLAIT_I64, 1, 5, NULL), "send");
    plait_status status = plait_group_end(NULL);
    if (rank->number == 0) {
        rank_status(rank, status, PLAIT_TIMED_OUT, "the end of a group with a send that nobody receives");
        rank_says(rank, "rank 1");
        rank_says(rank, "tag 5");
    }
    rank_check(rank, sum == rank->size, "the sum is %lld", (long long)sum);
    rank_meet(rank);
    free(data);
}

/* A peer is killed while the others are in groups with it. */
static void run_killed(struct rank *rank)
{
    struct exchange exchange;
    exchange_open(&exchange, rank, 3000);
    plait_status status = PLAIT_OK;
    for (int turn = 0; status == PLAIT_OK; turn++) {
        int64_t sum = 1;
        plait_work *work = NULL;
        rank_ok(rank, plait_group_begin(), "begin");
        exchange_call(&exchange, rank, false);
        rank_ok(rank, plait_allreduce(rank->comm, &sum, &sum, 1, PLAIT_I64, PLAIT_SUM, NULL), "all-reduce");
        if (turn == 20 && rank->number == 1)
            raise(SIGKILL);
        status = plait_group_end(&work);
        if (status != PLAIT_OK)
            break;
        status = plait_work_wait(work, -1);
        if (status != PLAIT_OK) {
            plait_fault fault = { .struct_size = sizeof fault };
            rank_ok(rank, plait_work_fault(work, &fault), "asking for the fault");
            rank_check(rank, fault.kind == PLAIT_FAULT_DIED && fault.culprit == 1,
                       "fault of kind %d, culprit %d: %s", fault.kind, fault.culprit, fault.evidence);
        }
        plait_work_release(work);
    }
    rank_status(rank, status, PLAIT_PEER_LOST, "a group with a rank that was killed");
    rank_says(rank, "rank 1");
    rank_ok(rank, plait_group_begin(), "begin");
    rank_ok(rank, plait_barrier(rank->comm, NULL), "a call after it");
    rank_status(rank, plait_group_end(NULL), PLAIT_PEER_LOST, "a group after it");
    exchange_close(&exchange, rank);
}

static void killed(void **state)
{
    struct ranks_setup setup = { .way = RANKS_FILE, .size = (int)(intptr_t)*state };
    struct ranks *ranks = ranks_start(&setup, run_killed, NULL);
    ranks_excuse(ranks, 1);
    ranks_finish(ranks);
}

/* ----------------------------------------------------------------- callbacks */

struct heard {
    struct rank *rank;
    _Atomic int calls, status;
    int64_t value, sum;
    plait_work *inner;
};

/* What a callback calls is not of the group that its thread may have open, nor is a group that it leaves open. */
static void hear(void *context, plait_work *work, plait_status status)
{
    struct heard *heard = context;
    struct rank *rank = heard->rank;
    (void)work;
    rank_status(rank, plait_group_end(NULL), PLAIT_INVALID_USAGE, "an end in a callback");
    rank_ok(rank,
            plait_allreduce(rank->comm, &heard->value, &heard->sum, 1, PLAIT_I64, PLAIT_SUM, &heard->inner),
            "a work from a callback");
    rank_ok(rank, plait_group_begin(), "a begin in a callback");
    rank_ok(rank, plait_barrier(rank->comm, NULL), "a call in a callback's group");
    rank_status(rank, plait_group_end(NULL), PLAIT_INVALID_USAGE, "a group that a callback waits for");
    rank_ok(rank, plait_group_begin(), "a begin in a callback");
    rank_ok(rank, plait_barrier(rank->comm, NULL), "a call in a group that is left open");
    atomic_store(&heard->status, status);
    atomic_fetch_add(&heard->calls, 1);
}

static void run_callbacks(struct rank *rank)
{
    struct heard heard = { .rank = rank, .status = -98, .value = 2 };
    int64_t value = 1, later = 1;
    plait_work *work = NULL;
    if (rank->number == 0)
        rank_meet(rank);
    rank_ok(rank, plait_group_begin(), "begin");
    rank_ok(rank, plait_allreduce(rank->comm, &value, &value, 1, PLAIT_I64, PLAIT_SUM, NULL), "all-reduce");
    rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
    rank_ok(rank, plait_group_end(&work), "end");
    rank_ok(rank, plait_work_on_done(work, hear, &heard), "asking to be called");
    if (rank->number != 0)
        rank_meet(rank);
    rank_ok(rank, plait_group_begin(), "begin"); /* open while the callback may run on this thread */
    for (int i = 0; i < 20000 && atomic_load(&heard.calls) == 0; i++)
        plait_work_test(work);
    rank_ok(rank, plait_allreduce(rank->comm, &later, &later, 1, PLAIT_I64, PLAIT_SUM, NULL), "all-reduce");
    for (int i = 0; i < 5000 && atomic_load(&heard.calls) == 0; i++)
        sleep_ms(1);
    rank_ok(rank, plait_group_end(NULL), "end");
    rank_check(rank, atomic_load(&heard.calls) == 1 && heard.status == PLAIT_OK, "called %d times, status %d",
               heard.calls, heard.status);
    rank_ok(rank, plait_work_wait(heard.inner, -1), "waiting for the callback's work");
    rank_check(rank, value == rank->size && later == rank->size && heard.sum == 2 * rank->size,
               "%lld, %lld, %lld", (long long)value, (long long)later, (long long)heard.sum);
    plait_work_release(heard.inner);
    plait_work_release(work);
}

/* ------------------------------------------------------------------ prepared */

static void run_prepared(struct rank *rank)
{
    enum { STARTS = 60 };
    struct exchange exchange;
    int64_t small = 0, sum = 0;
    plait_prepared *one = NULL, *many = NULL;
    exchange_open(&exchange, rank, 700);
    rank_ok(rank, plait_group_begin(), "begin");
    rank_ok(rank, plait_allreduce(rank->comm, &small, &sum, 1, PLAIT_I64, PLAIT_SUM, NULL), "all-reduce");
    rank_ok(rank, plait_group_prepare(&one), "preparing");
    rank_ok(rank, plait_group_begin(), "begin");
    rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
    exchange_call(&exchange, rank, false);
    rank_ok(rank, plait_allreduce(rank->comm, &small, &sum, 1, PLAIT_I64, PLAIT_SUM, NULL), "all-reduce");
    rank_ok(rank, plait_group_prepare(&many), "preparing");
    for (int i = 0; i < STARTS && !rank_failed(rank); i++) {
        plait_work *work = NULL;
        small = i + rank->number;
        rank_doing(rank, "start %d", i);
        if (i % 3 == 2) /* the call itself, as others prepared it */
            rank_ok(rank,
                    rank->number == 0
                        ? plait_allreduce(rank->comm, &small, &sum, 1, PLAIT_I64, PLAIT_SUM, NULL)
                        : plait_prepared_start(one, NULL),
                    "starting");
        else
            rank_ok(rank, plait_prepared_start(i % 3 == 0 ? many : one, i % 2 ? &work : NULL), "starting");
        if (work != NULL)
            rank_ok(rank, plait_work_wait(work, -1), "waiting");
        plait_work_release(work);
        rank_check(rank, sum == i * rank->size + rank->size * (rank->size - 1) / 2,
                   "start %d: the sum is %lld", i, (long long)sum);
        if (i % 3 == 0)
            exchange_check(&exchange, rank);
    }
    plait_prepared_release(one);
    plait_prepared_release(many);
    plait_prepared_release(NULL);
    rank_status(rank, plait_prepared_start(one, NULL), PLAIT_INVALID_USAGE, "starting what was released");
    exchange_close(&exchange, rank);
}

/* Started again while it runs; released while it runs; prepared of nothing, and wrongly. */
static void run_prepared_rules(struct rank *rank)
{
    int64_t value = 1, sum = 0;
    plait_prepared *prepared = NULL, *nothing = NULL;
    plait_work *work = NULL, *own = NULL;
    rank_status(rank, plait_prepared_start(NULL, NULL), PLAIT_INVALID_ARGUMENT, "starting NULL");
    rank_status(rank, plait_group_prepare(&prepared), PLAIT_INVALID_USAGE, "preparing without a group");
    rank_ok(rank, plait_group_begin(), "begin");
    rank_ok(rank, plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I64, PLAIT_SUM, NULL), "all-reduce");
    rank_ok(rank, plait_group_prepare(&prepared), "preparing");
    if (rank->number == 0)
        rank_meet(rank);
    rank_ok(rank, plait_prepared_start(prepared, &work), "starting");
    if (rank->number != 0) {
        rank_status(rank, plait_prepared_start(prepared, NULL), PLAIT_INVALID_USAGE, "starting what runs");
        rank_says(rank, "still run");
        rank_status(rank, plait_prepared_start(prepared, &own), PLAIT_INVALID_USAGE, "starting what runs");
        rank_meet(rank);
    }
    rank_ok(rank, plait_work_wait(work, -1), "waiting");
    plait_work_release(work);
    rank_ok(rank, plait_prepared_start(prepared, &work), "starting again");
    plait_prepared_release(prepared);
    rank_ok(rank, plait_work_wait(work, -1), "waiting for what was released");
    rank_check(rank, sum == rank->size, "the sum is %lld", (long long)sum);
    plait_work_release(work);

    rank_ok(rank, plait_group_begin(), "begin");
    rank_ok(rank, plait_group_prepare(&nothing), "preparing nothing");
    for (int i = 0; i < 3; i++) {
        rank_ok(rank, plait_prepared_start(nothing, NULL), "starting nothing");
        rank_ok(rank, plait_prepared_start(nothing, &work), "starting nothing");
        rank_ok(rank, plait_work_wait(work, -1), "waiting for nothing");
        plait_work_release(work);
    }
    rank_ok(rank, plait_group_begin(), "begin");
    rank_status(rank, plait_prepared_start(nothing, NULL), PLAIT_INVALID_USAGE, "starting in a group");
    rank_ok(rank, plait_group_end(NULL), "end");
    plait_prepared_release(nothing);

    rank_ok(rank, plait_group_begin(), "begin");
    rank_ok(rank, plait_barrier(rank->comm, &own), "barrier");
    rank_status(rank, plait_group_prepare(&prepared), PLAIT_INVALID_USAGE,
                "preparing a call with its own work");
    rank_status(rank, plait_work_wait(own, 1000), PLAIT_INVALID_USAGE, "that work");
    plait_work_release(own);
    rank_ok(rank, plait_group_begin(), "begin");
    rank_ok(rank, plait_group_begin(), "begin");
    rank_status(rank, plait_group_prepare(&prepared), PLAIT_INVALID_USAGE, "preparing an inner group");
    rank_status(rank, plait_group_end(NULL), PLAIT_INVALID_USAGE, "the end around it");
    rank_ok(rank, plait_group_begin(), "begin");
    rank_status(rank, plait_group_prepare(NULL), PLAIT_INVALID_ARGUMENT, "preparing to nowhere");
    rank_status(rank, plait_group_end(NULL), PLAIT_INVALID_USAGE, "an end after it");
    rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
}

/* ---------------------------------------------------------------- allocations */

static _Thread_local bool counting;
static _Atomic long allocations;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

static void note_allocation(void)
{
    if (counting)
        atomic_fetch_add(&allocations, 1);
}

void *__wrap_malloc(size_t size)
{
    note_allocation();
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    note_allocation();
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    note_allocation();
    return __real_realloc(memory, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    note_allocation();
    return __real_aligned_alloc(alignment, size);
}

/* Some of everything that can be started. */
static void start_things(struct rank *rank, plait_prepared *prepared, int64_t *data, size_t count)
{
    enum { FLIGHT = 10 };
    plait_work *works[FLIGHT], *work = NULL;
    for (int i = 0; i < FLIGHT; i++)
        rank_ok(rank,
                plait_allreduce(rank->comm, data, data, i % 2 ? 1 : count, PLAIT_I64, PLAIT_MAX, &works[i]),
                "a work");
    for (int i = 0; i < FLIGHT; i++) {
        rank_ok(rank, plait_work_wait(works[i], -1), "waiting");
        plait_work_release(works[i]);
    }
    rank_ok(rank, plait_group_begin(), "begin");
    for (int i = 0; i < 3; i++)
        rank_ok(rank, plait_allreduce(rank->comm, data, data, count, PLAIT_I64, PLAIT_MAX, NULL),
                "all-reduce");
    rank_ok(rank, plait_group_end(&work), "end");
    rank_ok(rank, plait_work_wait(work, -1), "waiting");
    plait_work_release(work);
    rank_ok(rank, plait_prepared_start(prepared, NULL), "starting");
    rank_ok(rank, plait_prepared_start(prepared, &work), "starting");
    rank_ok(rank, plait_work_wait(work, -1), "waiting");
    plait_work_release(work);
}

static void run_allocations(struct rank *rank)
{
    enum { COUNT = 20000 };
    int64_t *data = calloc(COUNT, sizeof *data);
    plait_prepared *prepared = NULL;
    rank_ok(rank, plait_group_begin(), "begin");
    rank_ok(rank, plait_allreduce(rank->comm, data, data, COUNT, PLAIT_I64, PLAIT_SUM, NULL), "all-reduce");
    rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
    rank_ok(rank, plait_group_prepare(&prepared), "preparing");
    for (int i = 0; i < 3; i++)
        start_things(rank, prepared, data, COUNT);
    rank_meet(rank);
    counting = true;
    for (int i = 0; i < 20; i++)
        start_things(rank, prepared, data, COUNT);
    counting = false;
    rank_check(rank, atomic_load(&allocations) == 0, "%ld allocations", atomic_load(&allocations));
    plait_thread_group *group = NULL;
    counting = true; /* what does allocate is seen */
    rank_ok(rank, plait_thread_group_create(1, &group), "a thread group");
    counting = false;
    plait_thread_group_destroy(group);
    rank_check(rank, atomic_load(&allocations) > 0, "allocations are not counted");
    plait_prepared_release(prepared);
    free(data);
    rank_meet(rank);
}

static void no_allocations(void **state)
{
    atomic_store(&allocations, 0);
    struct ranks_setup setup = { .way = RANKS_THREADS, .size = 1 };
    (void)state;
    ranks_run(&setup, run_allocations, NULL);
    atomic_store(&allocations, 0);
    setup = (struct ranks_setup){ .way = RANKS_FILE, .size = 3 };
    ranks_run(&setup, run_allocations, NULL);
}

/* ----------------------------------------------------------------------- main */

#define THREADS(title, function, ranks)                                                                      \
    {                                                                                                        \
        title, function, { .way = RANKS_THREADS, .size = ranks }, NULL                                       \
    }
#define PROCESSES(title, function, ranks)                                                                    \
    {                                                                                                        \
        title, function, { .way = RANKS_FILE, .size = ranks }, NULL                                          \
    }

static const struct scenario scenarios[] = {
    THREADS("messages that meet in any order", run_exchange, 1),
    THREADS("messages that meet in any order", run_exchange, 2),
    THREADS("messages that meet in any order", run_exchange, 3),
    THREADS("messages that meet in any order", run_exchange, 9),
    PROCESSES("messages that meet in any order", run_exchange, 2),
    PROCESSES("messages that meet in any order", run_exchange, 5),
    THREADS("several communicators", run_mixed, 1),
    THREADS("several communicators", run_mixed, 2),
    THREADS("several communicators", run_mixed, 5),
    PROCESSES("several communicators", run_mixed, 3),
    THREADS("several worlds", run_worlds, 2),
    THREADS("several worlds", run_worlds, 4),
    THREADS("groups in groups", run_nested, 1),
    THREADS("groups in groups", run_nested, 3),
    THREADS("groups of nothing", run_empty, 2),
    THREADS("a call that is refused", run_refused, 1),
    THREADS("a call that is refused", run_refused, 3),
    THREADS("waits in a group", run_waits, 2),
    THREADS("waits in a group", run_waits, 3),
    THREADS("a thread ends with a group open", run_left_open, 2),
    THREADS("a communicator is gone", run_gone, 2),
    THREADS("a call that differs", run_mismatch, 2),
    THREADS("a call that differs", run_mismatch, 3),
    PROCESSES("a call that differs", run_mismatch, 3),
    THREADS("a send without a receive", run_unmatched, 2),
    THREADS("a send without a receive", run_unmatched, 3),
    THREADS("callbacks", run_callbacks, 1),
    THREADS("callbacks", run_callbacks, 2),
    THREADS("callbacks", run_callbacks, 4),
    THREADS("prepared calls", run_prepared, 1),
    THREADS("prepared calls", run_prepared, 2),
    THREADS("prepared calls", run_prepared, 4),
    PROCESSES("prepared calls", run_prepared, 3),
    THREADS("what prepared calls refuse", run_prepared_rules, 1),
    THREADS("what prepared calls refuse", run_prepared_rules, 3),
};

int main(void)
{
    const struct CMUnitTest more[] = {
        { "a rank is killed (2 processes)", killed, NULL, NULL, (void *)(intptr_t)2 },
        { "a rank is killed (4 processes)", killed, NULL, NULL, (void *)(intptr_t)4 },
        cmocka_unit_test(no_allocations),
    };
    int failed = scenarios_run("group calls", scenarios, LENGTH(scenarios));
    return failed + check_run("group calls, more", more, LENGTH(more));
}
