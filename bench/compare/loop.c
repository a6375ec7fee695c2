#include "loop.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "control.h"
#include "line.h"

enum {
    SPANS_MOST = 15, /* many short spans rather than a few long ones: a stray preemption spoils few */
    SPANS_LEAST = 3,
    ITERATIONS_MOST = 1 << 20,
    PAGE = 4096,
    CACHE_LINE = 64,
    CPUS_MOST = 1024,
};

/* Buffers kept for the next row; larger ones go back, for other peers need memory in their turn. */
static const size_t KEPT_MOST = (size_t)16 << 20;

/* One row as the driver orders it. */
struct order {
    struct call call;
    enum memory memory;
    size_t bytes;
    size_t pool;    /* bytes of buffers that the calls rotate through; 0: one buffer */
    double seconds; /* of timed calls */
};

struct result {
    double least_us, median_us, most_us;
    int spans, iterations;
    double line_before_ns, line_after_ns;
    bool right;
};

struct loop {
    const struct backend *backend;
    int rank, ranks;
    int cpus[CPUS_MOST], cpu_count;
    FILE *orders, *answers; /* rank 0's */
    char *memory[MEMORIES];
    size_t kept[MEMORIES];
};

static const char *const collective_names[COLLECTIVES] = { "all_reduce",     "all_gather", "broadcast",
                                                           "reduce_scatter", "all_to_all", "barrier" };
static const char *const type_names[TYPES] = { "float32", "bfloat16" };
static const char *const memory_names[MEMORIES] = { "private", "registered" };

