/* plait-perf copy: how fast bytes are copied, by stores that stay in the caches and by stores past them. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "device/copy.h"
#include "measure.h"
#include "micro.h"
#include "text.h"

enum {
    CORES_MOST = 64,
    SHARED_NS = 30000000,
    CLOCK_BYTES = 1 << 20 /* between looks at the clock, which cost as much as a small copy */
};

typedef void (*copy_fn)(void *to, const void *from, size_t size);

struct copier {
    copy_fn copy;
    void *to;
    const void *from;
    size_t size;
};

static void copy_by_memcpy(void *to, const void *from, size_t size)
{
    memcpy(to, from, size);
}

static void run_copy(void *context)
{
    const struct copier *copier = context;
    copier->copy(copier->to, copier->from, copier->size);
}

/* ------------------------------------------------------------ all cores at once */

struct crew {
    copy_fn copy;
    size_t size;
    int cores;
    pthread_barrier_t start;
};

struct hand {
    struct crew *crew;
    int cpu;
    double gbs;
};

static void *copy_along(void *context)
{
    struct hand *hand = context;
    size_t size = hand->crew->size, copied = 0;
    micro_bind(hand->cpu);
    void *to = micro_memory(size), *from = micro_memory(size);
    hand->crew->copy(to, from, size);
    pthread_barrier_wait(&hand->crew->start);
    double start = measure_ns(), now = start;
    while (now - start < SHARED_NS) {
        size_t end = copied + CLOCK_BYTES;
        for (; copied < end; copied += size)
            hand->crew->copy(to, from, size);
        now = measure_ns();
    }
    hand->gbs = (double)copied / (now - start);
    free(to);
    free(from);
    return NULL;
}

/* The rates of all cores, added up; 0 if threads can't be had. */
static double rate_together(copy_fn copy, size_t size, int cores)
{
    struct crew crew = { .copy = copy, .size = size, .cores = cores };
    struct hand hands[CORES_MOST];
    pthread_t threads[CORES_MOST];
    double sum = 0;
    pthread_barrier_init(&crew.start, NULL, (unsigned)cores);
    for (int i = 0; i < cores; i++) {
        hands[i] = (struct hand){ .crew = &crew, .cpu = micro_cpu(i) };
        if (pthread_create(&threads[i], NULL, copy_along, &hands[i]) != 0) {
            fprintf(stderr, "plait-perf: can't start thread %d of %d\n", i, cores);
            exit(EXIT_FAILURE); /* those that are there wait for it */
        }
    }
    for (int i = 0; i < cores; i++) {
        pthread_join(threads[i], NULL);
        sum += hands[i].gbs;
    }
    pthread_barrier_destroy(&crew.start);
    return sum;
}

/* ------------------------------------------------------------------------ table */

static int count_cores(void)
{
    int cores = 0;
    while (cores < CORES_MOST && micro_cpu(cores) >= 0)
        cores++;
    return cores;
}

static void report(const struct micro *micro, size_t size, const double *alone, const double *together,
                   int cores)
{
    char text[TEXT_SIZE_BYTES];
    if (micro->table) {
        fprintf(micro->table, "%11s ", text_size(size, text));
        for (int i = 0; i < 3; i++)
            text_number(micro->table, 10, alone[i]);
        fputs("    ", micro->table);
        for (int i = 0; i < 3; i++)
            text_number(micro->table, 10, together[i]);
        fputc('\n', micro->table);
        fflush(micro->table);
    }
    if (micro->json) {
        fprintf(micro->json, "{\"micro\": \"copy\", \"bytes\": %zu, \"cores\": %d", size, cores);
        json_number(micro->json, "cached_gbs", alone[0]);
        json_number(micro->json, "streamed_gbs", alone[1]);
        json_number(micro->json, "memcpy_gbs", alone[2]);
        json_number(micro->json, "cached_all_gbs", together[0]);
        json_number(micro->json, "streamed_all_gbs", together[1]);
        json_number(micro->json, "memcpy_all_gbs", together[2]);
        fputs("}\n", micro->json);
    }
}

static bool run(struct micro *micro)
{
    static const copy_fn kinds[] = { copy_cached, copy_streamed, copy_by_memcpy };
    int cores = count_cores();
    void *to = micro_memory(micro->most_bytes), *from = micro_memory(micro->most_bytes);
    if (micro->table)
        fprintf(micro->table,
                "# GB/s of bytes copied (twice as much is read and written)\n#\n"
                "#                        one core                    %d %s at once\n"
                "#      size     cached  streamed    memcpy        cached  streamed    memcpy\n",
                cores, cores == 1 ? "core" : "cores");
    for (size_t size = micro->least_bytes; size <= micro->most_bytes; size *= 4) {
        double alone[3], together[3];
        for (int i = 0; i < 3; i++) {
            struct copier copier = { kinds[i], to, from, size };
            alone[i] = (double)size / micro_time(run_copy, &copier);
            together[i] = rate_together(kinds[i], size, cores);
        }
        report(micro, size, alone, together, cores);
    }
    free(to);
    free(from);
    return true;
}

const struct micro_tool micro_copy = {
    .name = "copy",
    .accepts = "beJ",
    .least_bytes = 4096,
    .most_bytes = (size_t)64 << 20,
    .doc = "How fast bytes are copied: cached (ordinary stores), streamed (past the caches), and by the C "
           "library.",
    .explanation =
        "Staging is written cached between near cores and streamed between far ones; outputs larger than a "
        "third of the last cache are streamed.",
    .run = run,
};
