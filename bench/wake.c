/* plait-perf wake: how long it takes until somebody who waits goes on, by the ways of waiting there are. */
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/ticks.h"
#include "measure.h"
#include "micro.h"
#include "text.h"

enum { TIMES = 201, CALLS = 200, ASLEEP_NS = 300000, NAP_NS = 50000, BARRIERS = 41 };

/* Values of one row, in nanoseconds. */
struct series {
    double values[TIMES];
    int count;
};

static void report(const struct micro *micro, const char *key, const char *text, struct series *series)
{
    double median = measure_median(series->values, series->count) / 1000;
    double best = series->values[0] / 1000, worst = series->values[series->count - 1] / 1000;
    double p95 = series->values[series->count * 95 / 100] / 1000;
    if (micro->table) {
        for (int i = 0; i < 4; i++)
            text_number(micro->table, 10, (const double[]){ best, median, p95, worst }[i]);
        fprintf(micro->table, "  %s\n", text);
        fflush(micro->table);
    }
    if (micro->json) {
        fprintf(micro->json, "{\"micro\": \"wake\", \"what\": \"%s\"", key);
        json_number(micro->json, "best_us", best);
        json_number(micro->json, "median_us", median);
        json_number(micro->json, "p95_us", p95);
        json_number(micro->json, "max_us", worst);
        fputs("}\n", micro->json);
    }
}

static void rest(long ns)
{
    nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
}

static void start_thread(pthread_t *thread, void *(*function)(void *), void *context)
{
    if (pthread_create(thread, NULL, function, context) == 0)
        return;
    fprintf(stderr, "plait-perf: can't start a thread\n");
    exit(EXIT_FAILURE);
}

/* ------------------------------------------------------------------- calls alone */

static void look_at_ticks(void)
{
    ticks_now();
}

static void look_at_clock(void)
{
    measure_ns();
}

static void yield(void)
{
    sched_yield();
}

static _Atomic uint32_t nobodys;

