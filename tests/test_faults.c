/* Ranks that die, leave, stop, come late or never, abort: every survivor gets the right status in time, and a
 * sentence and a fault that name the culprit. Real processes over shared memory.
 *
 * PLAIT_TEST_SEED draws other moments; it is printed. */
#include "check.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "calls.h"

/* What all ranks of a test share. */
struct scene {
    _Atomic int ready;      /* ranks that have begun */
    _Atomic int64_t moment; /* when it happened, now_ns(); 0: not yet */
    _Atomic int64_t worst;  /* the longest that a survivor took, ns */
    _Atomic int handled;    /* calls of fault handlers */
};

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Survivors are to hear within 100 ms. A busy machine may delay any one of them, so each may take longer,
 * and what the test holds to the limit is the median of several runs. */
static const int64_t SOON_NS = 100000000, LATE_NS = 1000000000;

static void judge_time(struct rank *rank, struct scene *scene, int64_t now, int64_t entered)
{
    const int64_t took = now - later(atomic_load(&scene->moment), entered);
    int64_t worst = atomic_load(&scene->worst);
    while (took > worst && !atomic_compare_exchange_weak(&scene->worst, &worst, took))
        ;
    rank_check(rank, took < LATE_NS * ranks_slowness(), "it took %lld ms to notice",
               (long long)took / 1000000);
}