static int find_name(const char *const *names, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    fprintf(stderr, "compare: no such name: %s\n", name);
    exit(EXIT_FAILURE);
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ----------------------------------------------------------------- buffers */

/* Touched, so that no page is missing when the clock runs; zeros, whose sums stay as they are. */
static char *take_memory(struct loop *loop, enum memory memory, size_t size)
{
    size_t rounded = (size + PAGE - 1) / PAGE * PAGE;
    if (!loop->memory[memory] || loop->kept[memory] < rounded) {
        if (memory == REGISTERED)
            loop->memory[memory] = loop->backend->allocate(rounded);
        else
            loop->memory[memory] =
                mmap(NULL, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (!loop->memory[memory] || loop->memory[memory] == MAP_FAILED) {
            fprintf(stderr, "compare: rank %d: no %s memory of %zu bytes\n", loop->rank, memory_names[memory],
                    rounded);
            exit(EXIT_FAILURE);
        }
        loop->kept[memory] = rounded;
    }
    memset(loop->memory[memory], 0, rounded);
    return loop->memory[memory];
}

static void give_memory(struct loop *loop, enum memory memory)
{
    if (!loop->memory[memory])
        return;
    if (memory == REGISTERED)
        loop->backend->release(loop->memory[memory]);
    else
        munmap(loop->memory[memory], loop->kept[memory]);
    loop->memory[memory] = NULL;
    loop->kept[memory] = 0;
}

/* Output first, then all-to-all's input. */
static size_t buffer_size(const struct order *order)
{
    return order->call.collective == ALL_TO_ALL ? 2 * order->bytes : order->bytes;
}

/* Full pages and a few lines, so that buffers do not all fall on the same sets of the caches. */
static size_t stride(const struct order *order)
{
    return (buffer_size(order) + PAGE - 1) / PAGE * PAGE + (size_t)3 * CACHE_LINE;
}

static size_t rotations(const struct order *order)
{
    size_t count = order->pool / stride(order);
    return order->pool == 0 ? 1 : count < 2 ? 2 : count;
}

static void place(const struct loop *loop, const struct order *order, char *buffer, struct call *call)
{
    call->output = buffer;
    call->input = buffer;
    if (call->collective == ALL_TO_ALL)
        call->input = buffer + order->bytes;
    if (call->collective == ALL_GATHER)
        call->input = buffer + (size_t)loop->rank * call->count * type_size(call->type);
}

/* ------------------------------------------------------------------ timing */

static void make_call(const struct loop *loop, const struct call *call)
{
    if (!loop->backend->collective(call)) {
        fprintf(stderr, "compare: rank %d: %s failed\n", loop->rank, collective_names[call->collective]);
        _exit(EXIT_FAILURE); /* the others may wait for us for ever; the driver ends them */
    }
}

/* Whether all ranks have the right answer. */
static bool check(const struct loop *loop, const struct order *order, char *buffer)
{
    struct call call = order->call;
    place(loop, order, buffer, &call);
    call.root = loop->ranks - 1;
    check_fill(&call, loop->rank, loop->ranks);
    control_barrier();
    make_call(loop, &call);
    const char *output = buffer;
    if (call.collective == REDUCE_SCATTER && !loop->backend->scatters_to_front)
        output += (size_t)loop->rank * call.count * type_size(call.type);
    return control_most(!check_output(&call, output, loop->rank, loop->ranks)) == 0;
}

/* Where the next call finds its buffer and root. A root that rotates keeps any from running ahead,
 * so a broadcast's time is a latency. */
struct turn {
    size_t buffer;
    int root;
};

/* Seconds a call of the slowest rank, over `iterations` calls back to back. */
static double time_calls(const struct loop *loop, const struct order *order, char *memory, int iterations,
                         struct turn *turn)
{
    struct call call = order->call;
    size_t step = stride(order), buffers = rotations(order);
    control_barrier();
    double began = now_s();
    for (int i = 0; i < iterations; i++) {
        place(loop, order, memory + turn->buffer * step, &call);
        call.root = turn->root;
        make_call(loop, &call);
        turn->buffer = turn->buffer + 1 < buffers ? turn->buffer + 1 : 0;
        turn->root = turn->root + 1 < loop->ranks ? turn->root + 1 : 0;
    }
    return control_most((now_s() - began) / iterations);
}

/* Warms up and learns what a call takes: batches that double until one should take a twentieth of the
 * time. The best one counts, or a single interruption would make all spans too short. */
static double warm_up(const struct loop *loop, const struct order *order, char *memory, struct turn *turn)
{
    double best_s = time_calls(loop, order, memory, 1, turn);
    for (int iterations = 1; iterations < ITERATIONS_MOST; iterations *= 2) {
        if (best_s * iterations > order->seconds / 20 && iterations > 1)
            break;
        double call_s = time_calls(loop, order, memory, iterations, turn);
        best_s = call_s < best_s ? call_s : best_s;
        if (call_s > order->seconds)
            break;
    }
    return best_s;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int within(double value, int least, int most)
{
    return value < least ? least : value > most ? most : (int)value;
}

/* The spans' times are those of the slowest rank, so all ranks draw the same conclusions from them. */
static void time_spans(const struct loop *loop, const struct order *order, char *memory,
                       struct result *result)
{
    struct turn turn = { 0 };
    double span_s[SPANS_MOST], total_s = 0;
    double call_s = warm_up(loop, order, memory, &turn);
    int least = call_s > 1 ? 1 : SPANS_LEAST; /* a peer that takes seconds need not take them thrice */
    int spans = within(order->seconds / call_s, least, SPANS_MOST), done = 0;
    int iterations = within(order->seconds / spans / call_s, 1, ITERATIONS_MOST);
    while (done < spans && (done < least || total_s < 2 * order->seconds)) {
        double time_s = time_calls(loop, order, memory, iterations, &turn);
        span_s[done++] = time_s;
        total_s += time_s * iterations;
        if (time_s * iterations > 2 * order->seconds / spans && iterations > 1)
            iterations /= 2; /* slower than it was when warming up */
    }
    qsort(span_s, (size_t)done, sizeof *span_s, compare_doubles);
    result->spans = done;
    result->iterations = iterations;
    result->least_us = span_s[0] * 1e6;
    result->median_us = span_s[done / 2] * 1e6;
    result->most_us = span_s[done - 1] * 1e6;
}

/* Rank 0 measures; meanwhile the others sleep in the barrier. */
static double measure_line(const struct loop *loop)
{
    double cost = loop->rank == 0 && loop->cpu_count > 1 ? line_cost(loop->cpus[0], loop->cpus[1]) : 0;
    return control_most(cost);
}

static struct result run(struct loop *loop, const struct order *order)
{
    struct result result = { 0 };
    char *memory = take_memory(loop, order->memory, rotations(order) * stride(order));
    result.right = check(loop, order, memory);
    memset(memory, 0, buffer_size(order));
    result.line_before_ns = measure_line(loop);
    time_spans(loop, order, memory, &result);
    result.line_after_ns = measure_line(loop);
    if (loop->kept[order->memory] > KEPT_MOST)
        give_memory(loop, order->memory);
    return result;
}

/* ------------------------------------------------------------------ orders */

static size_t block_count(const struct loop *loop, const struct order *order)
{
    enum collective collective = order->call.collective;
    size_t whole = order->bytes / type_size(order->call.type);
    return collective == ALL_REDUCE || collective == BROADCAST ? whole : whole / (size_t)loop->ranks;
}

/* "row COLLECTIVE TYPE MEMORY BYTES POOL SECONDS"; false for anything else, which ends the program. */
static bool parse_order(const struct loop *loop, const char *text, struct order *order)
{
    char collective[32], type[32], memory[32];
    *order = (struct order){ 0 };
    if (sscanf(text, "row %31s %31s %31s %zu %zu %lf", collective, type, memory, &order->bytes, &order->pool,
               &order->seconds) != 6)
        return false;
    order->call.collective = (enum collective)find_name(collective_names, COLLECTIVES, collective);
    order->call.type = (enum type)find_name(type_names, TYPES, type);
    order->memory = (enum memory)find_name(memory_names, MEMORIES, memory);
    order->call.count = block_count(loop, order);
    return true;
}

/* The driver's end counts as "quit". */
static bool next_order(const struct loop *loop, struct order *order)
{
    char text[ORDER_SIZE] = "quit";
    if (loop->rank == 0 && !fgets(text, sizeof text, loop->orders))
        strcpy(text, "quit");
    control_share(text);
    return parse_order(loop, text, order);
}

static void answer(const struct loop *loop, const struct result *result)
{
    if (loop->rank != 0)
        return;
    fprintf(loop->answers,
            "{\"time_us\": %.4f, \"least_us\": %.4f, \"most_us\": %.4f, \"spans\": %d, \"iterations\": %d, "
            "\"line_before_ns\": %.1f, \"line_after_ns\": %.1f, \"right\": %s}\n",
            result->median_us, result->least_us, result->most_us, result->spans, result->iterations,
            result->line_before_ns, result->line_after_ns, result->right ? "true" : "false");
    fflush(loop->answers);
}

/* --------------------------------------------------------------- the start */

static const char *find_argument(int argc, char **argv, const char *name)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    fprintf(stderr, "compare: %s is missing; bench/compare/compare starts this program\n", name);
    return NULL;
}

static void parse_cpus(struct loop *loop, const char *list)
{
    char *end;
    for (; *list && loop->cpu_count < CPUS_MOST; list = *end == ',' ? end + 1 : end) {
        loop->cpus[loop->cpu_count] = (int)strtol(list, &end, 10);
        if (end == list)
            return;
        loop->cpu_count++;
    }
}

/* A core each where there are enough: the same place for every peer, whatever its launcher thinks. */
static void bind_rank(const struct loop *loop)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < loop->cpu_count; i++)
        if (loop->ranks > loop->cpu_count || i == loop->rank)
            CPU_SET(loop->cpus[i], &set);
    if (loop->cpu_count > 0)
        sched_setaffinity(0, sizeof set, &set);
}

