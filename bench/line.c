/* plait-perf line: what a cache line costs between two cores, each way. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/pause.h"
#include "base/ticks.h"
#include "measure.h"
#include "micro.h"
#include "text.h"

enum {
    ROUNDS = 50,   /* of a batch; every other batch has no stamps, since a look at the counter takes time */
    BATCHES = 400, /* of which a tenth warms up */
    WARMUPS = 40,
    CORES_MOST = 64,
    YIELD_EVERY = 4096,
    FAR_LINE_NS = 120 /* what the library takes for far */
};

/* A word in a line of its own, with one writer: the writer's ticks as it wrote, or just another number. */
struct word {
    _Alignas(128) _Atomic uint64_t ticks;
};

struct way {
    struct word ping, pong;
    int cpus[2];
    double there[BATCHES], back[BATCHES], half[BATCHES]; /* ticks: of a line, and of half a round trip */
};

/* Waits for the word to change; how old it is when it is seen. */
static double await(const struct word *word, uint64_t *last, bool stamped)
{
    for (unsigned turn = 1;; turn++) {
        uint64_t ticks = atomic_load_explicit(&word->ticks, memory_order_acquire);
        if (ticks != *last) {
            *last = ticks;
            return stamped ? (double)(int64_t)(ticks_now() - ticks) : 0;
        }
        pause_briefly();
        if (turn % YIELD_EVERY == 0)
            sched_yield();
    }
}

/* Ticks that differ from those before, whatever the counter's step. */
static void say(struct word *word, uint64_t *said, bool stamped)
{
    uint64_t now = stamped ? ticks_now() : 0;
    *said = now > *said ? now : *said + 1;
    atomic_store_explicit(&word->ticks, *said, memory_order_release);
}

static void *answer(void *context)
{
    struct way *way = context;
    uint64_t seen = 0, said = 0;
    micro_bind(way->cpus[1]);
    for (int batch = 0; batch < 2 * BATCHES; batch++) {
        double there = 0;
        for (int round = 0; round < ROUNDS; round++) {
            there += await(&way->ping, &seen, batch % 2);
            say(&way->pong, &said, batch % 2);
        }
        way->there[batch / 2] = there / ROUNDS;
    }
    return NULL;
}

static void ask(struct way *way)
{
    uint64_t seen = 0, said = 0;
    micro_bind(way->cpus[0]);
    for (int batch = 0; batch < 2 * BATCHES; batch++) {
        double back = 0;
        uint64_t start = ticks_now();
        for (int round = 0; round < ROUNDS; round++) {
            say(&way->ping, &said, batch % 2);
            back += await(&way->pong, &seen, batch % 2);
        }
        if (batch % 2)
            way->back[batch / 2] = back / ROUNDS;
        else
            way->half[batch / 2] = (double)(ticks_now() - start) / (2.0 * ROUNDS);
    }
}

static void *run_asker(void *context)
{
    ask(context);
    return NULL;
}

static bool travel(struct way *way)
{
    pthread_t threads[2];
    if (pthread_create(&threads[0], NULL, run_asker, way) != 0)
        return false;
    if (pthread_create(&threads[1], NULL, answer, way) != 0)
        exit(EXIT_FAILURE); /* the other waits for it */
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return true;
}

static void report(const struct micro *micro, struct way *way, double tick_ns)
{
    enum { COUNT = BATCHES - WARMUPS };
    double there = measure_median(way->there + WARMUPS, COUNT) * tick_ns;
    double back = measure_median(way->back + WARMUPS, COUNT) * tick_ns;
    double *half = way->half + WARMUPS, median = measure_median(half, COUNT) * tick_ns; /* sorts them */
    double best = half[0] * tick_ns, p95 = half[COUNT * 95 / 100] * tick_ns,
           worst = half[COUNT - 1] * tick_ns;
    if (micro->table) {
        fprintf(micro->table, "%5d %5d ", way->cpus[0], way->cpus[1]);
        for (int i = 0; i < 6; i++)
            text_number(micro->table, 9, (const double[]){ best, median, p95, worst, there, back }[i]);
        fprintf(micro->table, "   %s\n", median > FAR_LINE_NS ? "far" : "near");
        fflush(micro->table);
    }
    if (micro->json) {
        fprintf(micro->json, "{\"micro\": \"line\", \"cpus\": [%d, %d]", way->cpus[0], way->cpus[1]);
        json_number(micro->json, "best_ns", best);
        json_number(micro->json, "median_ns", median);
        json_number(micro->json, "p95_ns", p95);
        json_number(micro->json, "max_ns", worst);
        json_number(micro->json, "there_ns", there);
        json_number(micro->json, "back_ns", back);
        fputs("}\n", micro->json);
    }
}

static bool run(struct micro *micro)
{
    struct way *way = aligned_alloc(_Alignof(struct way), sizeof *way);
    if (!way || micro_cpu(1) < 0) {
        fprintf(stderr, "plait-perf: line needs two cores, and %s\n", way ? "one is allowed" : "memory");
        free(way);
        return false;
    }
    if (micro->table)
        fprintf(micro->table, "# Nanoseconds that a cache line takes from one core to another\n#\n"
                              "#               half a round trip                 one way\n"
                              "# cpu   cpu      best   median      p95      max    there     back\n");
    bool good = true;
    for (int i = 1; i < CORES_MOST && micro_cpu(i) >= 0 && good; i++) {
        *way = (struct way){ .cpus = { micro_cpu(0), micro_cpu(i) } };
        uint64_t ticks = ticks_now();
        double start = measure_ns();
        good = travel(way);
        report(micro, way, (measure_ns() - start) / (double)(ticks_now() - ticks));
    }
    free(way);
    return good;
}

const struct micro_tool micro_line = {
    .name = "line",
    .accepts = "J",
    .doc =
        "What a cache line costs between the first core and each other one, each way, and how that spreads.",
    .explanation = "A batch is 50 round trips; best, median, 95th percentile and greatest are of 360 "
                   "batches. One way is told "
                   "by the processor's counter, which the cores have in common: where it is not quite the "
                   "same, \"there\" and "
                   "\"back\" differ by twice the difference. In a virtual machine cores move: measure again. "
                   "The library takes "
                   "cores whose line costs more than 120 ns for far, and then writes past the caches what "
                   "others are to read.",
    .run = run,
};