static int compare_times(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

static int64_t clock_of(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* How much longer than alone a thread takes here just now: 1 on a machine that has nothing else to do. */
static double busyness(void)
{
    const int64_t wall = clock_of(CLOCK_MONOTONIC), own = clock_of(CLOCK_THREAD_CPUTIME_ID);
    while (clock_of(CLOCK_THREAD_CPUTIME_ID) - own < 50000000)
        ;
    const double ratio = (double)(clock_of(CLOCK_MONOTONIC) - wall) / 50e6;
    return ratio < 1.5 ? 1 : ratio; /* what a busy loop of 50 ms loses to interrupts is no excuse */
}

static void judge_median(int64_t *times, int count)
{
    qsort(times, (size_t)count, sizeof *times, compare_times);
    const int64_t median = times[count / 2];
    print_message("  noticed within %.1f ms (median of %d), at worst %.1f\n", (double)median / 1e6, count,
                  (double)times[count - 1] / 1e6);
    if (median < SOON_NS * ranks_slowness())
        return;
    const double busy = busyness();
    if ((double)median >= (double)(SOON_NS * ranks_slowness()) * busy)
        fail_msg(
            "it took %.1f ms to notice, in the median of %d runs; the machine is %.1f times as slow as alone",
            (double)median / 1e6, count, busy);
}

/* The fault as it should be; `kinds`: bits 1 << kind that will do. */
static void judge_fault(struct rank *rank, const plait_fault *fault, unsigned kinds, plait_status status,
                        int culprit, int64_t pid)
{
    rank_check(rank, kinds >> fault->kind & 1, "fault of kind %d: %s", fault->kind, fault->evidence);
    rank_check(rank, fault->status == status, "the fault's status is %s", plait_status_name(fault->status));
    rank_check(rank, fault->culprit == culprit, "the fault's culprit is %d, not %d: %s", fault->culprit,
               culprit, fault->evidence);
    rank_check(rank, fault->pid == pid, "the fault's pid is %lld, not %lld", (long long)fault->pid,
               (long long)pid);
    rank_check(rank, fault->evidence[0] != '\0', "the fault has no evidence");
    rank_check(rank, fault->operation[0] != '\0' && fault->call[0] != '\0' && fault->operation_number > 0,
               "the fault's operation is %llu \"%s\", call \"%s\"",
               (unsigned long long)fault->operation_number, fault->operation, fault->call);
}

static void judge_comm(struct rank *rank, unsigned kinds, plait_status status, int culprit, int64_t pid)
{
    plait_fault fault = { .struct_size = sizeof fault };
    if (rank_ok(rank, plait_comm_fault(rank->comm, &fault), "asking for the fault"))
        judge_fault(rank, &fault, kinds, status, culprit, pid);
    plait_fault worlds = { .struct_size = sizeof worlds };
    if (rank_ok(rank, plait_world_fault(rank->world, &worlds), "asking the world for its fault"))
        rank_check(rank, worlds.kind == fault.kind && worlds.culprit == culprit,
                   "the world's fault is of kind %d, culprit %d", worlds.kind, worlds.culprit);
}

/* The sentence names rank and pid; pid 0 is not looked for. */
static void judge_sentence(struct rank *rank, int culprit, int64_t pid, const char *operation)
{
    char piece[32];
    snprintf(piece, sizeof piece, "rank %d", culprit);
    rank_says(rank, piece);
    snprintf(piece, sizeof piece, "%lld", (long long)pid);
    if (pid != 0)
        rank_says(rank, piece);
    rank_says(rank, operation);
}

static void judge_destroy(struct rank *rank)
{
    const int64_t start = now_ns();
    rank_doing(rank, "destroying the world after a fault");
    rank_ok(rank, plait_world_destroy(rank->world), "destroying the world");
    rank->world = NULL;
    const int64_t took_ms = (now_ns() - start) / 1000000;
    rank_check(rank, took_ms < 1500, "destroying took %lld ms", (long long)took_ms);
}

/* ------------------------------------------------- death in a stream of calls */

enum death { DEATH_KILLED, DEATH_EXIT_0, DEATH_EXIT_3, DEATH_ABORTS };

static const struct death_case {
    const char *name;
    int ranks;
    enum death death;
    bool works; /* several works in flight instead of blocking calls */
    const char *plan;
    bool splits; /* communicators made and destroyed all the time */
    int more;    /* others that die at the same moment */
} deaths[] = {
    { "killed, 2 ranks", 2, DEATH_KILLED, false, NULL, false, 0 },
    { "killed, 3 ranks", 3, DEATH_KILLED, false, NULL, false, 0 },
    { "killed, 5 ranks", 5, DEATH_KILLED, false, NULL, false, 0 },
    { "exit(0), 2 ranks", 2, DEATH_EXIT_0, false, NULL, false, 0 },
    { "exit(0), 4 ranks", 4, DEATH_EXIT_0, false, NULL, false, 0 },
    { "exit(3), 3 ranks", 3, DEATH_EXIT_3, false, NULL, false, 0 },
    { "abort(), 3 ranks", 3, DEATH_ABORTS, false, NULL, false, 0 },
    { "killed, 2 ranks, works", 2, DEATH_KILLED, true, NULL, false, 0 },
    { "killed, 4 ranks, works", 4, DEATH_KILLED, true, NULL, false, 0 },
    { "exit(0), 3 ranks, works", 3, DEATH_EXIT_0, true, NULL, false, 0 },
    { "killed, 3 ranks, ring", 3, DEATH_KILLED, false, "ring", false, 0 },
    { "killed, 5 ranks, doubling", 5, DEATH_KILLED, false, "doubling", false, 0 },
    { "killed, 4 ranks, tree", 4, DEATH_KILLED, false, "tree", false, 0 },
    { "killed, 3 ranks, pairwise", 3, DEATH_KILLED, false, "pairwise", false, 0 },
    { "killed, 2 ranks, splits", 2, DEATH_KILLED, false, NULL, true, 0 },
    { "killed, 4 ranks, splits", 4, DEATH_KILLED, false, NULL, true, 0 },
    { "two killed, 4 ranks", 4, DEATH_KILLED, false, NULL, false, 1 },
    { "three killed, 5 ranks", 5, DEATH_KILLED, false, NULL, false, 2 },
};

/* One run of a case. */
struct death_run {
    const struct death_case *death;
    uint64_t seed;
    int victim;
    int calls; /* the victim ends by itself after so many; 0: it is killed */
};

struct death_scene {
    struct scene scene;
    _Atomic int64_t pids[RANKS_MOST];
};

/* The victim and those that follow it die. */
static bool dies(const struct death_run *run, int rank)
{
    const int after = (rank - run->victim + run->death->ranks) % run->death->ranks;
    return after <= run->death->more;
}

static struct call drawn_call(uint64_t random, int ranks)
{
    struct call call = {
        .kind = (enum call_kind)(random % CALL_KINDS),
        .root = (int)(random >> 24 & 0xff) % ranks,
        .count = (random >> 32 & 7) == 0 ? (random >> 35) % 60000 : (random >> 35) % 300,
    };
    data_choose(random, call_reduces(call.kind), &call.type, &call.op);
    return call;
}

static void end_here(struct death_scene *scene, enum death death)
{
    atomic_store(&scene->scene.moment, now_ns());
    if (death == DEATH_EXIT_0)
        _exit(0);
    if (death == DEATH_EXIT_3)
        _exit(3);
    setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
    signal(SIGABRT, SIG_DFL);
    abort();
}

/* Of several that died, the one that this rank's fault names. */
static int blamed(struct rank *rank, const struct death_run *run)
{
    plait_fault fault = { .struct_size = sizeof fault };
    rank_ok(rank, plait_comm_fault(rank->comm, &fault), "asking for the fault");
    const bool right =
        rank_check(rank, fault.culprit >= 0 && fault.culprit < rank->size && dies(run, fault.culprit),
                   "rank %d is blamed, who lives: %s", fault.culprit, fault.evidence);
    return right ? fault.culprit : run->victim;
}

/* A call has failed: was it right, and in time? */
static void judge_death(struct rank *rank, const struct death_run *run, plait_status status,
                        const struct call *call, int64_t entered)
{
    struct death_scene *scene = rank->shared;
    const int64_t now = now_ns(), moment = atomic_load(&scene->scene.moment);
    if (!rank_status(rank, status, PLAIT_PEER_LOST, call_name(call->kind)) ||
        !rank_check(rank, moment != 0, "PLAIT_PEER_LOST before anybody died: %s", plait_last_error()))
        return;
    judge_time(rank, &scene->scene, now, entered);
    const int culprit = run->death->more != 0 ? blamed(rank, run) : run->victim;
    judge_sentence(rank, culprit, atomic_load(&scene->pids[culprit]), call_name(call->kind));
    judge_comm(rank, 1u << PLAIT_FAULT_DIED, PLAIT_PEER_LOST, culprit, atomic_load(&scene->pids[culprit]));

    int value = 1, sum = 0;
    rank_status(rank, plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I32, PLAIT_SUM, NULL),
                PLAIT_PEER_LOST, "a call after the communicator's end");
    judge_destroy(rank);
}

/* Blocking calls until one fails. */
static void stream_blocking(struct rank *rank, const struct death_run *run, struct trial *trial)
{
    struct death_scene *scene = rank->shared;
    for (int i = 0;; i++) {
        const uint64_t random = mix(run->seed * 100000 + (uint64_t)i);
        struct call call = drawn_call(random, rank->size);
        struct layout layout = layout_drawn(call.kind, mix(random));
        char text[120], why[300];
        if (rank->number == run->victim && run->calls != 0 && i == run->calls)
            end_here(scene, run->death->death);
        rank_doing(rank, "call %d: %s", i, call_text(&call, text, sizeof text));
        trial_prepare(trial, &call, &layout, random, rank->number, rank->size);
        const int64_t entered = now_ns();
        plait_status status = trial_call(trial, rank->comm, NULL);
        if (status != PLAIT_OK) {
            judge_death(rank, run, status, &call, entered);
            return;
        }
        if (!rank_check(rank, trial_right(trial, why, sizeof why), "%s: %s", text, why))
            return;
    }
}

/* Works, four at a time. */
static void stream_works(struct rank *rank, const struct death_run *run)
{
    enum { FLIGHT = 4, COUNT = 5000 };
    static int64_t values[FLIGHT][COUNT], sums[FLIGHT][COUNT];
    struct death_scene *scene = rank->shared;
    const struct call call = { CALL_ALLREDUCE, PLAIT_I64, PLAIT_SUM, 0, COUNT };
    for (int i = 0;; i++) {
        plait_work *works[FLIGHT] = { NULL };
        plait_status status = PLAIT_OK;
        int64_t entered = now_ns();
        rank_doing(rank, "turn %d of works", i);
        for (int j = 0; j < FLIGHT && status == PLAIT_OK; j++) {
            if (rank->number == run->victim && run->calls != 0 && i * FLIGHT + j == run->calls)
                end_here(scene, run->death->death);
            values[j][0] = values[j][COUNT - 1] = i;
            status = plait_allreduce(rank->comm, values[j], sums[j], (size_t)(j % 2 ? COUNT : 1), PLAIT_I64,
                                     PLAIT_SUM, &works[j]);
        }
        for (int j = 0; j < FLIGHT && status == PLAIT_OK; j++) {
            status = plait_work_wait(works[j], -1);
            if (status == PLAIT_OK)
                rank_check(rank, sums[j][0] == (int64_t)i * rank->size, "turn %d, work %d: the sum is %lld",
                           i, j, (long long)sums[j][0]);
        }
        if (status != PLAIT_OK)
            judge_death(rank, run, status, &call, entered);
        for (int j = 0; j < FLIGHT; j++) {
            if (status != PLAIT_OK && works[j] != NULL)
                rank_check(rank, plait_work_status(works[j]) != PLAIT_IN_PROGRESS,
                           "work %d is under way for ever", j);
            plait_work_release(works[j]);
        }
        if (status != PLAIT_OK || rank_failed(rank))
            return;
    }
}

/* Communicators that are made, used once and destroyed. The fault is on whichever was in use. */
static void stream_splits(struct rank *rank, const struct death_run *run)
{
    struct death_scene *scene = rank->shared;
    for (int i = 0; i < 1000000; i++) {
        plait_comm *comm = NULL;
        rank_doing(rank, "split %d", i);
        const int64_t entered = now_ns();
        plait_status status = plait_comm_split(rank->comm, 0, 0, NULL, &comm);
        if (status == PLAIT_OK)
            status = plait_barrier(comm, NULL);
        const int64_t now = now_ns();
        plait_comm_destroy(comm);
        if (status == PLAIT_OK)
            continue;
        rank_status(rank, status, PLAIT_PEER_LOST, "a split or a barrier on its communicator");
        judge_time(rank, &scene->scene, now, entered);
        rank_status(rank, plait_barrier(rank->comm, NULL), PLAIT_PEER_LOST,
                    "a barrier on the world's communicator");
        judge_sentence(rank, run->victim, atomic_load(&scene->pids[run->victim]), "");
        judge_destroy(rank);
        return;
    }
}

static void run_death(struct rank *rank)
{
    const struct death_run *run = rank->context;
    struct death_scene *scene = rank->shared;
    struct trial trial;
    atomic_store(&scene->pids[rank->number], getpid());
    if (!rank_check(rank, trial_open(&trial, 60000 * DATA_MOST_SIZE, rank->size), "no memory"))
        return;
    atomic_fetch_add(&scene->scene.ready, 1);
    if (run->death->splits)
        stream_splits(rank, run);
    else if (run->death->works)
        stream_works(rank, run);
    else
        stream_blocking(rank, run, &trial);
    trial_close(&trial);
}

static bool await(_Atomic int *number, int wanted)
{
    for (int i = 0; i < 10000 && atomic_load(number) < wanted; i++)
        sleep_ms(1);
    return atomic_load(number) >= wanted;
}

static int64_t one_death(const struct death_case *death, uint64_t seed)
{
    struct death_run run = { .death = death,
                             .seed = seed,
                             .victim = (int)(mix(seed) >> 8 & 0xff) % death->ranks };
    if (death->death != DEATH_KILLED)
        run.calls = 1 + (int)(mix(seed + 1) % 60);
    struct ranks_setup setup = { .way = RANKS_FILE,
                                 .size = death->ranks,
                                 .plan = death->plan,
                                 .limit_s = 30,
                                 .shared_size = sizeof(struct death_scene) };
    struct ranks *ranks = ranks_start(&setup, run_death, &run);
    struct death_scene *scene = ranks_shared(ranks);
    for (int i = 0; i < death->ranks; i++)
        if (dies(&run, i))
            ranks_excuse(ranks, i);
    if (death->death == DEATH_KILLED && await(&scene->scene.ready, death->ranks)) {
        usleep((useconds_t)(mix(seed + 2) % 40000));
        atomic_store(&scene->scene.moment, now_ns());
        for (int i = 0; i < death->ranks; i++)
            if (dies(&run, i))
                ranks_signal(ranks, i, SIGKILL);
    }
    ranks_wait(ranks, run.victim);
    for (int i = 0; i < death->ranks; i++)
        ranks_wait(ranks, i);
    const int64_t worst = atomic_load(&scene->scene.worst);
    ranks_finish(ranks);
    return worst;
}

enum { RUNS = 5 };

static void survivors_are_told(void **state)
{
    const struct death_case *death = *state;
    int64_t times[RUNS];
    const int part = RUNS * test_settings()->scale / 100, runs = part < 1 ? 1 : part > RUNS ? RUNS : part;
    for (int i = 0; i < runs; i++) {
        const uint64_t seed =
            mix(test_settings()->seed * 1000 + (uint64_t)(death - deaths) * 100 + (uint64_t)i) % 1000000;
        print_message("  seed %llu\n", (unsigned long long)seed);
        times[i] = one_death(death, seed);
    }
    judge_median(times, runs);
}

/* ------------------------------------------------------------- one operation */

/* What rank 1 does instead of calling; the test acts at the moment that all are ready. */
struct act {
    const char *name;
    int ranks;
    enum { ACT_KILL_IDLE, ACT_STOP, ACT_LATE, ACT_LEAVE, ACT_ABORT } what;
    enum call_kind kind;
    size_t count;
};

struct act_scene {
    struct scene scene;
    _Atomic int64_t pid;
    _Atomic int judged; /* survivors that are through */
};

enum { CULPRIT = 1 };

static void be_culprit(struct rank *rank, const struct act *act)
{
    struct act_scene *scene = rank->shared;
    atomic_fetch_add(&scene->scene.ready, 1);
    rank_doing(rank, "being the culprit");
    switch (act->what) {
    case ACT_KILL_IDLE:
    case ACT_STOP:
        for (;;)
            pause();
    case ACT_LATE: await(&scene->judged, rank->size - 1); break;
    case ACT_LEAVE:
        await(&scene->scene.ready, rank->size);
        sleep_ms(30);
        atomic_store(&scene->scene.moment, now_ns());
        rank_ok(rank, plait_world_destroy(rank->world), "leaving");
        rank->world = NULL;
        break;
    default:
        await(&scene->scene.ready, rank->size);
        sleep_ms(30);
        atomic_store(&scene->scene.moment, now_ns());
        rank_ok(rank, plait_world_abort(rank->world, "the disk is full"), "abort");
        rank_status(rank, plait_barrier(rank->comm, NULL), PLAIT_ABORTED, "a barrier after one's own abort");
        break;
    }
}

static void judge_act(struct rank *rank, const struct act *act, plait_status status, int64_t entered)
{
    struct act_scene *scene = rank->shared;
    const int64_t now = now_ns(), pid = atomic_load(&scene->pid);
    const char *name = call_name(act->kind);
    const bool deadline = act->what == ACT_STOP || act->what == ACT_LATE;
    if (deadline) {
        const int64_t took_ms = (now - entered) / 1000000;
        rank_status(rank, status, PLAIT_TIMED_OUT, name);
        rank_check(rank, took_ms >= 100 && took_ms < 1200 * ranks_slowness(),
                   "a deadline of 200 ms took %lld ms", (long long)took_ms);
        judge_sentence(rank, CULPRIT, 0, name);
        judge_comm(rank,
                   1u << PLAIT_FAULT_NOT_ENTERED | (act->what == ACT_STOP ? 1u << PLAIT_FAULT_STUCK : 0),
                   PLAIT_TIMED_OUT, CULPRIT, pid);
        return;
    }
    judge_time(rank, &scene->scene, now, entered);
    if (act->what == ACT_ABORT) {
        rank_status(rank, status, PLAIT_ABORTED, name);
        rank_says(rank, "the disk is full");
        judge_sentence(rank, CULPRIT, 0, name);
        judge_comm(rank, 1u << PLAIT_FAULT_ABORTED, PLAIT_ABORTED, CULPRIT, pid);
        return;
    }
    rank_status(rank, status, PLAIT_PEER_LOST, name);
    judge_sentence(rank, CULPRIT, pid, name);
    judge_comm(rank, 1u << (act->what == ACT_LEAVE ? PLAIT_FAULT_LEFT : PLAIT_FAULT_DIED), PLAIT_PEER_LOST,
               CULPRIT, pid);
}

static void run_act(struct rank *rank)
{
    const struct act *act = rank->context;
    struct act_scene *scene = rank->shared;
    if (rank->number == CULPRIT)
        atomic_store(&scene->pid, getpid());
    if (!rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier"))
        return;
    if (rank->number == CULPRIT) {
        be_culprit(rank, act);
        return;
    }
    struct trial trial;
    if (!rank_check(rank, trial_open(&trial, act->count * 4, rank->size), "no memory"))
        return;
    struct call call = { act->kind, PLAIT_F32, PLAIT_SUM, CULPRIT, act->count };
    struct layout layout = { .spare_output = true };
    trial_prepare(&trial, &call, &layout, 1, rank->number, rank->size);
    if (act->what == ACT_STOP || act->what == ACT_LATE)
        rank_ok(rank, plait_comm_set_timeout(rank->comm, 200), "setting the deadline");
    atomic_fetch_add(&scene->scene.ready, 1);
    if (act->what == ACT_KILL_IDLE || act->what == ACT_STOP) /* the call comes after the deed */
        while (atomic_load(&scene->scene.moment) == 0)
            sleep_ms(1);

    rank_doing(rank, "%s beside the culprit", call_name(act->kind));
    const int64_t entered = now_ns();
    plait_status status = trial_call(&trial, rank->comm, NULL);
    judge_act(rank, act, status, entered);
    atomic_fetch_add(&scene->judged, 1);
    if (act->what == ACT_LATE) /* or it would see us leave */
        await(&scene->judged, rank->size - 1);
    judge_destroy(rank);
    trial_close(&trial);
}

static int64_t one_act(const struct act *act)
{
    struct ranks_setup setup = {
        .way = RANKS_FILE, .size = act->ranks, .limit_s = 30, .shared_size = sizeof(struct act_scene)
    };
    struct ranks *ranks = ranks_start(&setup, run_act, act);
    struct act_scene *scene = ranks_shared(ranks);
    if (act->what == ACT_KILL_IDLE || act->what == ACT_STOP) {
        ranks_excuse(ranks, CULPRIT);
        await(&scene->scene.ready, act->ranks);
        sleep_ms(20);
        ranks_signal(ranks, CULPRIT, act->what == ACT_STOP ? SIGSTOP : SIGKILL);
        if (act->what == ACT_KILL_IDLE)
            ranks_wait(ranks, CULPRIT);
        atomic_store(&scene->scene.moment, now_ns());
        await(&scene->judged, act->ranks - 1);
        ranks_signal(ranks, CULPRIT, SIGKILL);
    }
    for (int i = 0; i < act->ranks; i++)
        ranks_wait(ranks, i);
    const int64_t worst = atomic_load(&scene->scene.worst);
    ranks_finish(ranks);
    return worst;
}

static void act_is_named(void **state)
{
    const struct act *act = *state;
    int64_t times[3];
    times[0] = one_act(act);
    if (act->what == ACT_STOP || act->what == ACT_LATE)
        return;
    times[1] = one_act(act);
    times[2] = one_act(act);
    judge_median(times, 3);
}

static const struct act acts[] = {
    { "killed before a barrier, 2 ranks", 2, ACT_KILL_IDLE, CALL_BARRIER, 0 },
    { "killed before an all-reduce of 1 MiB, 3 ranks", 3, ACT_KILL_IDLE, CALL_ALLREDUCE, 262144 },
    { "killed before a broadcast from it, 4 ranks", 4, ACT_KILL_IDLE, CALL_BROADCAST, 10 },
    { "stopped before an all-reduce, 2 ranks", 2, ACT_STOP, CALL_ALLREDUCE, 10 },
    { "stopped before an all-to-all, 4 ranks", 4, ACT_STOP, CALL_ALLTOALL, 10000 },
    { "late for an all-reduce, 2 ranks", 2, ACT_LATE, CALL_ALLREDUCE, 1 },
    { "late for an all-reduce of 1 MiB, 3 ranks", 3, ACT_LATE, CALL_ALLREDUCE, 262144 },
    { "late for a broadcast from it, 5 ranks", 5, ACT_LATE, CALL_BROADCAST, 1000 },
    { "late for a reduce-scatter, 4 ranks", 4, ACT_LATE, CALL_REDUCE_SCATTER, 1000 },
    { "late for a barrier, 3 ranks", 3, ACT_LATE, CALL_BARRIER, 0 },
    { "left while others wait in a barrier, 2 ranks", 2, ACT_LEAVE, CALL_BARRIER, 0 },
    { "left while others wait in an all-gather, 4 ranks", 4, ACT_LEAVE, CALL_ALLGATHER, 5000 },
    { "aborted while others wait in a barrier, 2 ranks", 2, ACT_ABORT, CALL_BARRIER, 0 },
    { "aborted while others wait in an all-reduce, 5 ranks", 5, ACT_ABORT, CALL_ALLREDUCE, 5000 },
};

/* ------------------------------------------------------ messages and handlers */

struct handler_scene {
    struct act_scene act;
    _Atomic int calls[RANKS_MOST];
    _Atomic int culprit[RANKS_MOST];
};

struct handler_context {
    struct handler_scene *scene;
    int number;
};

static void handle(void *context, const plait_fault *fault)
{
    const struct handler_context *mine = context;
    atomic_store(&mine->scene->culprit[mine->number], fault->culprit);
    atomic_fetch_add(&mine->scene->calls[mine->number], 1);
}

/* A receive from the one that is killed, with a handler that hears of it. */
static void run_receive(struct rank *rank)
{
    const bool any = rank->context != NULL;
    struct handler_scene *scene = rank->shared;
    struct handler_context context = { scene, rank->number };
    plait_world_options options = rank_options(rank);
    int value = 0;
    options.on_fault = handle;
    options.fault_context = &context;
    if (!rank_ok(rank, plait_world_create(&options, &rank->world), "creating the world"))
        return;
    rank->comm = plait_world_comm(rank->world);
    rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
    if (rank->number == CULPRIT) {
        atomic_store(&scene->act.pid, getpid());
        atomic_fetch_add(&scene->act.scene.ready, 1);
        for (;;)
            pause();
    }
    while (atomic_load(&scene->act.pid) == 0)
        sleep_ms(1);
    atomic_fetch_add(&scene->act.scene.ready, 1);
    rank_doing(rank, "receiving from one that will be killed");
    plait_status status =
        plait_recv(rank->comm, &value, 1, PLAIT_I32, any ? PLAIT_ANY_SOURCE : CULPRIT, 0, NULL, NULL, NULL);
    judge_time(rank, &scene->act.scene, now_ns(), 0);
    rank_status(rank, status, PLAIT_PEER_LOST, "a receive");
    judge_sentence(rank, CULPRIT, atomic_load(&scene->act.pid), "rec");
    rank_check(rank,
               atomic_load(&scene->calls[rank->number]) == 1 &&
                   atomic_load(&scene->culprit[rank->number]) == CULPRIT,
               "the handler was called %d times, for rank %d", atomic_load(&scene->calls[rank->number]),
               atomic_load(&scene->culprit[rank->number]));
    rank_check(rank, plait_barrier(rank->comm, NULL) == PLAIT_PEER_LOST, "a barrier afterwards");
    rank_check(rank, atomic_load(&scene->calls[rank->number]) == 1, "the handler was called again");
    judge_destroy(rank);
}

static const struct receive_case {
    const char *name;
    int ranks;
    bool any; /* source: it might have been the dead one to send */
} receives[] = {
    { "a receive from one that is killed, 2 ranks", 2, false },
    { "a receive from one that is killed, 4 ranks", 4, false },
    { "a receive from any source, of which one is killed, 4 ranks", 4, true },
};

static void receiver_is_told(void **state)
{
    const struct receive_case *receive = *state;
    struct ranks_setup setup = {
        .way = RANKS_FILE, .size = receive->ranks, .bare = true, .shared_size = sizeof(struct handler_scene)
    };
    struct ranks *ranks = ranks_start(&setup, run_receive, receive->any ? receive : NULL);
    struct handler_scene *scene = ranks_shared(ranks);
    ranks_excuse(ranks, CULPRIT);
    await(&scene->act.scene.ready, receive->ranks);
    sleep_ms(30);
    atomic_store(&scene->act.scene.moment, now_ns());
    ranks_signal(ranks, CULPRIT, SIGKILL);
    ranks_finish(ranks);
}

/* Those whose communicator the dead one was not in go on. */
static void run_unconcerned(struct rank *rank)
{
    struct act_scene *scene = rank->shared;
    const int others[] = { 0, 2, 3 };
    plait_comm *comm = NULL;
    if (rank->number == CULPRIT) {
        rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
        atomic_fetch_add(&scene->scene.ready, 1);
        for (;;)
            pause();
    }
    rank_ok(rank, plait_comm_group(rank->comm, others, 3, 0, NULL, &comm), "a group of the others");
    rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
    atomic_fetch_add(&scene->scene.ready, 1);
    for (int i = 0; i < 400 && !rank_failed(rank); i++) {
        int value = i, sum = 0;
        rank_doing(rank, "all-reduce %d of those who live", i);
        rank_ok(rank, plait_allreduce(comm, &value, &sum, 1, PLAIT_I32, PLAIT_SUM, NULL),
                "an all-reduce of those who live");
        rank_check(rank, sum == 3 * i, "the sum is %d", sum);
        usleep(200);
    }
    rank_status(rank, plait_barrier(rank->comm, NULL), PLAIT_PEER_LOST, "a barrier with the dead one");
    rank_ok(rank, plait_barrier(comm, NULL), "a barrier of those who live");
    rank_ok(rank, plait_comm_destroy(comm), "destroy");
    judge_destroy(rank);
}

static void unconcerned_go_on(void **state)
{
    (void)state;
    struct ranks_setup setup = { .way = RANKS_FILE, .size = 4, .shared_size = sizeof(struct act_scene) };
    struct ranks *ranks = ranks_start(&setup, run_unconcerned, NULL);
    struct act_scene *scene = ranks_shared(ranks);
    ranks_excuse(ranks, CULPRIT);
    await(&scene->scene.ready, 4);
    sleep_ms(20);
    ranks_signal(ranks, CULPRIT, SIGKILL);
    ranks_finish(ranks);
}

/* --------------------------------------------------------------- at the start */

static const struct start_case {
    const char *name;
    enum ranks_way way;
    int ranks;
    uint64_t absent;
    bool doubled; /* the last rank claims rank 1's number */
    const char *piece;
} starts[] = {
    { "rank 2 of 3 never comes, file", RANKS_FILE, 3, 1 << 2, false, "2" },
    { "ranks 1 and 3 of 5 never come, file", RANKS_FILE, 5, 1 << 1 | 1 << 3, false, "1" },
    { "rank 2 of 3 never comes, environment", RANKS_ENVIRONMENT, 3, 1 << 2, false, "2" },
    { "rank 0 of 3 never comes, environment", RANKS_ENVIRONMENT, 3, 1 << 0, false, "rank 0" },
    { "rank 0 of 2 never comes, file", RANKS_FILE, 2, 1 << 0, false, "0" },
    { "rank 1 of 3 never comes, threads", RANKS_THREADS, 3, 1 << 1, false, "1" },
    { "two with one number, file", RANKS_FILE, 3, 0, true, "rank 1" },
    { "two with one number, environment", RANKS_ENVIRONMENT, 3, 0, true, "rank 1" },
};

static void run_start(struct rank *rank)
{
    const struct start_case *start = rank->context;
    struct scene *scene = rank->shared; /* whose moment is the first rank's begin */
    plait_world_options options = rank_options(rank);
    plait_world *world = NULL;
    if (start->doubled && rank->number == rank->size - 1) {
        if (start->way == RANKS_FILE)
            options.rank = 1;
        setenv("RANK", "1", 1);
    }
    rank_doing(rank, "creating a world that can't be");
    int64_t first = 0;
    const int64_t before = now_ns();
    atomic_compare_exchange_strong(&scene->moment, &first, before);
    plait_status status = plait_world_create(&options, &world);
    const int64_t now = now_ns(), took_ms = (now - before) / 1000000;
    rank_status(rank, status, PLAIT_START_FAILED, "creating a world that can't be");
    rank_says(rank, start->piece);
    /* A rank that began late may hear of the deadline of one that began before it. */
    rank_check(rank, start->doubled || now - atomic_load(&scene->moment) >= 350000000,
               "it gave up after %lld ms", (long long)took_ms);
    rank_check(rank, took_ms < 1400 * ranks_slowness(), "it took %lld ms", (long long)took_ms);
}

static void start_fails(void **state)
{
    const struct start_case *start = *state;
    struct ranks_setup setup = { .way = start->way,
                                 .size = start->ranks,
                                 .absent = start->absent,
                                 .bare = true,
                                 .start_timeout_ms = 400,
                                 .shared_size = sizeof(struct scene) };
    ranks_run(&setup, run_start, start);
}

/* So long that on a busy machine no living rank is late, too: only the dead one is to be named. */
enum { BIRTH_MS = 2000 };

/* One is killed while the world comes together: the others hear of it at the start, or by the first call. */
static void run_birth(struct rank *rank)
{
    struct scene *scene = rank->shared;
    plait_world_options options = rank_options(rank);
    atomic_fetch_add(&scene->ready, 1);
    if (mix((uint64_t)rank->number) & 1)
        usleep(3000);
    rank_doing(rank, "creating a world in which one is killed");
    const int64_t before = now_ns();
    plait_status status = plait_world_create(&options, &rank->world);
    if (status == PLAIT_OK) {
        rank_doing(rank, "the first calls of a world in which one is killed");
        rank->comm = plait_world_comm(rank->world);
        while (status == PLAIT_OK)
            status = plait_barrier(rank->comm, NULL);
        rank_status(rank, status, PLAIT_PEER_LOST, "a barrier");
    } else {
        rank_status(rank, status, PLAIT_START_FAILED, "creating a world in which one is killed");
    }
    rank_says(rank, "rank 1");
    const int64_t took_ms = (now_ns() - before) / 1000000;
    rank_check(rank, took_ms < BIRTH_MS + 1000 * ranks_slowness(), "it took %lld ms", (long long)took_ms);
}

static void birth_is_survived(void **state)
{
    const enum ranks_way *way = *state;
    for (int i = 0; i < 1 + 5 * test_settings()->scale / 100; i++) {
        struct ranks_setup setup = { .way = *way,
                                     .size = 3,
                                     .bare = true,
                                     .start_timeout_ms = BIRTH_MS,
                                     .limit_s = 20,
                                     .shared_size = sizeof(struct scene) };
        struct ranks *ranks = ranks_start(&setup, run_birth, NULL);
        struct scene *scene = ranks_shared(ranks);
        ranks_excuse(ranks, CULPRIT);
        await(&scene->ready, 3);
        usleep((useconds_t)(mix(test_settings()->seed + (uint64_t)i) % 12000));
        ranks_signal(ranks, CULPRIT, SIGKILL);
        ranks_finish(ranks);
    }
}

/* -------------------------------------------------------------------------- */

int main(void)
{
    test_settings();
    static struct CMUnitTest tests[LENGTH(deaths) + LENGTH(acts) + LENGTH(starts) + 8];
    size_t count = 0;
    for (size_t i = 0; i < LENGTH(starts); i++)
        tests[count++] = (struct CMUnitTest){ starts[i].name, start_fails, NULL, NULL, (void *)&starts[i] };
    for (size_t i = 0; i < LENGTH(acts); i++)
        tests[count++] = (struct CMUnitTest){ acts[i].name, act_is_named, NULL, NULL, (void *)&acts[i] };
    for (size_t i = 0; i < LENGTH(receives); i++)
        tests[count++] =
            (struct CMUnitTest){ receives[i].name, receiver_is_told, NULL, NULL, (void *)&receives[i] };
    tests[count++] =
        (struct CMUnitTest){ "a communicator without the dead one", unconcerned_go_on, NULL, NULL, NULL };
    static enum ranks_way ways[] = { RANKS_FILE, RANKS_ENVIRONMENT };
    tests[count++] =
        (struct CMUnitTest){ "killed at the start, file", birth_is_survived, NULL, NULL, &ways[0] };
    tests[count++] =
        (struct CMUnitTest){ "killed at the start, environment", birth_is_survived, NULL, NULL, &ways[1] };
    for (size_t i = 0; i < LENGTH(deaths); i++)
        tests[count++] =
            (struct CMUnitTest){ deaths[i].name, survivors_are_told, NULL, NULL, (void *)&deaths[i] };
    return check_run("faults", tests, count);
}