/* Linux shares the cores between sessions, and some launchers give ranks one of their own: so each asks for itself. */
static void take_priority(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        FILE *weight = strcmp(argv[i], "--priority") == 0 ? fopen("/proc/self/autogroup", "we") : NULL;
        if (!weight)
            continue;
        fputs("-20", weight);
        fclose(weight);
    }
}

static bool call_driver(struct loop *loop, const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        fprintf(stderr, "compare: can't reach the driver at %s: %s\n", path, strerror(errno));
        return false;
    }
    loop->orders = fdopen(fd, "r");
    loop->answers = fdopen(dup(fd), "w");
    return loop->orders && loop->answers;
}

static void introduce(const struct loop *loop)
{
    const char *comma = "";
    fprintf(loop->answers, "{\"peer\": \"%s\", \"version\": \"%s\", \"ranks\": %d, \"can\": [",
            loop->backend->name, loop->backend->version(), loop->ranks);
    for (int i = 0; i < COLLECTIVES * TYPES * MEMORIES; i++) {
        enum collective collective = (enum collective)(i / (TYPES * MEMORIES));
        enum type type = (enum type)(i / MEMORIES % TYPES);
        enum memory memory = (enum memory)(i % MEMORIES);
        if (!loop->backend->can(collective, type, memory))
            continue;
        fprintf(loop->answers, "%s\"%s %s %s\"", comma, collective_names[collective], type_names[type],
                memory_names[memory]);
        comma = ", ";
    }
    fprintf(loop->answers, "]}\n");
    fflush(loop->answers);
}

int loop_run(const struct backend *backend, int argc, char **argv)
{
    struct loop loop = { .backend = backend };
    struct order order;
    const char *control = find_argument(argc, argv, "--control");
    const char *socket = find_argument(argc, argv, "--socket");
    const char *cpus = find_argument(argc, argv, "--cpus");
    if (!control || !socket || !cpus)
        return EXIT_FAILURE;
    take_priority(argc, argv);
    if (!backend->start(&argc, &argv, &loop.rank, &loop.ranks))
        return EXIT_FAILURE;
    parse_cpus(&loop, cpus);
    bind_rank(&loop);
    if (!control_open(control, loop.rank, loop.ranks) || (loop.rank == 0 && !call_driver(&loop, socket)))
        return EXIT_FAILURE;
    if (loop.rank == 0)
        introduce(&loop);
    while (next_order(&loop, &order)) {
        struct result result = run(&loop, &order);
        answer(&loop, &result);
    }
    for (int memory = 0; memory < MEMORIES; memory++)
        give_memory(&loop, (enum memory)memory);
    backend->finish();
    return EXIT_SUCCESS;
}
