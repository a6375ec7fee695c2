/* plait-perf kernels: how fast the reduction kernels are, beside the plainest loop that moves as much. */
#include <stdlib.h>
#include <string.h>

#include "device/reduce.h"
#include "micro.h"
#include "text.h"

enum { SIZES_MOST = 16 };

struct arrays {
    void *a, *b, *result;
    size_t size;
    plait_type type;
    reduce_fn kernel;
};

static void run_kernel(void *context)
{
    struct arrays *arrays = context;
    const void *sources[2] = { arrays->a, arrays->b };
    struct reduction reduction = { .result = arrays->result,
                                   .sources = sources,
                                   .source_count = 2,
                                   .count = arrays->size / plait_type_size(arrays->type) };
    arrays->kernel(&reduction);
}

/* Two reads, one write, and next to nothing in between. */
#define MOVE_LOOP                                                                                            \
    for (size_t i = 0; i < count; i++)                                                                       \
        result[i] = a[i] | b[i];

#define MOVE_ARGUMENTS                                                                                       \
    size_t *restrict result, const size_t *restrict a, const size_t *restrict b, size_t count

#if defined(__x86_64__)
__attribute__((target("avx512f,prefer-vector-width=512"), optimize("O3"))) static void move_512(
    MOVE_ARGUMENTS)
{
    MOVE_LOOP
}
__attribute__((target("avx2"), optimize("O3"))) static void move_256(MOVE_ARGUMENTS)
{
    MOVE_LOOP
}
#endif

__attribute__((optimize("O3"))) static void move_plainly(MOVE_ARGUMENTS)
{
    MOVE_LOOP
}

static void run_reference(void *context)
{
    struct arrays *arrays = context;
    void (*move)(MOVE_ARGUMENTS) = move_plainly;
#if defined(__x86_64__)
    move = __builtin_cpu_supports("avx512f") ? move_512
           : __builtin_cpu_supports("avx2")  ? move_256
                                             : move_plainly;
#endif
    move(arrays->result, arrays->a, arrays->b, arrays->size / sizeof(size_t));
}

/* GB/s of one array. */
static double rate(struct arrays *arrays, void (*function)(void *))
{
    return (double)arrays->size / micro_time(function, arrays);
}

static int sizes_of(const struct micro *micro, size_t *sizes)
{
    int count = 0;
    for (size_t size = micro->least_bytes; size <= micro->most_bytes && count < SIZES_MOST; size *= 4)
        sizes[count++] = size / 64 * 64;
    return count;
}

static void print_head(FILE *table, const size_t *sizes, int count)
{
    char text[TEXT_SIZE_BYTES];
    fprintf(
        table,
        "# GB/s of each array in result = a op b (three times as much is read and written), on one core;\n"
        "# behind it percent of a plain loop that reads two arrays and writes one\n#\n");
    fprintf(table, "# %7s %6s %13s", "set", "type", "op");
    for (int i = 0; i < count; i++)
        fprintf(table, " %14s", text_size(sizes[i], text));
    fputc('\n', table);
}

/* One row; `kernel` NULL is the plain loop, whose rates go to `plain`. */
static void measure_row(const struct micro *micro, struct arrays *arrays, const char *set, plait_op op,
                        const size_t *sizes, int count, double *plain)
{
    const char *type = arrays->kernel ? plait_type_name(arrays->type) : "any";
    const char *name = arrays->kernel ? plait_op_name(op) : "none";
    if (micro->table)
        fprintf(micro->table, "%9s %6s %13s", set, type, name);
    for (int i = 0; i < count; i++) {
        arrays->size = sizes[i];
        double gbs = rate(arrays, arrays->kernel ? run_kernel : run_reference);
        if (!arrays->kernel)
            plain[i] = gbs;
        if (micro->table) {
            text_number(micro->table, 9, gbs);
            fprintf(micro->table, " %3.0f %%", 100 * gbs / plain[i]);
            fflush(micro->table);
        }
        if (micro->json) {
            fprintf(
                micro->json,
                "{\"micro\": \"kernels\", \"set\": \"%s\", \"type\": \"%s\", \"op\": \"%s\", \"bytes\": %zu",
                set, type, name, sizes[i]);
            json_number(micro->json, "gbs", gbs);
            json_number(micro->json, "to_plain", gbs / plain[i]);
            fputs("}\n", micro->json);
        }
    }
    if (micro->table)
        fputc('\n', micro->table);
}

static bool measure_set(const struct micro *micro, struct arrays *arrays, const char *set,
                        const size_t *sizes, int count, double *plain)
{
    if (!reduce_use(set))
        return false;
    for (int t = 0; t < micro->type_count; t++) {
        for (int o = 0; o < micro->op_count; o++) {
            arrays->type = micro->types[t];
            arrays->kernel = reduce_find(arrays->type, micro->ops[o]);
            if (arrays->kernel && micro->ops[o] != PLAIT_AVERAGE) /* which is sum's */
                measure_row(micro, arrays, reduce_set_name(), micro->ops[o], sizes, count, plain);
        }
    }
    return true;
}

static bool run(struct micro *micro)
{
    static const char *const sets[] = { "avx512", "avx2", "neon", "scalar" };
    size_t sizes[SIZES_MOST];
    double plain[SIZES_MOST] = { 0 };
    int count = sizes_of(micro, sizes);
    bool all = strcmp(micro->set, "all") == 0, found = all;
    struct arrays arrays = { .a = micro_memory(micro->most_bytes),
                             .b = micro_memory(micro->most_bytes),
                             .result = micro_memory(micro->most_bytes) };
    micro_bind(micro_cpu(0));
    if (!all && !reduce_use(micro->set)) {
        fprintf(stderr,
                "plait-perf: --set %s: this machine has no such kernels; good values are auto, avx512, "
                "avx2, neon, scalar (as far as it has them), all\n",
                micro->set);
    } else {
        found = true;
        if (micro->table)
            print_head(micro->table, sizes, count);
        measure_row(micro, &arrays, "plain", (plait_op)0, sizes, count, plain);
        for (size_t i = 0; i < sizeof sets / sizeof sets[0] && all; i++)
            measure_set(micro, &arrays, sets[i], sizes, count, plain);
        if (!all)
            measure_set(micro, &arrays, micro->set, sizes, count, plain);
    }
    free(arrays.a);
    free(arrays.b);
    free(arrays.result);
    return found;
}

const struct micro_tool micro_kernels = {
    .name = "kernels",
    .accepts = "dosbeJ",
    .least_bytes = 16384,
    .most_bytes = (size_t)64 << 20,
    .doc = "How fast the reduction kernels are: types, operations and sets of kernels, in each cache and in "
           "memory.",
    .explanation =
        "Sums should reach what the plain loop does, which only moves the bytes: it is the machine's limit "
        "for two reads and a write. 16-bit floats are widened, added and rounded on the way.",
    .run = run,
};