static void wake_nobody(void)
{
    syscall(SYS_futex, &nobodys, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void nap(void)
{
    rest(NAP_NS);
}

static struct series time_calls(void (*function)(void), int calls)
{
    struct series series = { .count = TIMES };
    for (int i = 0; i < TIMES; i++) {
        double start = measure_ns();
        for (int call = 0; call < calls; call++)
            function();
        series.values[i] = (measure_ns() - start) / calls;
    }
    return series;
}

/* ------------------------------------------------------------ one wakes another */

struct bed {
    _Atomic uint32_t word;
    _Atomic uint64_t called; /* ticks as the sleeper was called */
    int cpu;
    bool yields;                   /* the sleeper gives its core away instead of sleeping */
    struct series *until, *caller; /* it goes on; the call has returned */
    double tick_ns;
};

static void *sleep_in(void *context)
{
    struct bed *bed = context;
    if (bed->cpu >= 0)
        micro_bind(bed->cpu);
    for (uint32_t seen = 0; seen < TIMES; seen++) {
        while (atomic_load(&bed->word) == seen) {
            if (bed->yields)
                sched_yield();
            else
                syscall(SYS_futex, &bed->word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
        }
        uint64_t now = ticks_now(), called = atomic_load(&bed->called);
        bed->until->values[seen] = now > called ? (double)(now - called) * bed->tick_ns : 0;
    }
    return NULL;
}

static void call(struct bed *bed, int time)
{
    uint64_t start = ticks_now();
    atomic_store(&bed->called, start);
    atomic_fetch_add(&bed->word, 1);
    if (bed->yields)
        sched_yield();
    else
        syscall(SYS_futex, &bed->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    bed->caller->values[time] = (double)(ticks_now() - start) * bed->tick_ns;
}

/* Wakes a thread on `cpu`, again and again, each time once it has surely fallen asleep. */
static void wake(int cpu, bool yields, double tick_ns, struct series *until, struct series *caller)
{
    struct bed bed = { .cpu = cpu, .yields = yields, .until = until, .caller = caller, .tick_ns = tick_ns };
    pthread_t sleeper;
    until->count = caller->count = TIMES;
    start_thread(&sleeper, sleep_in, &bed);
    for (int time = 0; time < TIMES; time++) {
        if (yields)
            sched_yield();
        else
            rest(ASLEEP_NS);
        call(&bed, time);
    }
    pthread_join(sleeper, NULL);
}

/* ------------------------------------------------------------- ranks of a world */

struct meeting {
    plait_thread_group *group;
    long late_ns; /* rank 1 comes so much later */
    _Atomic uint64_t came;
    double tick_ns;
    struct series until;
    bool failed;
};

static plait_status meet(struct meeting *meeting, plait_comm *comm, int rank)
{
    plait_status status = PLAIT_OK;
    meeting->until.count = BARRIERS;
    for (int i = 0; i < BARRIERS && status == PLAIT_OK; i++) {
        status = plait_barrier(comm, NULL);
        if (rank == 1) {
            rest(meeting->late_ns);
            atomic_store(&meeting->came, ticks_now());
        }
        if (status == PLAIT_OK)
            status = plait_barrier(comm, NULL);
        uint64_t now = ticks_now(), came = atomic_load(&meeting->came);
        if (rank == 0)
            meeting->until.values[i] = now > came ? (double)(now - came) * meeting->tick_ns : 0;
    }
    return status;
}

struct guest {
    struct meeting *meeting;
    int rank;
};

static void *attend(void *context)
{
    struct guest *guest = context;
    plait_world *world = NULL;
    plait_world_options options = {
        .struct_size = sizeof options, .threads = guest->meeting->group, .rank = guest->rank, .size = 2
    };
    plait_status status = plait_world_create(&options, &world);
    if (micro_cpu(1) >= 0)
        micro_bind(micro_cpu(guest->rank));
    if (status == PLAIT_OK)
        status = meet(guest->meeting, plait_world_comm(world), guest->rank);
    if (status != PLAIT_OK) {
        fprintf(stderr, "plait-perf: rank %d: %s\n", guest->rank, plait_last_error());
        guest->meeting->failed = true;
    }
    plait_world_destroy(world);
    return NULL;
}

static bool measure_late(const struct micro *micro, long late_ns, double tick_ns, const char *key,
                         const char *text)
{
    struct meeting meeting = { .late_ns = late_ns, .tick_ns = tick_ns };
    struct guest guests[2] = { { &meeting, 0 }, { &meeting, 1 } };
    pthread_t threads[2];
    if (plait_thread_group_create(2, &meeting.group) != PLAIT_OK)
        return false;
    for (int i = 0; i < 2; i++)
        start_thread(&threads[i], attend, &guests[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    plait_thread_group_destroy(meeting.group);
    if (!meeting.failed)
        report(micro, key, text, &meeting.until);
    return !meeting.failed;
}

/* ------------------------------------------------------------------------ table */

static double measure_tick(void)
{
    uint64_t ticks = ticks_now();
    double start = measure_ns();
    rest(10000000);
    return (measure_ns() - start) / (double)(ticks_now() - ticks);
}

static void measure_calls(const struct micro *micro)
{
    struct series series = time_calls(look_at_ticks, CALLS);
    report(micro, "ticks", "a look at the processor's counter", &series);
    series = time_calls(look_at_clock, CALLS);
    report(micro, "clock", "a look at the clock", &series);
    series = time_calls(yield, CALLS);
    report(micro, "yield", "a yield, when nobody else wants the core", &series);
    series = time_calls(wake_nobody, CALLS);
    report(micro, "wake_nobody", "a wake-up call, when nobody sleeps", &series);
    series = time_calls(nap, 1);
    report(micro, "nap", "a nap of 50 us", &series);
}

static void measure_wakes(const struct micro *micro, double tick_ns)
{
    struct series until = { 0 }, caller = { 0 };
    int here = micro_cpu(0), there = micro_cpu(1);
    micro_bind(here);
    if (there >= 0) {
        wake(there, false, tick_ns, &until, &caller);
        report(micro, "wake_there", "from the call until a sleeper on another core goes on", &until);
        report(micro, "wake_there_caller", "... until its caller goes on", &caller);
    }
    wake(here, false, tick_ns, &until, &caller);
    report(micro, "wake_here", "from the call until a sleeper on the caller's own core goes on", &until);
    wake(here, true, tick_ns, &until, &caller);
    report(micro, "yield_here", "from one thread to another on its core, by yields", &until);
}

static bool run(struct micro *micro)
{
    double tick_ns = measure_tick();
    if (micro->table)
        fprintf(micro->table, "# Microseconds\n#\n#     best    median       p95       max\n");
    /* Before the thread is bound: threads inherit that. */
    bool good =
        measure_late(micro, 1000, tick_ns, "rank_soon",
                     "a barrier: from the last rank's coming until one that came 60 us before has left") &&
        measure_late(micro, 500000, tick_ns, "rank_yields",
                     "... until one that came 0.6 ms before, and yields by now, has left") &&
        measure_late(micro, 5000000, tick_ns, "rank_sleeps",
                     "... until one that came 5 ms before, and sleeps by now, has left");
    if (good) {
        measure_calls(micro);
        measure_wakes(micro, tick_ns);
    }
    return good;
}

const struct micro_tool micro_wake = {
    .name = "wake",
    .accepts = "J",
    .doc = "How long it takes until somebody who waits goes on: a rank that sleeps, a thread that yields.",
    .explanation =
        "A rank that waits spins for some 50 us, yields for a millisecond and then sleeps until it is "
        "woken, at most a millisecond at a time.",
    .run = run,
};
