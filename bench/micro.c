#include "micro.h"

#include <argp.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "values.h"

enum { OPTION_SET = 256, BATCH_NS = 1000000, BUDGET_NS = 24000000, BATCHES_LEAST = 5, BATCHES_MOST = 99 };

static const struct micro_tool *const tools[] = { &micro_kernels, &micro_copy, &micro_line, &micro_wake };

const struct micro_tool *micro_find(const char *name)
{
    for (size_t i = 0; i < sizeof tools / sizeof tools[0]; i++)
        if (strcmp(name, tools[i]->name) == 0)
            return tools[i];
    return NULL;
}

/* ------------------------------------------------------------------- options */

/* clang-format off */
static const struct argp_option table[] = {
    { "datatype", 'd', "TYPE", 0, "element types, separated by commas, or all (default all)", 0 },
    { "op", 'o', "OP", 0, "operations, separated by commas, or all (default sum)", 0 },
    { "set", OPTION_SET, "NAME", 0,
      "auto, which is what collectives use, the name of a set of kernels (avx512, avx2, neon, scalar), or all", 0 },
    { "minbytes", 'b', "BYTES", 0, "first size: bytes such as 8, 64K, 1M (powers of 1024)", 0 },
    { "maxbytes", 'e', "BYTES", 0, "last size; each is four times the one before", 0 },
    { "json", 'J', "FILE", OPTION_ARG_OPTIONAL,
      "one JSON object a line, to FILE; without FILE to stdout, instead of the table", 0 },
    { 0 },
};
/* clang-format on */

struct parsing {
    struct micro *micro;
    const struct micro_tool *tool;
};

static void parse_types(struct micro *micro, struct argp_state *state, const char *text)
{
    char *copy = strdup(text), *rest = copy, *name;
    micro->type_count = 0;
    while (copy && (name = strsep(&rest, ","))) {
        plait_type wanted = value_type(name);
        if (!wanted && strcmp(name, "all") != 0)
            argp_error(state,
                       "-d %s: good values are plait.h's and torch's names, such as bf16 or float32, and all",
                       name);
        for (plait_type type = (plait_type)1; plait_type_size(type) > 0; type++)
            if ((type == wanted || !wanted) && micro->type_count < LIST_MAX)
                micro->types[micro->type_count++] = type;
    }
    free(copy);
}

static void parse_ops(struct micro *micro, struct argp_state *state, const char *text)
{
    char *copy = strdup(text), *rest = copy, *name;
    micro->op_count = 0;
    while (copy && (name = strsep(&rest, ","))) {
        plait_op wanted = value_op(name);
        if (!wanted && strcmp(name, "all") != 0)
            argp_error(state, "-o %s: good values are plait.h's names, such as sum or max, and all", name);
        for (plait_op op = PLAIT_SUM; strcmp(plait_op_name(op), "?") != 0; op++)
            if ((op == wanted || !wanted) && micro->op_count < LIST_MAX)
                micro->ops[micro->op_count++] = op;
    }
    free(copy);
}

static void parse_size(struct argp_state *state, int letter, const char *text, size_t *size)
{
    if (!value_size(text, size) || *size < 64)
        argp_error(state, "-%c %s: good values are bytes from 64 on, such as 4K, 1M or 1G", letter, text);
}

static void open_json(struct micro *micro, struct argp_state *state, const char *path)
{
    micro->json = !path || strcmp(path, "-") == 0 ? stdout : fopen(path, "we");
    if (!micro->json)
        argp_failure(state, EXIT_FAILURE, errno, "can't write %s", path);
    if (micro->json == stdout)
        micro->table = NULL;
}

static int letter_of(int key)
{
    return key == OPTION_SET ? 's' : key;
}

/* The options that `tool` has, for its --help; `own` has room for all. */
static void pick_options(const struct micro_tool *tool, struct argp_option *own)
{
    for (const struct argp_option *option = table; option->name; option++)
        if (strchr(tool->accepts, letter_of(option->key)))
            *own++ = *option;
    *own = (struct argp_option){ 0 };
}

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    const struct parsing *parsing = state->input;
    struct micro *micro = parsing->micro;
    switch (key) {
    case 'd': parse_types(micro, state, value); return 0;
    case 'o': parse_ops(micro, state, value); return 0;
    case 'b': parse_size(state, key, value, &micro->least_bytes); return 0;
    case 'e': parse_size(state, key, value, &micro->most_bytes); return 0;
    case 'J': open_json(micro, state, value); return 0;
    case OPTION_SET: micro->set = value; return 0;
    case ARGP_KEY_ARG: argp_error(state, "%s takes no argument \"%s\"", parsing->tool->name, value); return 0;
    case ARGP_KEY_END:
        if (micro->least_bytes > micro->most_bytes)
            argp_error(state, "-b %zu is more than -e %zu", micro->least_bytes, micro->most_bytes);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int micro_run(const struct micro_tool *tool, int argc, char **argv)
{
    char doc[4096], name[64];
    struct micro micro = { .name = tool->name,
                           .set = "auto",
                           .least_bytes = tool->least_bytes,
                           .most_bytes = tool->most_bytes,
                           .table = stdout };
    struct parsing parsing = { &micro, tool };
    snprintf(doc, sizeof doc, "%s\v%s", tool->doc, tool->explanation);
    snprintf(name, sizeof name, "plait-perf %s", tool->name);
    struct argp_option own[sizeof table / sizeof table[0]];
    pick_options(tool, own);
    const struct argp argp = { own, parse_option, "", doc, NULL, NULL, NULL };
    parse_types(&micro, NULL, "all");
    parse_ops(&micro, NULL, "sum");
    argp_err_exit_status = EXIT_USAGE;
    argv[0] = name;
    argp_parse(&argp, argc, argv, 0, NULL, &parsing);

    bool good = tool->run(&micro);
    FILE *out = micro.json ? micro.json : stdout;
    if (fflush(out) != 0 || ferror(out)) {
        fprintf(stderr, "plait-perf: can't write what was measured: %s\n", strerror(errno));
        good = false;
    }
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---------------------------------------------------------------- for the tools */

static double time_batch(void (*function)(void *), void *context, long calls)
{
    double start = measure_ns();
    for (long i = 0; i < calls; i++)
        function(context);
    return measure_ns() - start;
}

double micro_time(void (*function)(void *), void *context)
{
    long calls = 1;
    double took = time_batch(function, context, calls), batches[BATCHES_MOST];
    while (took < BATCH_NS) {
        calls = took < BATCH_NS / 16 ? calls * 8 : (long)((double)calls * 1.1 * BATCH_NS / took) + 1;
        took = time_batch(function, context, calls);
    }
    int count = 0;
    double end = measure_ns() + BUDGET_NS;
    while (count < BATCHES_LEAST || (measure_ns() < end && count < BATCHES_MOST))
        batches[count++] = time_batch(function, context, calls) / (double)calls;
    return measure_median(batches, count);
}

void *micro_memory(size_t size)
{
    void *memory = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    if (!memory) {
        fprintf(stderr, "plait-perf: no memory for %zu bytes: use a smaller -e\n", size);
        exit(EXIT_FAILURE);
    }
    memset(memory, 0, size);
    return memory;
}

int micro_cpu(int index)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return -1;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && index-- == 0)
            return cpu;
    return -1;
}

void micro_bind(int cpu)
{
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(cpu, &own);
    sched_setaffinity(0, sizeof own, &own); /* measured all the same where the system refuses */
}
